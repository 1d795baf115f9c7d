package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transfer"
)

const (
	partialSuffix = ".partial"
	chunksSuffix  = ".chunks"
	// here marks a chunk that is there in DIGEST.chunks, which has one byte for each: lanes, which are processes of their own, mark
	// theirs without a lock.
	here = 'x'
)

// Have gives which chunks of a content are there from a transfer that broke off, as ranges [first, behind the last).
func (s Store) Have(c transfer.Content) [][2]int {
	marks, err := os.ReadFile(s.Path(c.SHA256) + chunksSuffix)
	if err != nil || len(marks) != c.Chunks() {
		return nil
	}
	if info, err := os.Lstat(s.Path(c.SHA256) + partialSuffix); err != nil || !info.Mode().IsRegular() || info.Size() > c.Size {
		return nil
	}
	var ranges [][2]int
	for i := 0; i < len(marks); i++ {
		if marks[i] != here {
			continue
		}
		first := i
		for i < len(marks) && marks[i] == here {
			i++
		}
		ranges = append(ranges, [2]int{first, i})
	}
	return ranges
}

// Incoming is a content that is being received, maybe by several processes. It is not safe for concurrent use.
type Incoming struct {
	store   Store
	content transfer.Content
	file    *os.File
	marks   *os.File
	// sum is of the first hashed bytes: where all chunks come here and in order, nothing has to be read again.
	sum    hash.Hash
	hashed int64
}

// Prepare makes what a content is received into. What an earlier transfer brought is kept.
func (s Store) Prepare(c transfer.Content) error {
	path := s.Path(c.SHA256)
	if info, err := os.Lstat(path + chunksSuffix); err == nil && info.Mode().IsRegular() && info.Size() == int64(c.Chunks()) {
		return nil
	}
	return s.written(os.WriteFile(path+chunksSuffix, bytes.Repeat([]byte{'.'}, c.Chunks()), 0o600)) // the folder's rights are strict and inherited
}

// Receive opens a content that was prepared for writing.
func (s Store) Receive(c transfer.Content) (*Incoming, error) {
	path := s.Path(c.SHA256)
	marks, err := os.OpenFile(path+chunksSuffix, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path+partialSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, marks.Close())
	}
	return &Incoming{store: s, content: c, file: file, marks: marks, sum: sha256.New()}, nil
}

// Write puts a chunk in its place, and marks it once it is there.
func (i *Incoming) Write(chunk []byte, offset int64) error {
	if _, err := i.file.WriteAt(chunk, offset); err != nil {
		return i.store.written(err)
	}
	if offset == i.hashed {
		_, _ = i.sum.Write(chunk) // it does not fail
		i.hashed += int64(len(chunk))
	}
	_, err := i.marks.WriteAt([]byte{here}, offset/transfer.ChunkSize)
	return i.store.written(err)
}

func (s Store) written(err error) error {
	if err != nil && IsFull(err) {
		return full(s.dir, "it is full")
	}
	return err
}

// Close keeps what was received for the next time.
func (i *Incoming) Close() error { return errors.Join(i.file.Close(), i.marks.Close()) }

// Commit verifies the whole content and makes it visible; a wrong one is deleted. There is no sync to the disk: after a power cut, whoever
// uses the content finds out by its digest, and it is sent again.
func (i *Incoming) Commit() error {
	if err := i.Close(); err != nil {
		return i.store.written(err)
	}
	path := i.store.Path(i.content.SHA256)
	ranges := i.store.Have(i.content)
	if n := i.content.Chunks(); n > 0 && (len(ranges) != 1 || ranges[0] != [2]int{0, n}) {
		if there, err := i.store.Has(i.content); err != nil || there { // another transfer has brought it, after the sender asked what was missing
			return errors.Join(err, os.Remove(path+chunksSuffix), os.Remove(path+partialSuffix))
		}
		return reason.New(reason.TransferChecksum, "content "+i.content.SHA256, "the stream ended without the whole of it", "")
	}
	digest := hex.EncodeToString(i.sum.Sum(nil))
	if i.hashed != i.content.Size {
		var err error
		if digest, err = securefile.Digest(path + partialSuffix); err != nil {
			return err
		}
	}
	if digest != i.content.SHA256 {
		err := reason.New(reason.TransferChecksum, "content "+i.content.SHA256, "what arrived has the SHA-256 "+digest, "")
		return errors.Join(err, os.Remove(path+chunksSuffix), os.Remove(path+partialSuffix))
	}
	if err := securefile.Move(path+partialSuffix, path); err != nil {
		return err
	}
	return os.Remove(path + chunksSuffix)
}

// Base is a content that differences are made to.
type Base struct {
	*os.File
	size int64
}

// Size is in bytes.
func (b *Base) Size() int64 { return b.size }

// OpenBase opens a content that is in the store.
func (s Store) OpenBase(sha256 string) (*Base, error) {
	file, err := os.Open(s.Path(sha256))
	if err != nil {
		return nil, fmt.Errorf("base %s: %w", sha256, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Base{file, info.Size()}, nil
}
