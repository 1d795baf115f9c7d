// Command gen writes docs/variables.md: gen ROOT.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"wsu.windows/internal/variables"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string) error {
	list, err := variables.Read(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "variables.md"), variables.Markdown(list), 0o644)
}
