package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptionsComeAloneAndBundled(t *testing.T) {
	for _, args := range [][]string{{"-x", "-f", "-", "-C", `C:\k`}, {"-xf", "-", "-C", `C:\k`}, {"xf", "-", `-CC:\k`}} {
		o, err := parse(args)
		require.NoError(t, err, args)
		assert.Equal(t, options{extract: true, keepTimes: true, archive: "-", dir: `C:\k`}, o, args)
	}
	for _, args := range [][]string{{"-tf", "-"}, {"-c", "-f", "-"}, {"-x", "-f"}, {"-xf", "-", "member"}} {
		_, err := parse(args)
		assert.Error(t, err, args)
	}
}

func archive(t *testing.T, names ...string) *bytes.Buffer {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, name := range names {
		require.NoError(t, writer.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}))
		writer.Write([]byte("x"))
	}
	require.NoError(t, writer.Close())
	return &buffer
}

func TestMembersStayInTheFolder(t *testing.T) {
	for _, name := range []string{"../out", "a/../../out", `a\..\..\out`} {
		err := options{extract: true, archive: "-", dir: t.TempDir()}.run(archive(t, name))
		assert.ErrorContains(t, err, "path contains '..'", name)
	}
	dir := t.TempDir()
	require.NoError(t, options{extract: true, archive: "-", dir: dir}.run(archive(t, "/abs", `C:\drive`, "a/b")))
	for _, name := range []string{"abs", "drive", "a/b"} {
		assert.FileExists(t, filepath.Join(dir, name))
	}
}

func TestATruncatedArchiveIsAnError(t *testing.T) {
	whole := archive(t, "a")
	whole.Truncate(512)
	assert.Error(t, options{extract: true, archive: "-", dir: t.TempDir()}.run(whole))
	assert.Error(t, options{extract: true, archive: filepath.Join(t.TempDir(), "absent"), dir: t.TempDir()}.run(os.Stdin))
}
