package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryModuleOfABinaryIsNamed(t *testing.T) {
	self := filepath.Join(t.TempDir(), "sbom")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", self, "wsu.windows/internal/release/gen").CombinedOutput()
	require.NoError(t, err, string(output))
	one, err := inspect(self)
	require.NoError(t, err)
	built := document("0.1.0", time.Unix(1700000000, 0), []binary{one})
	names := map[string]string{}
	for _, c := range built.Components {
		names[c.Name] = c.Version
	}
	info, err := buildinfo.ReadFile(self)
	require.NoError(t, err)
	for _, dep := range info.Deps {
		assert.Equal(t, dep.Version, names[dep.Path], dep.Path)
	}
	assert.Contains(t, names, "sigs.k8s.io/yaml")
	assert.Contains(t, names, "std")
	assert.Contains(t, names, filepath.Base(self))
	assert.NotContains(t, names, "wsu.windows", "the release itself is the document's subject")
	assert.Equal(t, "2023-11-14T22:13:20Z", built.Metadata.Timestamp)
}

func TestAModuleOfTwoBinariesIsNamedOnceAndOneOfTwoVersionsTwice(t *testing.T) {
	yaml := module{"sigs.k8s.io/yaml", "v1.6.0", ""}
	built := document("0.1.0", time.Unix(0, 0), []binary{
		{name: "a", goVersion: "go1.26.8", modules: []module{yaml, {"example.com/X", "v1.0.0+incompatible", ""}}},
		{name: "b", goVersion: "go1.26.8", modules: []module{yaml, {"example.com/X", "v1.1.0", ""}}},
	})
	var refs []string
	for _, c := range built.Components {
		refs = append(refs, c.Ref)
	}
	assert.Equal(t, []string{"file:a", "file:b", "pkg:golang/example.com/x@v1.0.0%2Bincompatible", "pkg:golang/example.com/x@v1.1.0",
		"pkg:golang/sigs.k8s.io/yaml@v1.6.0", "pkg:golang/std@1.26.8"}, refs)
	assert.Equal(t, []dependency{
		{"wsu.windows", []string{"file:a", "file:b"}},
		{"file:a", []string{"pkg:golang/example.com/x@v1.0.0%2Bincompatible", "pkg:golang/sigs.k8s.io/yaml@v1.6.0", "pkg:golang/std@1.26.8"}},
		{"file:b", []string{"pkg:golang/example.com/x@v1.1.0", "pkg:golang/sigs.k8s.io/yaml@v1.6.0", "pkg:golang/std@1.26.8"}},
	}, built.Dependencies)
}

func TestTheSerialNumberIsAUUIDThatFollowsTheContents(t *testing.T) {
	serial := func(sum string) string {
		return document("0.1.0", time.Unix(0, 0), []binary{{name: "a", sha256: sum}}).SerialNumber
	}
	assert.Regexp(t, regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), serial("1"))
	assert.Equal(t, serial("1"), serial("1"))
	assert.NotEqual(t, serial("1"), serial("2"))
}

func TestAGoSumChecksumBecomesHexadecimal(t *testing.T) {
	sum, known := module{sum: "h1:G8fkbMSAFqgEFgh4b1wmtzDnioxFCUgTZhlbj5P9QYs="}.hash()
	assert.True(t, known)
	assert.Len(t, sum, 64)
	for _, other := range []string{"", "h1:", "h1:AAAA", "h2:G8fkbMSAFqgEFgh4b1wmtzDnioxFCUgTZhlbj5P9QYs="} {
		_, known := module{sum: other}.hash()
		assert.False(t, known, other)
	}
}

func TestAFileWithoutBuildInformationIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(file, []byte("no program"), 0o600))
	_, err := inspect(file)
	assert.ErrorContains(t, err, file)
}
