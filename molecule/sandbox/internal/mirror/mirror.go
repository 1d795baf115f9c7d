// Package mirror serves the payload of releases over HTTPS, as a mirror in a disconnected site does: whole files and ranges of them.
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
	"strings"
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

// Refresh makes dir hold what payload holds, and in a folder of each one's name what the releases hold, by hard links where the file
// system allows. It returns the names, those of folders with a slash. What was not built yet is left out.
func Refresh(payload, releases, dir string) ([]string, error) {
	names, err := refresh(payload, dir)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	keep := set(names)
	entries, err := readDir(releases)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	for _, release := range entries {
		if !release.IsDir() {
			continue
		}
		into := filepath.Join(dir, release.Name())
		files, err := refresh(filepath.Join(releases, release.Name()), into)
		if err != nil {
			return nil, fmt.Errorf("mirror: %w", err)
		}
		if err := removeOthers(into, set(files)); err != nil {
			return nil, fmt.Errorf("mirror: %w", err)
		}
		keep[release.Name()] = true
		names = append(names, release.Name()+"/")
	}
	if err := removeOthers(dir, keep); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	return names, nil
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// refresh puts the files of one folder into another; what a build keeps for itself begins with a dot.
func refresh(from, to string) ([]string, error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	entries, err := readDir(from)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		names = append(names, entry.Name())
		if err := place(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// readDir takes a folder that is not there for an empty one.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

func removeOthers(dir string, keep map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if keep[entry.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
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
