package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"

	"wsu.windows/internal/securefile"
)

// binary is one program and the modules that are linked into it.
type binary struct {
	name, sha256, goVersion string
	modules                 []module
}

// module is one Go module, after replacement.
type module struct {
	path, version string
	sum           string // the checksum of go.sum, "h1:" and base64 of a SHA-256; empty if unknown
}

// inspect reads what `go version -m` shows.
func inspect(file string) (binary, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return binary{}, fmt.Errorf("%s: %w", file, err)
	}
	sum, err := securefile.Digest(file)
	if err != nil {
		return binary{}, err
	}
	one := binary{name: filepath.Base(file), sha256: sum, goVersion: info.GoVersion}
	for _, found := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if found.Replace != nil {
			found = found.Replace
		}
		if found.Version == "(devel)" || found.Version == "" { // the project's own
			continue
		}
		one.modules = append(one.modules, module{found.Path, found.Version, found.Sum})
	}
	return one, nil
}

// hash gives a module's checksum in hexadecimal.
func (m module) hash() (string, bool) {
	encoded, found := strings.CutPrefix(m.sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return hex.EncodeToString(raw), found && err == nil && len(raw) == 32
}

// purl is the package URL (https://github.com/package-url/purl-spec, type golang: in lower case).
func (m module) purl() string {
	return "pkg:golang/" + strings.ToLower(m.path) + "@" + strings.ReplaceAll(m.version, "+", "%2B")
}
