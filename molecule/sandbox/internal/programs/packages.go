package programs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Who needs a package.
const (
	All   = "all"
	Hosts = "hosts" // Windows hosts
	WinRM = "winrm" // Windows hosts with WinRM
)

// Package is a Debian package that the sandbox needs, by one line of packages.txt: NAME FILE WHO WHAT-FOR. FILE is what must be
// there: a program in PATH or an absolute path.
type Package struct{ Name, Needs, Who, For string }

// Packages reads packages.txt.
func Packages(repository string) ([]Package, error) {
	file, err := os.Open(filepath.Join(repository, "molecule", "sandbox", "packages.txt"))
	if err != nil {
		return nil, fmt.Errorf("package list: %w", err)
	}
	defer file.Close()
	var list []Package
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 4 {
			return nil, fmt.Errorf("package list: %q: want NAME FILE WHO WHAT-FOR", line)
		}
		list = append(list, Package{Name: fields[0], Needs: fields[1], Who: fields[2], For: strings.Join(fields[3:], " ")})
	}
	return list, nil
}

// Missing are the packages whose file is not on this machine. Their names are Debian's; on another distribution the files
// may come from elsewhere. Those of Windows hosts count if there are hosts, others than everybody's if they
// are named.
func Missing(list []Package, hosts bool, others ...string) []Package {
	needing := append([]string{All}, others...)
	if hosts {
		needing = append(needing, Hosts)
	}
	var missing []Package
	for _, one := range list {
		if slices.Contains(needing, one.Who) && !one.present() {
			missing = append(missing, one)
		}
	}
	return missing
}

func (p Package) present() bool {
	if filepath.IsAbs(p.Needs) {
		_, err := os.Stat(p.Needs)
		return err == nil
	}
	if _, err := exec.LookPath(p.Needs); err == nil {
		return true
	}
	// Debian keeps sshd and others in sbin, which PATH may lack.
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, p.Needs)); err == nil {
			return true
		}
	}
	return false
}

// Explain turns missing packages into an error with the command that installs them.
func Explain(missing []Package) error {
	if len(missing) == 0 {
		return nil
	}
	var names, lines []string
	for _, one := range missing {
		names = append(names, one.Name)
		lines = append(lines, fmt.Sprintf("  %s (%s): %s", one.Name, one.Needs, one.For))
	}
	return fmt.Errorf("packages are missing:\n%s\ninstall them with: apt-get install --no-install-recommends %s",
		strings.Join(lines, "\n"), strings.Join(names, " "))
}
