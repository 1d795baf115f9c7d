// Command pack makes the tarball that `ansible-galaxy collection install` takes out of an assembled collection: pack FOLDER FILE.tar.gz
// The same folder gives the same bytes, which `ansible-galaxy collection build` does not promise: the time in the archive is
// SOURCE_DATE_EPOCH, modes and owners are the same for all, names are sorted.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: SOURCE_DATE_EPOCH=SECONDS pack FOLDER FILE.tar.gz")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, file string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	entries, err := list(folder)
	if err != nil {
		return err
	}
	manifest, files, err := manifests(folder, entries)
	if err != nil {
		return err
	}
	temporary := file + ".new"
	out, err := os.Create(temporary)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	err = write(out, folder, time.Unix(seconds, 0), entries, manifest, files)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary, file)
}
