// Package payload has the release's files on the control host: fetched from where they are, verified by their SHA-256, kept in a cache that
// is named by it and may be deleted at any time.
package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/release"
	"wsu.windows/internal/securefile"
)

// parallel is how many files are fetched at once, attempts how often a broken transfer is taken up again.
const (
	parallel = 3
	attempts = 4
)

// Cache is a folder of verified files.
type Cache struct {
	dir      string
	source   *source
	progress *progress.Reporter
	// pause is before the second attempt; those after it wait longer.
	pause time.Duration
}

// New makes a cache under a folder. base is where relative URLs of release.yml begin: an https, http or file URL, a folder, or nothing.
// caFile names authorities (PEM) that are trusted beside the system's.
func New(cacheDir, base, caFile string, reporter *progress.Reporter) (*Cache, error) {
	s, err := newSource(base, caFile)
	if err != nil {
		return nil, err
	}
	return &Cache{dir: filepath.Join(cacheDir, "payload"), source: s, progress: reporter, pause: time.Second}, nil
}

// Have brings the files into the cache and gives the paths in their order, and how many bytes were fetched.
func (c *Cache) Have(ctx context.Context, files []release.File) (paths []string, fetched int64, err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, 0, reason.Wrap(reason.AccessDenied, c.dir, err, "Set wsu_cache_dir to a folder that you can write to.")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	paths = make([]string, len(files))
	errs := make([]error, len(files))
	var total int64
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, file := range files {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			path, n, err := c.file(ctx, file)
			mu.Lock()
			defer mu.Unlock()
			total += n
			paths[i], errs[i] = path, err
			if err != nil {
				cancel() // the others end, and keep what they have
			}
		})
	}
	wait.Wait()
	return paths, total, first(errs)
}

// first gives the error that caused the others.
func first(errs []error) error {
	var broken error
	for _, err := range errs {
		if err != nil && !reason.Is(err, reason.Interrupted) {
			return err
		}
		broken = errors.Join(broken, err)
	}
	return broken
}

func (c *Cache) file(ctx context.Context, file release.File) (path string, fetched int64, err error) {
	path = filepath.Join(c.dir, file.SHA256)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", 0, reason.Wrap(reason.AccessDenied, c.dir, err, "Set wsu_cache_dir to a folder that you can write to.")
	}
	defer lock.Close()
	for errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) { // another run is fetching it right now
		if !wait(ctx, 100*time.Millisecond) {
			return "", 0, reason.Wrap(reason.Interrupted, file.Name, ctx.Err(), "")
		}
	}
	if seen, err := securefile.Digest(path); err == nil && seen == file.SHA256 {
		return path, 0, nil
	}
	fetched, err = c.fetch(ctx, file, path)
	return path, fetched, err
}

// fetch brings a file beside its place, verifies it and renames it.
func (c *Cache) fetch(ctx context.Context, file release.File, path string) (int64, error) {
	place, err := c.source.locate(file)
	if err != nil {
		return 0, err
	}
	incoming, err := openIncoming(path+".partial", file.Size)
	if err != nil {
		return 0, failed(file, place, err)
	}
	defer incoming.file.Close()
	begin := incoming.have
	report := func() { c.progress.Bytes("download", file.Name, incoming.have, file.Size) }
	for attempt := 1; incoming.have < file.Size; attempt++ {
		err = c.source.read(ctx, place, incoming, report)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errBroken) || attempt >= attempts || !wait(ctx, c.backoff(attempt)) {
			break
		}
	}
	if ctx.Err() != nil {
		return incoming.fetched, reason.Wrap(reason.Interrupted, file.Name, ctx.Err(), "")
	}
	if errors.Is(err, errTooLong) || err == nil && incoming.have < file.Size {
		err = reason.New(reason.PayloadChecksum, file.Name, fmt.Sprintf("%s has %s bytes, and release.yml says %d", place, incoming.length(err != nil), file.Size), "")
	}
	if err == nil {
		err = incoming.verify(file, place.String())
	}
	fetched := incoming.fetched
	if reason.Is(err, reason.PayloadChecksum) {
		err = errors.Join(err, os.Remove(path+".partial"))
		if begin == 0 {
			return fetched, err
		}
		again, err := c.fetch(ctx, file, path) // what an earlier run left may have been another file's beginning
		return fetched + again, err
	}
	if err != nil {
		return fetched, failed(file, place, err)
	}
	if err := os.Rename(path+".partial", path); err != nil {
		return fetched, failed(file, place, err)
	}
	return fetched, nil
}

// backoff is the pause after an attempt: each is twice the one before.
func (c *Cache) backoff(attempt int) time.Duration { return c.pause << (attempt - 1) }

// wait reports whether the time has passed without an interruption.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func failed(file release.File, place fmt.Stringer, err error) error {
	var known *reason.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, syscall.ENOSPC):
		return reason.New(reason.DiskFull, file.Name, "the disk of wsu_cache_dir is full", "Free space, or set wsu_cache_dir.")
	}
	return reason.Wrap(reason.PayloadUnavailable, fmt.Sprintf("%s from %s", file.Name, place), err, "")
}

// incoming is a file that is being fetched.
type incoming struct {
	file *os.File
	sum  hash.Hash
	have int64
	size int64
	// total is how long the source says that the file is, 0 if it does not say.
	total int64
	// fetched counts what was written, also what a restart threw away again.
	fetched int64
}

// openIncoming goes on with what an earlier run left.
func openIncoming(path string, size int64) (*incoming, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	i := &incoming{file: file, sum: sha256.New(), size: size}
	if i.have, err = io.Copy(i.sum, file); err == nil && i.have > size {
		err = i.restart()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return i, nil
}

func (i *incoming) restart() error {
	i.sum.Reset()
	i.have = 0
	if err := i.file.Truncate(0); err != nil {
		return err
	}
	_, err := i.file.Seek(0, io.SeekStart)
	return err
}

func (i *incoming) Write(p []byte) (int, error) {
	if i.have+int64(len(p)) > i.size {
		return 0, errTooLong
	}
	n, err := i.file.Write(p)
	i.sum.Write(p[:n])
	i.have += int64(n)
	i.fetched += int64(n)
	return n, err
}

// length says how long the source's file is, of one that has another length than release.yml says.
func (i *incoming) length(tooLong bool) string {
	switch {
	case !tooLong:
		return fmt.Sprint(i.have)
	case i.total > i.size:
		return fmt.Sprint(i.total)
	}
	return fmt.Sprintf("more than %d", i.size) // a server that does not say it
}

func (i *incoming) verify(file release.File, place string) error {
	if err := i.file.Sync(); err != nil {
		return err
	}
	if seen := hex.EncodeToString(i.sum.Sum(nil)); seen != file.SHA256 {
		return reason.New(reason.PayloadChecksum, file.Name,
			fmt.Sprintf("%s has the SHA-256 %s, and release.yml says %s", place, seen, file.SHA256), "")
	}
	return nil
}
