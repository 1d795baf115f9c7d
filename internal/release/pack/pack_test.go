package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const galaxyYML = `namespace: wsu
name: windows
version: 0.1.0
readme: README.md
authors: [us]
description: d
license_file: LICENSE
tags: [windows]
repository: https://example.com
build_ignore: []
`

func collection(t *testing.T) string {
	folder := t.TempDir()
	for name, content := range map[string]string{galaxyFile: galaxyYML, "README.md": "read", "LICENSE": "free", "plugins/bin/wsu.linux-amd64": "binary"} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	require.NoError(t, os.Chmod(filepath.Join(folder, "plugins/bin/wsu.linux-amd64"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "plugins/modules"), 0o700))
	require.NoError(t, os.Symlink("../bin/wsu.linux-amd64", filepath.Join(folder, "plugins/modules/ignition")))
	return folder
}

type member struct {
	tar.Header
	content string
}

func unpack(t *testing.T, file string) (names []string, members map[string]member) {
	raw, err := os.Open(file)
	require.NoError(t, err)
	defer raw.Close()
	plain, err := gzip.NewReader(raw)
	require.NoError(t, err)
	archive := tar.NewReader(plain)
	members = map[string]member{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, members
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		names = append(names, header.Name)
		members[header.Name] = member{*header, string(content)}
	}
}

func TestTheArchiveIsOneThatAnsibleGalaxyTakes(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	folder, file := collection(t), filepath.Join(t.TempDir(), "c.tar.gz")
	require.NoError(t, run(folder, file))
	names, members := unpack(t, file)
	assert.Equal(t, []string{"MANIFEST.json", "FILES.json", "LICENSE", "README.md", "plugins", "plugins/bin", "plugins/bin/wsu.linux-amd64",
		"plugins/modules", "plugins/modules/ignition"}, names, "galaxy.yml is not in it")
	assert.EqualValues(t, 0o755, members["plugins/bin/wsu.linux-amd64"].Mode)
	assert.EqualValues(t, 0o644, members["README.md"].Mode)
	assert.Equal(t, "../bin/wsu.linux-amd64", members["plugins/modules/ignition"].Linkname)

	var manifest struct {
		Info struct{ Namespace, Name, Version string } `json:"collection_info"`
		File struct {
			Sum string `json:"chksum_sha256"`
		} `json:"file_manifest_file"`
	}
	require.NoError(t, json.Unmarshal([]byte(members["MANIFEST.json"].content), &manifest))
	assert.Equal(t, "wsu.windows 0.1.0", manifest.Info.Namespace+"."+manifest.Info.Name+" "+manifest.Info.Version)
	assert.Equal(t, sum(members["FILES.json"].content), manifest.File.Sum)

	var files struct {
		Files []struct {
			Name string  `json:"name"`
			Sum  *string `json:"chksum_sha256"`
		} `json:"files"`
	}
	require.NoError(t, json.Unmarshal([]byte(members["FILES.json"].content), &files))
	sums := map[string]*string{}
	for _, f := range files.Files {
		sums[f.Name] = f.Sum
	}
	assert.Len(t, sums, 8)
	assert.Nil(t, sums["plugins"])
	assert.Equal(t, sum("read"), *sums["README.md"])
	assert.Equal(t, sum("binary"), *sums["plugins/modules/ignition"], "a link has the sum of what it leads to")
}

func sum(content string) string {
	raw := sha256.Sum256([]byte(content))
	return hex.EncodeToString(raw[:])
}

func TestTheSameFilesGiveTheSameBytesWhateverTheirTimesAndModes(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var packed [2][]byte
	for i := range packed {
		folder, file := collection(t), filepath.Join(t.TempDir(), "c.tar.gz")
		at := time.Unix(int64(1e9*i), 0)
		require.NoError(t, os.Chtimes(filepath.Join(folder, "README.md"), at, at))
		require.NoError(t, os.Chmod(filepath.Join(folder, "LICENSE"), []os.FileMode{0o600, 0o664}[i]))
		require.NoError(t, run(folder, file))
		var err error
		packed[i], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	assert.Equal(t, packed[0], packed[1])
}

func TestALinkThatLeadsOutOfTheCollectionIsRefused(t *testing.T) {
	for _, target := range []string{"../../x", "/etc/passwd", "../.."} {
		folder := collection(t)
		require.NoError(t, os.Symlink(target, filepath.Join(folder, "plugins/out")))
		_, err := list(folder)
		assert.ErrorContains(t, err, "leads out of the collection", target)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	folder := collection(t)
	assert.ErrorContains(t, run(folder, filepath.Join(t.TempDir(), "c.tar.gz")), "SOURCE_DATE_EPOCH")
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	require.NoError(t, os.WriteFile(filepath.Join(folder, galaxyFile), []byte(galaxyYML+"dependencies: {a.b: '*'}\n"), 0o600))
	assert.ErrorContains(t, run(folder, filepath.Join(t.TempDir(), "c.tar.gz")), "dependencies")
}
