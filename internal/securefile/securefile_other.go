//go:build !windows

package securefile

import (
	"fmt"
	"os"
	"path/filepath"
)

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func isHeld(error) bool { return false }

func deleteAtBoot(string) {}

func makeFolder(path string) error { return os.Mkdir(path, 0o700) }

// Protect gives a file or folder back to its owner alone.
func Protect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&0o700)
}

// CheckAccess names everybody besides the owner who has access, as "others: rwx"; an empty list is as it shall be.
func CheckAccess(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if extra := info.Mode().Perm() & 0o077; extra != 0 {
		return []string{fmt.Sprintf("others: %03o", extra)}, nil
	}
	return nil, nil
}
