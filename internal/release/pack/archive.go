package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entry is one name of the collection.
type entry struct {
	name string // below the folder, with slashes
	mode fs.FileMode
	link string // a symbolic link's target
}

// list gives everything below the folder but galaxy.yml, which MANIFEST.json replaces, in the order of names.
func list(folder string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(folder, func(path string, found fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil || name == "." || name == galaxyFile {
			return err
		}
		one := entry{name: filepath.ToSlash(name)}
		switch {
		case found.IsDir():
			one.mode = fs.ModeDir | 0o755
		case found.Type() == fs.ModeSymlink:
			one.mode = fs.ModeSymlink | 0o777
			if one.link, err = inside(folder, path); err != nil {
				return err
			}
		case found.Type().IsRegular():
			info, err := found.Info()
			if err != nil {
				return err
			}
			one.mode = 0o644 | info.Mode()&0o111
			if one.mode&0o111 != 0 {
				one.mode = 0o755
			}
		default:
			return fmt.Errorf("%s: it is neither file, folder nor symbolic link", path)
		}
		entries = append(entries, one)
		return nil
	})
	return entries, err
}

// inside gives a link's target. ansible-galaxy refuses one that leads out of the collection.
func inside(folder, path string) (string, error) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	back, err := filepath.Rel(folder, filepath.Join(filepath.Dir(path), target))
	if filepath.IsAbs(target) || err != nil || back == ".." || strings.HasPrefix(back, "../") {
		return "", fmt.Errorf("%s: the link leads out of the collection, to %s", path, target)
	}
	return target, nil
}

// write writes the archive: the manifests first, as ansible-galaxy does.
func write(out io.Writer, folder string, at time.Time, entries []entry, manifest, files []byte) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression) // its header has neither name nor time
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, document := range []struct {
		name    string
		content []byte
	}{{"MANIFEST.json", manifest}, {filesFile, files}} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: document.name, Size: int64(len(document.content)), Mode: 0o644, ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(document.content); err != nil {
			return err
		}
	}
	for _, one := range entries {
		if err := add(archive, folder, at, one); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func add(archive *tar.Writer, folder string, at time.Time, one entry) error {
	header := &tar.Header{Name: one.name, Mode: int64(one.mode.Perm()), ModTime: at}
	switch one.mode.Type() {
	case fs.ModeDir:
		header.Typeflag = tar.TypeDir
		return archive.WriteHeader(header)
	case fs.ModeSymlink:
		header.Typeflag, header.Linkname = tar.TypeSymlink, one.link
		return archive.WriteHeader(header)
	}
	file, err := os.Open(filepath.Join(folder, one.name))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
