// Command gen completes a release.yml with the sizes and digests of built files: gen RELEASE.yml FOLDER [URL-FOLDER] > FOLDER/release.yml
// With URL-FOLDER the files' relative URLs begin with it, so that one mirror holds several releases.
package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/release"
	"wsu.windows/internal/securefile"
)

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gen RELEASE.yml FOLDER [URL-FOLDER]")
		os.Exit(2)
	}
	complete, err := complete(os.Args[1], os.Args[2], strings.Join(os.Args[3:], ""))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("---\n# Written by `make payload` or `make release`.\n%s", complete)
}

// complete gives the document with sizes, digests and URLs.
func complete(source, folder, urlFolder string) ([]byte, error) {
	raw, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	var r release.Release
	if err := yaml.UnmarshalStrict(raw, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	for i := range r.Files {
		file := &r.Files[i]
		built := filepath.Join(folder, file.Name)
		info, err := os.Stat(built)
		if err != nil {
			return nil, err
		}
		file.Size = info.Size()
		if file.SHA256, err = securefile.Digest(built); err != nil {
			return nil, err
		}
		if !strings.Contains(file.URL, "://") {
			file.URL = path.Join(urlFolder, file.URL)
		}
	}
	complete, err := yaml.Marshal(r)
	if err != nil {
		return nil, err
	}
	_, err = release.Parse(complete, source)
	return complete, err
}
