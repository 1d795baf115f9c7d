// Package store keeps contents on a node by their SHA-256: a file in it is whole, verified, and named by its digest. What is being
// received lies beside it as DIGEST.partial until its last byte is verified.
package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/transfer"
)

const partialSuffix = ".partial"

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

// Partial gives how many bytes of a content are there from a transfer that broke off, a multiple of the chunk size.
func (s Store) Partial(c transfer.Content) int64 {
	info, err := os.Lstat(s.Path(c.SHA256) + partialSuffix)
	if err != nil || !info.Mode().IsRegular() || info.Size() > c.Size {
		return 0
	}
	return info.Size() / transfer.ChunkSize * transfer.ChunkSize
}

// Lock keeps other receivers away; they get the reason TransferBusy.
func (s Store) Lock() (unlock func(), err error) {
	unlock, err = transaction.Lock(filepath.Join(s.dir, ".lock"))
	if reason.Is(err, reason.NodeBusy) {
		return nil, reason.New(reason.TransferBusy, s.dir, "another transfer to this machine is under way", "")
	}
	return unlock, err
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

// Incoming is a content that is being received. It is not safe for concurrent use.
type Incoming struct {
	store   Store
	content transfer.Content
	file    *os.File
	written int64
}

// Receive opens a content for writing from its offset on.
func (s Store) Receive(c transfer.Content) (*Incoming, error) {
	if have := s.Partial(c); have < c.Offset {
		return nil, reason.New(reason.TransferChecksum, "content "+c.SHA256, fmt.Sprintf("the stream begins at %d, and %d bytes are here", c.Offset, have), "")
	}
	path := s.Path(c.SHA256) + partialSuffix
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // the folder's rights are strict and inherited
	if err != nil {
		return nil, err
	}
	incoming := &Incoming{store: s, content: c, file: file, written: c.Offset}
	if err := file.Truncate(c.Offset); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.Seek(c.Offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return incoming, nil
}

// Write appends a chunk. More than the content's size is refused.
func (i *Incoming) Write(chunk []byte) (int, error) {
	if i.written+int64(len(chunk)) > i.content.Size {
		return 0, reason.New(reason.TransferChecksum, "content "+i.content.SHA256, fmt.Sprintf("it is larger than its %d bytes", i.content.Size), "")
	}
	n, err := i.file.Write(chunk)
	i.written += int64(n)
	if err != nil && IsFull(err) {
		return n, full(i.store.dir, "it is full")
	}
	return n, err
}

// Whole reports whether all bytes are there.
func (i *Incoming) Whole() bool { return i.written == i.content.Size }

// Close keeps what was received for the next time.
func (i *Incoming) Close() error { return i.file.Close() }

// Commit verifies the whole content and makes it visible; a wrong one is deleted.
func (i *Incoming) Commit() error {
	err := i.file.Sync()
	if closeErr := i.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		if IsFull(err) {
			return full(i.store.dir, "it is full")
		}
		return err
	}
	path := i.store.Path(i.content.SHA256)
	digest, err := securefile.Digest(path + partialSuffix)
	if err != nil {
		return err
	}
	if digest != i.content.SHA256 {
		err := os.Remove(path + partialSuffix)
		return errors.Join(reason.New(reason.TransferChecksum, "content "+i.content.SHA256, "what arrived has the SHA-256 "+digest, ""), err)
	}
	return securefile.Move(path+partialSuffix, path)
}

// IsFull reports whether an error means that there is no space left.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || isFullHere(err) || strings.Contains(err.Error(), "not enough space")
}

// IsHeld reports whether an error means that another process holds the file.
func IsHeld(err error) bool { return isHeldHere(err) }
