// Command wsu is every Ansible module of the collection in one binary: the module is the name that the binary is called
// by (csr_approve, csr_approve.linux-amd64), or its first argument (wsu csr_approve ARGUMENTS.json).
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/version"
)

func main() {
	os.Exit(dispatch(os.Args, os.Stdout, os.Stderr))
}

func dispatch(argv []string, stdout, stderr io.Writer) int {
	name, arguments := called(argv[0]), argv[1:]
	if module, ok := find(name); ok {
		return ansible.Main(module, arguments, stdout, stderr)
	}
	if len(arguments) == 0 {
		return usage(stderr)
	}
	if module, ok := find(arguments[0]); ok {
		return ansible.Main(module, arguments[1:], stdout, stderr)
	}
	if arguments[0] == "version" || arguments[0] == "--version" {
		fmt.Fprintln(stdout, version.Release)
		return 0
	}
	return usage(stderr)
}

// called makes of /tmp/x/csr_approve.linux-amd64 the module's name csr_approve.
func called(argv0 string) string {
	base, _, _ := strings.Cut(filepath.Base(argv0), ".")
	return strings.TrimPrefix(base, "AnsiballZ_")
}

func find(name string) (ansible.Module, bool) {
	i := slices.IndexFunc(modules, func(m ansible.Module) bool { return m.Name == name })
	if i < 0 {
		return ansible.Module{}, false
	}
	return modules[i], true
}

func usage(stderr io.Writer) int {
	names := make([]string, 0, len(modules))
	for _, module := range modules {
		names = append(names, module.Name)
	}
	fmt.Fprintf(stderr, "usage: wsu MODULE ARGUMENTS.json\nmodules: %s\n", strings.Join(names, ", "))
	return 2
}
