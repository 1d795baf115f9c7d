// Package store keeps contents on a node by their SHA-256: a file in it is whole, verified, and named by its digest. What is being
// received lies beside it as DIGEST.partial, with DIGEST.chunks that tells which chunks of it are there, until the whole is verified.
package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transfer"
)

// reserve is what must stay free on the drive, in bytes.
const reserve = 64 << 20

// Store is the folder.
type Store struct{ dir string }

// At gives the store of an install folder, whether it is there or not.
func At(install string) Store { return Store{filepath.Join(install, "store")} }

// Path is where a content lies.
func (s Store) Path(sha256 string) string { return filepath.Join(s.dir, sha256) }

// Has reports whether a content is there, whole. It reads the file: what rotted on the disk is not there.
func (s Store) Has(c transfer.Content) (bool, error) {
	info, err := os.Lstat(s.Path(c.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Size() != c.Size {
		return false, nil
	}
	digest, err := securefile.Digest(s.Path(c.SHA256))
	return digest == c.SHA256, err
}

// Contents lists what is in the store by its name: the digests, with their sizes. What they are worth is seen when they are used.
func (s Store) Contents() ([]transfer.Content, error) {
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []transfer.Content
	for _, file := range files {
		if info, err := file.Info(); err == nil && info.Mode().IsRegular() && len(file.Name()) == 2*sha256.Size && len(list) < transfer.MaxContents {
			list = append(list, transfer.Content{SHA256: file.Name(), Size: info.Size()})
		}
	}
	return list, nil
}

// Make makes the folder, readable by SYSTEM and Administrators alone, and everything above it.
func (s Store) Make() error {
	install := filepath.Dir(s.dir)
	if err := os.MkdirAll(filepath.Dir(install), 0o755); err != nil { //nolint:gosec // a folder above ours is everybody's
		return err
	}
	for _, folder := range []string{install, s.dir} {
		if err := secureFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

// secureFolder makes a folder, or takes one over that somebody else made with looser rights: everybody may make folders under C:\.
func secureFolder(path string) error {
	if err := securefile.MakeFolder(path); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return reason.New(reason.AccessDenied, path, "it is a link or a file, not a folder", "Find out who put it there, and remove it.")
	}
	extra, err := securefile.CheckAccess(path)
	if err != nil || len(extra) == 0 {
		return err
	}
	return securefile.Protect(path)
}

// CheckSpace fails with DiskFull where so many more bytes do not fit.
func (s Store) CheckSpace(bytes int64) error {
	free, err := freeBytes(s.dir)
	if err != nil {
		return err
	}
	if bytes > 0 && free < bytes+reserve {
		return full(s.dir, fmt.Sprintf("%d MB are needed and %d MB are free", (bytes+reserve)>>20, free>>20))
	}
	return nil
}

func full(dir, problem string) error {
	return reason.New(reason.DiskFull, "drive of "+dir, problem, "")
}

// IsFull reports whether an error means that there is no space left.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || isFullHere(err) || strings.Contains(err.Error(), "not enough space")
}

// IsHeld reports whether an error means that another process holds the file.
func IsHeld(err error) bool { return isHeldHere(err) }
