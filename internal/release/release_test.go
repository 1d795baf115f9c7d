package release

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"wsu.windows/internal/reason"
)

const complete = `release: 0.1.0
kubernetes: v1.36.3
files:
- {name: kubelet.exe, component: kubelet, version: v1.36.3, url: kubelet.exe, size: 5, sha256: ` + sum + `}
- {name: wmcb.exe, component: wmcb, version: 0.1.0, url: "https://x/wmcb.exe", size: 5, sha256: ` + sum + `}
`

const sum = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestACompleteReleaseIsRead(t *testing.T) {
	r, err := Parse([]byte(complete), "release.yml")
	require.NoError(t, err)
	f, found := r.File("wmcb")
	assert.True(t, found)
	assert.Equal(t, "https://x/wmcb.exe", f.URL)
}

func TestEveryMistakeInAReleaseIsNamed(t *testing.T) {
	for says, change := range map[string][2]string{
		`"0.1" is not a version`:             {"release: 0.1.0", `release: "0.1"`},
		`"1.36.3" is not a version as v1`:    {"kubernetes: v1.36.3", "kubernetes: 1.36.3"},
		"unknown field":                      {"release: 0.1.0", "release: 0.1.0\nrelaese: x"},
		"is not a SHA-256":                   {sum, "short"},
		"-5 is not a size":                   {"size: 5", "size: -5"},
		`"../x" is not a file name`:          {"name: kubelet.exe", "name: ../x"},
		"the name is there twice":            {"name: wmcb.exe", "name: kubelet.exe"},
		"it is v1.36.3, and kubernetes is ":  {"kubernetes: v1.36.3", "kubernetes: v1.35.0"},
		"it has no component":                {"component: wmcb,", ""},
		`no file of the component "wmcb"`:    {"component: wmcb,", "component: other,"},
		`no file of the component "kubelet"`: {"component: kubelet,", "component: other,"},
		"the component is there twice":       {"component: wmcb", "component: kubelet"},
		"0 is not a size":                    {"size: 5", "size: 0"},
	} {
		_, err := Parse([]byte(strings.Replace(complete, change[0], change[1], 1)), "release.yml")
		assert.True(t, reason.Is(err, reason.ReleaseInvalid), says)
		assert.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, "release.yml")
	}
	_, err := Parse([]byte("release: 0.1.0\nkubernetes: v1.36.3\nfiles: []\n"), "release.yml")
	assert.ErrorContains(t, err, "it is empty")
}

func TestAKubeletIsNeverNewerAndAtMostThreeMinorsOlder(t *testing.T) {
	r, err := Parse([]byte(complete), "release.yml")
	require.NoError(t, err)
	for server, fits := range map[string]bool{
		"v1.36.0": true, "v1.36.9": true, "v1.37.1": true, "v1.39.0": true, "v1.36.3+rhcos-1": true, "": true,
		"v1.35.9": false, "v1.40.0": false, "v2.0.0": false,
	} {
		err := r.CheckSkew(server)
		assert.Equal(t, fits, err == nil, "%s: %v", server, err)
		if !fits {
			assert.True(t, reason.Is(err, reason.VersionSkew))
			assert.ErrorContains(t, err, server)
		}
	}
	assert.True(t, reason.Is(r.CheckSkew("latest"), reason.ArgumentInvalid))
}

// The version stands where each tool looks for it.
func TestTheVersionsOfTheReleaseAgree(t *testing.T) {
	var r Release
	raw, err := os.ReadFile("../../release.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(raw, &r))
	var galaxy struct {
		Version string `json:"version"`
	}
	raw, err = os.ReadFile("../../galaxy.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &galaxy))
	assert.Equal(t, r.Release, galaxy.Version)
	wmcb, _ := r.File("wmcb")
	assert.Equal(t, r.Release, wmcb.Version)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(complete))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Parse(raw, "release.yml")
		if err != nil {
			return
		}
		for _, file := range r.Files {
			assert.Len(t, file.SHA256, 64)
			assert.NotContains(t, file.Name, "/")
		}
	})
}
