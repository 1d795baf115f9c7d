package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/securefile"
)

const (
	galaxyFile = "galaxy.yml"
	filesFile  = "FILES.json"
	// format is the version of Ansible's manifests, lib/ansible/galaxy/collection/__init__.py (MANIFEST_FORMAT).
	format = 1
)

// galaxy is what galaxy.yml may say. `ansible-galaxy collection build` knows more; what is not here is refused.
type galaxy struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Authors     []string `json:"authors"`
	Readme      string   `json:"readme"`
	Tags        []string `json:"tags"`
	Description string   `json:"description"`
	LicenseFile string   `json:"license_file"`
	Repository  string   `json:"repository"`
	BuildIgnore []string `json:"build_ignore"`
}

// info is the collection_info of MANIFEST.json: the fields that Ansible writes, in its order.
type info struct {
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	Version       string            `json:"version"`
	Authors       []string          `json:"authors"`
	Readme        string            `json:"readme"`
	Tags          []string          `json:"tags"`
	Description   string            `json:"description"`
	License       []string          `json:"license"`
	LicenseFile   string            `json:"license_file"`
	Dependencies  map[string]string `json:"dependencies"`
	Repository    string            `json:"repository"`
	Documentation *string           `json:"documentation"`
	Homepage      *string           `json:"homepage"`
	Issues        *string           `json:"issues"`
}

// listed is an entry of a manifest; folders have no checksum.
type listed struct {
	Name   string  `json:"name"`
	Ftype  string  `json:"ftype"`
	Type   *string `json:"chksum_type"`
	SHA256 *string `json:"chksum_sha256"`
	Format int     `json:"format"`
}

// manifests gives MANIFEST.json and FILES.json.
func manifests(folder string, entries []entry) (manifest, files []byte, err error) {
	raw, err := os.ReadFile(filepath.Join(folder, galaxyFile))
	if err != nil {
		return nil, nil, err
	}
	var g galaxy
	if err := yaml.UnmarshalStrict(raw, &g); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", galaxyFile, err)
	}
	if len(g.BuildIgnore) > 0 {
		return nil, nil, fmt.Errorf("%s: build_ignore: nothing is left out here; do not put it into the folder", galaxyFile)
	}
	list := []listed{{Name: ".", Ftype: "dir", Format: format}}
	for _, one := range entries {
		if one.mode.Type() == fs.ModeDir {
			list = append(list, listed{Name: one.name, Ftype: "dir", Format: format})
			continue
		}
		// A link's checksum is that of what it leads to.
		sum, err := securefile.Digest(filepath.Join(folder, one.name))
		if err != nil {
			return nil, nil, err
		}
		list = append(list, file(one.name, sum))
	}
	if files, err = document(map[string]any{"files": list, "format": format}); err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(files)
	manifest, err = document(map[string]any{
		"collection_info": info{
			Namespace: g.Namespace, Name: g.Name, Version: g.Version, Authors: g.Authors, Readme: g.Readme, Tags: g.Tags,
			Description: g.Description, License: []string{}, LicenseFile: g.LicenseFile, Dependencies: map[string]string{}, Repository: g.Repository,
		},
		"file_manifest_file": file(filesFile, hex.EncodeToString(sum[:])),
		"format":             format,
	})
	return manifest, files, err
}

func file(name, sum string) listed {
	kind := "sha256"
	return listed{Name: name, Ftype: "file", Type: &kind, SHA256: &sum, Format: format}
}

func document(value any) ([]byte, error) { return json.MarshalIndent(value, "", " ") }
