// Command gen completes a release.yml with the sizes and digests of built files: gen RELEASE.yml FOLDER > FOLDER/release.yml
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/release"
	"wsu.windows/internal/securefile"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen RELEASE.yml FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(source, folder string) error {
	raw, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	var r release.Release
	if err := yaml.UnmarshalStrict(raw, &r); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	for i := range r.Files {
		path := filepath.Join(folder, r.Files[i].Name)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		r.Files[i].Size = info.Size()
		if r.Files[i].SHA256, err = securefile.Digest(path); err != nil {
			return err
		}
	}
	complete, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := release.Parse(complete, source); err != nil {
		return err
	}
	_, err = fmt.Printf("---\n# Written by `make payload`.\n%s", complete)
	return err
}
