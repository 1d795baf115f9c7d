// Package release reads release.yml: the version of a release and every file of its payload.
package release

import (
	"fmt"
	"net/url"
	"os"
	"regexp"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"wsu.windows/internal/reason"
)

// MaxFileSize bounds one file of the payload, in bytes.
const MaxFileSize = 2 << 30

// maxSkew is how many minor versions a kubelet may be older than its API server.
const maxSkew = 3

var (
	digest   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	fileName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`)
)

// Release is the document.
type Release struct {
	// Release is the version of playbooks, modules and wmcb.exe together.
	Release string `json:"release"`
	// Kubernetes is the kubelet's version, as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	Files      []File `json:"files"`
}

// File is one file of the payload.
type File struct {
	Name string `json:"name"`
	// Component is what it is a file of, Version that component's own version.
	Component string `json:"component"`
	Version   string `json:"version"`
	// URL is absolute, or relative to the payload's place.
	URL string `json:"url"`
	// Size is in bytes; SHA256 has 64 lower-case hexadecimal digits.
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Read reads a file. Errors are reason.Errors that name the file and the field.
func Read(path string) (*Release, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, reason.Wrap(reason.ReleaseInvalid, path, err, "")
	}
	return Parse(raw, path)
}

// Parse reads the document of a complete release: with sizes and digests. name is for messages.
func Parse(raw []byte, name string) (*Release, error) {
	r := &Release{}
	if err := yaml.UnmarshalStrict(raw, r); err != nil {
		return nil, reason.Wrap(reason.ReleaseInvalid, name, err, "")
	}
	if field, problem := r.problem(); problem != "" {
		return nil, reason.New(reason.ReleaseInvalid, name+": "+field, problem, "")
	}
	return r, nil
}

func (r *Release) problem() (field, problem string) {
	if _, err := semver.StrictNewVersion(r.Release); err != nil {
		return "release", fmt.Sprintf("%q is not a version as 1.2.3", r.Release)
	}
	if !isKubernetes(r.Kubernetes) {
		return "kubernetes", fmt.Sprintf("%q is not a version as v1.36.3", r.Kubernetes)
	}
	if len(r.Files) == 0 {
		return "files", "it is empty"
	}
	seen, components := map[string]bool{}, map[string]bool{}
	for i, f := range r.Files {
		at := fmt.Sprintf("files[%d]", i)
		if !fileName.MatchString(f.Name) {
			return at + ".name", fmt.Sprintf("%q is not a file name", f.Name)
		}
		at = f.Name
		switch {
		case seen[f.Name]:
			return at, "the name is there twice"
		case components[f.Component]:
			return at, "the component is there twice"
		case f.Component == "kubelet" && f.Version != r.Kubernetes:
			return at + ".version", fmt.Sprintf("it is %s, and kubernetes is %s", f.Version, r.Kubernetes)
		case f.Component == "" || f.Version == "":
			return at, "it has no component or no version"
		case !digest.MatchString(f.SHA256):
			return at + ".sha256", fmt.Sprintf("%q is not a SHA-256", f.SHA256)
		case f.Size <= 0 || f.Size > MaxFileSize:
			return at + ".size", fmt.Sprintf("%d is not a size in bytes", f.Size)
		}
		if _, err := url.Parse(f.URL); err != nil {
			return at + ".url", fmt.Sprintf("%q is not a URL", f.URL)
		}
		seen[f.Name], components[f.Component] = true, true
	}
	for _, component := range []string{"kubelet", "wmcb"} {
		if !components[component] {
			return "files", fmt.Sprintf("there is no file of the component %q", component)
		}
	}
	return "", ""
}

func isKubernetes(version string) bool {
	if len(version) < 2 || version[0] != 'v' {
		return false
	}
	_, err := semver.StrictNewVersion(version[1:])
	return err == nil
}

// File gives the file of a component.
func (r *Release) File(component string) (File, bool) {
	for _, f := range r.Files {
		if f.Component == component {
			return f, true
		}
	}
	return File{}, false
}

// CheckSkew says whether the release's kubelet may join an API server of this version: not newer, and at most three minor versions older
// (https://kubernetes.io/releases/version-skew-policy/). An empty version is not checked.
func (r *Release) CheckSkew(apiServer string) error {
	if apiServer == "" {
		return nil
	}
	server, err := semver.NewVersion(apiServer)
	if err != nil {
		return reason.New(reason.ArgumentInvalid, "kubernetes_version", fmt.Sprintf("%q is not a version", apiServer), "")
	}
	kubelet := semver.MustParse(r.Kubernetes)
	object := fmt.Sprintf("release %s with kubelet %s", r.Release, r.Kubernetes)
	minor := func(v *semver.Version) uint64 { return v.Major()*1000 + v.Minor() }
	switch {
	case minor(kubelet) > minor(server):
		return reason.New(reason.VersionSkew, object, fmt.Sprintf("the kubelet is newer than the API server %s", apiServer),
			"Upgrade the cluster first, or use a release whose kubelet is at most "+fmt.Sprintf("v%d.%d", server.Major(), server.Minor())+".")
	case minor(kubelet)+maxSkew < minor(server):
		return reason.New(reason.VersionSkew, object, fmt.Sprintf("the kubelet is more than %d minor versions older than the API server %s", maxSkew, apiServer),
			"Use a newer release.")
	}
	return nil
}
