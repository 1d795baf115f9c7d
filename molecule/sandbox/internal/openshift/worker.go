package openshift

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

//go:embed worker/worker.yaml
var workerSource string

// workerNames are what the worker's files mention of the cluster.
type workerNames struct {
	APIInt     string
	ClusterDNS string
	Extra      string // contents of a file that only some rendered configs have; none if empty
}

type workerFile struct {
	Path     string `json:"path"`
	Mode     int    `json:"mode"`
	Encoding string `json:"encoding"`
	Contents string `json:"contents"`
}

type workerUnit struct {
	Name     string         `json:"name"`
	Enabled  *bool          `json:"enabled,omitempty"`
	Contents string         `json:"contents,omitempty"`
	Dropins  []workerDropin `json:"dropins,omitempty"`
}

type workerDropin struct {
	Name     string `json:"name"`
	Contents string `json:"contents"`
}

type object = map[string]any

// RenderWorker returns the worker's Ignition (spec 3.5.0) as the Machine Config Operator stores it in a rendered MachineConfig:
// with the empty objects that its Go types leave in the JSON.
func renderWorker(names workerNames) ([]byte, error) {
	parsed, err := template.New("worker.yaml").Option("missingkey=error").Parse(workerSource)
	if err != nil {
		return nil, fmt.Errorf("worker Ignition: %w", err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, names); err != nil {
		return nil, fmt.Errorf("worker Ignition: %w", err)
	}
	var source struct {
		Files []workerFile `json:"files"`
		Units []workerUnit `json:"units"`
	}
	if err := yaml.UnmarshalStrict(text.Bytes(), &source); err != nil {
		return nil, fmt.Errorf("worker Ignition: %w", err)
	}
	if names.Extra != "" {
		source.Files = append(source.Files, workerFile{Path: "/etc/sandbox-extra", Mode: 0o644, Encoding: "url", Contents: names.Extra})
	}
	files := make([]object, 0, len(source.Files))
	for _, file := range source.Files {
		one, err := file.ignition()
		if err != nil {
			return nil, err
		}
		files = append(files, one)
	}
	return json.Marshal(object{
		"ignition": object{
			"version":  "3.5.0",
			"config":   object{"replace": object{"verification": object{}}},
			"proxy":    object{},
			"security": object{"tls": object{}},
			"timeouts": object{},
		},
		"kernelArguments": object{},
		"passwd":          object{"users": []object{{"name": "core", "sshAuthorizedKeys": []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHNhbmRib3gtbm8tcmVhbC1rZXktaXMtaW4taGVyZS0w core@sandbox"}}}},
		"storage":         object{"files": files},
		"systemd":         object{"units": source.Units},
	})
}

func (f workerFile) ignition() (object, error) {
	contents := object{"compression": "", "verification": object{}}
	switch f.Encoding {
	case "url":
		contents["source"] = "data:," + escapeData(f.Contents)
	case "base64":
		contents["source"] = "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(f.Contents))
	case "gzip":
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		if _, err := writer.Write([]byte(f.Contents)); err != nil {
			return nil, fmt.Errorf("worker file %s: %w", f.Path, err)
		}
		if err := writer.Close(); err != nil {
			return nil, fmt.Errorf("worker file %s: %w", f.Path, err)
		}
		contents["compression"] = "gzip"
		contents["source"] = "data:;base64," + base64.StdEncoding.EncodeToString(packed.Bytes())
	default:
		return nil, fmt.Errorf("worker file %s: unknown encoding %q", f.Path, f.Encoding)
	}
	return object{"path": f.Path, "mode": f.Mode, "overwrite": true, "user": object{}, "group": object{}, "contents": contents}, nil
}

// escapeData percent-encodes for a data URL: a blank becomes %20, never +.
func escapeData(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// renderedName is the name of the rendered MachineConfig, which the Machine Config Operator derives from its contents by MD5.
func renderedName(config []byte) string {
	sum := md5.Sum(config)
	return "rendered-worker-" + hex.EncodeToString(sum[:])
}
