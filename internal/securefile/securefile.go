// Package securefile writes files that survive a power cut and that only the right people read: each write goes to a new file of
// the same folder, which carries its access rights from its first byte, reaches the disk, and then takes the place of the old one in
// one rename. On Windows the rights are SYSTEM and Administrators alone; elsewhere mode 0600 and 0700 (the tests run there).
package securefile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// asideMark is in the name of everything that RenameAside left.
const asideMark = ".wsu-old-"

// newMark is in the name of what is being written.
const newMark = ".wsu-new-"

// Write replaces the file with content, atomically and durably, with access for SYSTEM and Administrators alone. Where a process holds
// the old file so that it cannot be replaced, the old one is renamed aside first.
func Write(path string, content []byte) error {
	temporary, err := writeTemporary(path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	if err := replace(temporary, path); err != nil {
		os.Remove(temporary)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeTemporary leaves a complete file, flushed to the disk, beside path.
func writeTemporary(path string, content io.Reader) (string, error) {
	temporary := path + newMark + randomName()
	file, err := create(temporary)
	if err != nil {
		return "", fmt.Errorf("%s: %w", temporary, err)
	}
	_, err = io.Copy(file, content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(temporary)
		return "", fmt.Errorf("%s: %w", temporary, err)
	}
	return temporary, nil
}

// replace puts the finished file in place, and takes a held one out of the way.
func replace(temporary, path string) error {
	err := move(temporary, path)
	if err == nil || !isHeld(err) {
		return err
	}
	if asideErr := RenameAside(path); asideErr != nil {
		return errors.Join(err, asideErr)
	}
	return move(temporary, path)
}

// Place makes path the content of source: by a hard link, or by a copy where the file system or the volume has none. The digest, 64
// hexadecimal digits, is verified on what lies there in the end. An existing file gives way in one rename.
func Place(source, path, digest string) error {
	temporary := path + newMark + randomName()
	if err := os.Link(source, temporary); err != nil {
		return Copy(source, path, digest)
	}
	return finish(temporary, path, digest)
}

// Copy is Place without links: what happens to the source later does not touch the copy.
func Copy(source, path, digest string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	temporary, err := writeTemporary(path, in)
	if err != nil {
		return err
	}
	return finish(temporary, path, digest)
}

// finish verifies what was written and puts it in place.
func finish(temporary, path, digest string) error {
	sum, err := Digest(temporary)
	if err == nil && sum != digest {
		err = fmt.Errorf("its content has the SHA-256 %s, not %s", sum, digest)
	}
	if err == nil {
		err = replace(temporary, path)
	}
	// A rename of one hard link over another of the same file does nothing and leaves the source (POSIX).
	os.Remove(temporary)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Digest gives the SHA-256 of a file, in hexadecimal.
func Digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Move renames within one volume, replaces what is there, and is durable when it returns.
func Move(from, to string) error {
	if err := replace(from, to); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// RenameAside takes a file out of the way that may be running or open: Windows forbids to replace it, not to rename it. What cannot be
// deleted at once is deleted at the next boot or by SweepAside.
func RenameAside(path string) error {
	aside := path + asideMark + randomName()
	if err := move(path, aside); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.Remove(aside); err != nil {
		deleteAtBoot(aside)
	}
	return nil
}

// SweepAside deletes what RenameAside and broken off writes left in a folder, as far as it is no longer held.
func SweepAside(folder string) {
	left, _ := os.ReadDir(folder) // what cannot be listed is not ours
	for _, file := range left {
		if strings.Contains(file.Name(), asideMark) || strings.Contains(file.Name(), newMark) {
			os.Remove(filepath.Join(folder, file.Name()))
		}
	}
}

// Remove deletes a file; one that is held is renamed aside. It is no error if there is none.
func Remove(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !isHeld(err) {
		return err
	}
	return RenameAside(path)
}

// MakeFolder makes one folder for SYSTEM and Administrators alone; the parent exists. It is no error if it is there.
func MakeFolder(path string) error {
	err := makeFolder(path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func randomName() string {
	var name [6]byte
	_, _ = rand.Read(name[:]) // crypto/rand never fails since Go 1.24
	return hex.EncodeToString(name[:])
}
