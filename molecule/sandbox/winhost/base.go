package winhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"wsu.windows/sandbox/compat"
	"wsu.windows/sandbox/programs"
)

// makeBase builds the base prefix beside the old one and puts it in its place when it is whole. Running hosts keep what they linked.
func makeBase(ctx context.Context, base, built, containerd string, wine Wine) error {
	fresh := filepath.Join(base, "new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	prefix := filepath.Join(fresh, prefixDir)
	if err := createPrefix(ctx, fresh, prefix, wine); err != nil {
		return err
	}
	system32 := filepath.Join(prefix, "drive_c", "windows", "system32")
	if err := installFile(filepath.Join(built, compat.Name), filepath.Join(system32, compat.Name)); err != nil {
		return err
	}
	if err := installTools(built, system32); err != nil {
		return err
	}
	if err := appendTo(filepath.Join(prefix, "system.reg"), baseRegistry()); err != nil {
		return err
	}
	if err := appendTo(filepath.Join(prefix, "user.reg"), userRegistry()); err != nil {
		return err
	}
	disk := filepath.Join(fresh, diskDir)
	if err := fillDisk(prefix, disk, built, containerd); err != nil {
		return err
	}
	for _, name := range []string{prefixDir, diskDir} {
		if err := os.RemoveAll(filepath.Join(base, name)); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(fresh, name), filepath.Join(base, name)); err != nil {
			return err
		}
	}
	return nil
}

// createPrefix lets Wine make its prefix, in namespaces that end with it.
func createPrefix(ctx context.Context, scratch, prefix string, wine Wine) error {
	etc := filepath.Join(scratch, "etc")
	if err := writeAccounts(etc, "/bin/sh"); err != nil {
		return err
	}
	script, err := scripts.ReadFile("scripts/base.sh")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", string(script))
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "WINHOST_DIR=" + scratch,
		"WINHOST_WINE=" + wine.Loader, "WINHOST_WINESERVER=" + wine.Server,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	out, err := os.Create(filepath.Join(scratch, "create.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out // a file: a pipe would be held open by whatever Wine starts
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("wineboot: %w: is Wine 8 installed whole (wine, wine64)?\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(prefix, "system.reg")); err != nil {
		return errors.New("wineboot left no registry: is Wine 8 installed whole (wine, wine64)?")
	}
	return nil
}

// installTools puts programs of our own where Wine has ones that do nothing and report success, and where it has none.
func installTools(built, system32 string) error {
	refuse := filepath.Join(built, programs.Refuse)
	for _, tool := range programs.Refused() {
		if err := installFile(refuse, filepath.Join(system32, filepath.FromSlash(tool))); err != nil {
			return err
		}
	}
	return installFile(filepath.Join(built, programs.Tar), filepath.Join(system32, programs.Tar))
}

// fillDisk moves what belongs on drive C:, apart from the windows folder, to disk, and adds what the sandbox brings.
func fillDisk(prefix, disk, built, containerd string) error {
	drive := filepath.Join(prefix, "drive_c")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(drive)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "windows" {
			continue
		}
		if err := os.Rename(filepath.Join(drive, entry.Name()), filepath.Join(disk, entry.Name())); err != nil {
			return err
		}
	}
	for _, program := range []string{programs.SSHSession, programs.ServiceStates} {
		if err := installFile(filepath.Join(built, program), filepath.Join(disk, "sandbox", "bin", program)); err != nil {
			return err
		}
	}
	if containerd == "" {
		return nil
	}
	return fillContainerd(disk, containerd)
}

// installFile copies a file to a path that may be a link to a shared one: the name is replaced, never the content behind it.
func installFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return writeFile(to, string(content), 0o755)
}
