package winhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"wsu.windows/sandbox/compat"
	"wsu.windows/sandbox/programs"
)

// PrepareConfig says what a base prefix is made of.
type PrepareConfig struct {
	// BaseDir receives the base prefix. It has to be on the file system of the hosts' directories: they link to its files.
	BaseDir string
	// ModuleDir is the folder of the module wsu.windows/sandbox: the Windows programs are built from its sources.
	ModuleDir string
	// Containerd is the path of containerd.exe. Empty: the base has none, and hosts can only be started with NoContainerd.
	Containerd string
	// Wine is where Wine is found; the zero value means the folders of Debian's packages.
	Wine Wine
}

// Wine names the two executables that a host needs.
type Wine struct {
	// Loader is the 64-bit loader. Debian's wrapper script costs a shell a command and complains about wine32.
	Loader string
	// Server is wineserver itself. Debian's wrapper passes -p0, with which services end with their last client.
	Server string
}

func (w Wine) found() (Wine, error) {
	if w.Loader == "" {
		w.Loader = "/usr/lib/wine/wine64"
	}
	if w.Server == "" {
		w.Server = "/usr/lib/wine/wineserver64"
	}
	for _, path := range []string{w.Loader, w.Server} {
		if _, err := os.Stat(path); err != nil {
			return w, fmt.Errorf("wine: %w: install the packages wine and wine64", err)
		}
	}
	return w, nil
}

const (
	digestFile = "digest"
	prefixDir  = "prefix"
	diskDir    = "disk"
)

// Prepare makes the base prefix in BaseDir: Windows Server 2022 with the compatibility DLL, the stand-in tools and containerd. It does
// nothing if the one that is there was made of the same inputs. It is to be called by one process at a time, with no host being started.
func Prepare(ctx context.Context, c PrepareConfig) error {
	if os.Geteuid() != 0 {
		return errors.New("windows hosts: namespaces and mounts need root: run as root")
	}
	wine, err := c.Wine.found()
	if err != nil {
		return err
	}
	base, err := filepath.Abs(c.BaseDir)
	if err != nil {
		return fmt.Errorf("base prefix %s: %w", c.BaseDir, err)
	}
	built := filepath.Join(base, "build")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return fmt.Errorf("base prefix: %w", err)
	}
	if err := compat.Build(ctx, filepath.Join(built, compat.Name)); err != nil {
		return err
	}
	if err := programs.Build(ctx, c.ModuleDir, built); err != nil {
		return err
	}
	digest, err := c.digest(built, wine)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(filepath.Join(base, digestFile)); err == nil && string(have) == digest {
		return nil
	}
	if err := makeBase(ctx, base, built, c.Containerd, wine); err != nil {
		return fmt.Errorf("base prefix %s: %w", base, err)
	}
	return writeFile(filepath.Join(base, digestFile), digest, 0o644)
}

// digest covers everything that a base prefix is made of. Executables given by path count by size and time: they are large, and a build
// that changes them changes those.
func (c PrepareConfig) digest(built string, wine Wine) (string, error) {
	sum := sha256.New()
	for _, path := range []string{c.Containerd, wine.Loader, wine.Server} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("windows hosts: %w: build it first", err)
		}
		fmt.Fprintln(sum, path, info.Size(), info.ModTime().UnixNano())
	}
	for _, name := range baseInputs() {
		fmt.Fprintln(sum, name)
	}
	entries, err := os.ReadDir(built)
	if err != nil {
		return "", fmt.Errorf("base prefix: %w", err)
	}
	for _, entry := range entries {
		fmt.Fprintln(sum, entry.Name())
		if err := hashFile(sum, filepath.Join(built, entry.Name())); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func hashFile(sum io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("base prefix: %w", err)
	}
	defer file.Close()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("base prefix: %s: %w", path, err)
	}
	return nil
}

// sameFileSystem reports whether files of a can be linked from b.
func sameFileSystem(a, b string) (bool, error) {
	var first, second syscall.Stat_t
	if err := syscall.Stat(a, &first); err != nil {
		return false, fmt.Errorf("%s: %w", a, err)
	}
	if err := syscall.Stat(b, &second); err != nil {
		return false, fmt.Errorf("%s: %w", b, err)
	}
	return first.Dev == second.Dev, nil
}

// baseInputs are the texts in this package that a base prefix is made of.
func baseInputs() []string {
	script, _ := scripts.ReadFile("scripts/base.sh")
	return append([]string{string(script), containerdConfig, cniConfig}, append(baseRegistry(), userRegistry()...)...)
}
