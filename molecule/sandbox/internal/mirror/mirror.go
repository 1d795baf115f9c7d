// Package mirror serves the release's payload over HTTPS, as a mirror in a disconnected site does: whole files and ranges of them.
package mirror

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// NewServer serves the files of dir on address. net/http answers Range, If-Range and conditional requests by itself.
func NewServer(address, dir string) *http.Server {
	files := http.FileServer(http.Dir(dir))
	return &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 30 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			log.Printf("mirror: %s %s %s from %s", r.Method, r.URL.Path, r.Header.Get("Range"), r.RemoteAddr)
			files.ServeHTTP(w, r)
		}),
	}
}

// Refresh makes dir hold what payload holds, by hard links where the file system allows. It returns the names. A payload that
// was not built yet leaves the mirror empty.
func Refresh(payload, dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	entries, err := os.ReadDir(payload)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	keep := map[string]bool{}
	var names []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		keep[entry.Name()] = true
		names = append(names, entry.Name())
		if err := place(filepath.Join(payload, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			return nil, fmt.Errorf("mirror: %w", err)
		}
	}
	return names, removeOthers(dir, keep)
}

func removeOthers(dir string, keep map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	for _, entry := range entries {
		if keep[entry.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("mirror: %w", err)
		}
	}
	return nil
}

func place(from, to string) error {
	temporary := to + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(from, temporary); err != nil {
		if err := copyFile(from, temporary); err != nil {
			return err
		}
	}
	// rename(2) does nothing, and leaves the temporary name, if both names are links to one file already.
	if err := os.Rename(temporary, to); err != nil {
		return err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return errors.Join(err, target.Close())
	}
	return target.Close()
}
