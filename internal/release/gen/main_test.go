package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/release"
)

const source = `release: 0.1.0
kubernetes: v1.36.3
files:
- {name: kubelet.exe, component: kubelet, version: v1.36.3, url: kubelet.exe}
- {name: wmcb.exe, component: wmcb, version: 0.1.0, url: "https://files.example/wmcb.exe"}
`

func TestAReleaseIsCompletedFromTheFilesThatWereBuilt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "source.yml")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubelet.exe"), []byte("abc"), 0o600))
	_, err := complete(file, dir, "")
	require.ErrorIs(t, err, os.ErrNotExist, "wmcb.exe was not built")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "wmcb.exe"), []byte("abcd"), 0o600))
	for folder, url := range map[string]string{"": "kubelet.exe", "0.1.0": "0.1.0/kubelet.exe"} {
		raw, err := complete(file, dir, folder)
		require.NoError(t, err)
		r, err := release.Parse(raw, "release.yml")
		require.NoError(t, err)
		assert.EqualValues(t, 3, r.Files[0].Size)
		assert.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", r.Files[0].SHA256, "FIPS 180-2's example")
		assert.Equal(t, url, r.Files[0].URL)
		assert.Equal(t, "https://files.example/wmcb.exe", r.Files[1].URL, "a whole URL stays")
	}
}
