package winhost

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// clone makes the host's own prefix out of the base. What Wine or Windows programs write to is copied; of the rest a host has links,
// which is what makes a host cheap: the windows folder holds 690 MB.
func (h *Host) clone() error {
	base, windows := filepath.Join(h.BaseDir, prefixDir), h.path("windows")
	if _, err := os.Stat(h.path(prefixDir, "system.reg")); err == nil {
		return nil // started before: a host keeps what it was
	}
	if err := os.MkdirAll(h.path(prefixDir, "drive_c"), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(windows); err != nil {
		return err
	}
	if err := linkTree(filepath.Join(base, "drive_c", "windows"), windows); err != nil {
		return err
	}
	if err := copyTree(filepath.Join(h.BaseDir, diskDir), h.path("disk.first")); err != nil {
		return err
	}
	if err := bothCases(windows, h.path("disk.first")); err != nil {
		return err
	}
	if err := h.dress(h.path("disk.first")); err != nil {
		return err
	}
	dosdevices := h.path(prefixDir, "dosdevices")
	if err := os.MkdirAll(dosdevices, 0o755); err != nil {
		return err
	}
	// Without z: Linux' root has no drive letter. c:: is what the volume itself (\\.\C:) opens: a file on it, or it would be the loop
	// device, of which Wine cannot tell the volume's properties and `dir` fails.
	for name, target := range map[string]string{"c:": "../drive_c", "c::": "../drive_c/sandbox/volume"} {
		if err := os.Symlink(target, filepath.Join(dosdevices, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return h.cloneRegistry(base)
}

// bothCases lets SFTP, which sees Linux' case-sensitive names, find C:\Windows\Temp where Wine has windows/temp: Windows knows no difference.
func bothCases(windows, disk string) error {
	for link, target := range map[string]string{filepath.Join(windows, "Temp"): "temp", filepath.Join(disk, "Windows"): "windows"} {
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// cloneRegistry ends with system.reg, which marks the clone as whole.
func (h *Host) cloneRegistry(base string) error {
	for _, name := range []string{"user.reg", "userdef.reg", ".update-timestamp", "system.reg"} {
		from, to := filepath.Join(base, name), h.path(prefixDir, name)
		if name == "system.reg" {
			to += ".new"
		}
		if err := copyFile(from, to, 0o644); err != nil && !(errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, ".")) {
			return err
		}
	}
	fresh := h.path(prefixDir, "system.reg.new")
	if err := appendTo(fresh, h.registry()); err != nil {
		return err
	}
	return os.Rename(fresh, strings.TrimSuffix(fresh, ".new"))
}

// registry holds what makes this host different from the base.
func (h *Host) registry() registry {
	keys := registry{
		key(`System\HardwareConfig`, text("LastConfig", h.hardwareGUID())),
		key(`Software\Microsoft\Cryptography`, text("MachineGuid", strings.Trim(h.hardwareGUID(), "{}"))),
	}
	if h.Build != 0 {
		product, release := productOf(h.Build)
		keys = append(keys, windowsVersion(h.Build, product, release)...)
	}
	if !h.NoContainerd {
		keys = append(keys, containerdService()...)
	}
	return keys
}

// dress prepares the first content of drive C:.
func (h *Host) dress(disk string) error {
	if err := writeFile(filepath.Join(disk, "sandbox", "volume"), "", 0o644); err != nil {
		return err
	}
	program := filepath.Join(disk, filepath.FromSlash(containerdProgram))
	if !h.NoContainerd {
		if _, err := os.Stat(program); err != nil && !h.NotWindows {
			return errors.New("the base prefix has no containerd.exe: give Prepare its path, or start the host with NoContainerd")
		}
		return nil
	}
	if err := os.RemoveAll(filepath.Dir(program)); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(disk, "ProgramData", "containerd"))
}

// shared reports whether a file of the windows folder may be the same file in all hosts: programs and libraries are only ever replaced.
func shared(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".ini", ".inf", ".log", ".txt", ".job", "":
		return false
	}
	return true
}

func linkTree(from, to string) error {
	linkable, err := sameFileSystem(from, filepath.Dir(to))
	if err != nil {
		return err
	}
	return walkTree(from, to, func(source, target string, mode fs.FileMode) error {
		if linkable && shared(source) {
			return os.Link(source, target)
		}
		return copyFile(source, target, mode)
	})
}

func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return walkTree(from, to, copyFile)
}

func walkTree(from, to string, each func(source, target string, mode fs.FileMode) error) error {
	return filepath.WalkDir(from, func(source string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(source, from))
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, info.Mode().Perm())
		case entry.Type() == fs.ModeSymlink:
			link, err := os.Readlink(source)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		default:
			return each(source, target, info.Mode().Perm())
		}
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, string(content), mode)
}

// writeFile replaces a file whole: never the content behind a shared name, and never half.
func writeFile(path, content string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fresh := path + ".new~"
	if err := os.WriteFile(fresh, []byte(content), mode); err != nil {
		return err
	}
	if err := os.Chmod(fresh, mode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
