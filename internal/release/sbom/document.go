package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// bom and the types below are the parts of CycloneDX 1.6 that are used here.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// document describes the release: it is made of binaries, and they of modules and Go's standard library.
func document(release string, at time.Time, binaries []binary) bom {
	root := component{Type: "application", Ref: "wsu.windows", Name: "wsu.windows", Version: release}
	libraries := map[string]component{}
	var programs []component
	var dependencies []dependency
	whole := dependency{Ref: root.Ref}
	serial := sha256.New()
	fmt.Fprint(serial, release, at.Unix())
	for _, one := range binaries {
		fmt.Fprint(serial, one.name, one.sha256)
		program := component{Type: "application", Ref: "file:" + one.name, Name: one.name, Hashes: []hash{{"SHA-256", one.sha256}}}
		programs = append(programs, program)
		whole.DependsOn = append(whole.DependsOn, program.Ref)
		needs := dependency{Ref: program.Ref}
		for _, m := range append(one.modules, module{path: "std", version: strings.TrimPrefix(one.goVersion, "go")}) {
			library := component{Type: "library", Ref: m.purl(), Name: m.path, Version: m.version, PURL: m.purl()}
			if sum, known := m.hash(); known {
				library.Hashes = []hash{{"SHA-256", sum}}
			}
			libraries[library.Ref] = library
			needs.DependsOn = append(needs.DependsOn, library.Ref)
		}
		slices.Sort(needs.DependsOn)
		dependencies = append(dependencies, needs)
	}
	components := programs
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		components = append(components, libraries[ref])
	}
	return bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6",
		SerialNumber: uuid(serial.Sum(nil)), Version: 1,
		Metadata:   metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: root},
		Components: components, Dependencies: append([]dependency{whole}, dependencies...),
	}
}

// uuid makes a URN of a digest (RFC 9562, version 8: the maker's own way).
func uuid(digest []byte) string {
	raw := digest[:16]
	raw[6] = raw[6]&0x0f | 0x80
	raw[8] = raw[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
