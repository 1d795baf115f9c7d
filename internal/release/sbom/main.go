// Command sbom writes a CycloneDX document (https://cyclonedx.org/docs/1.6/json/) of what is linked into a release's binaries, out of the build
// information that Go puts into each: sbom RELEASE FILE... > sbom.cdx.json
// The document's time is SOURCE_DATE_EPOCH, so that the same binaries give the same bytes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: SOURCE_DATE_EPOCH=SECONDS sbom RELEASE FILE...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(release string, files []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	var binaries []binary
	for _, file := range files {
		one, err := inspect(file)
		if err != nil {
			return err
		}
		binaries = append(binaries, one)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(document(release, time.Unix(seconds, 0), binaries))
}
