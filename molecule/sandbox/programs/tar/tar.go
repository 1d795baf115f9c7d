package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

type options struct {
	extract, verbose, gzip, keepTimes bool
	archive, dir                      string
}

// parse takes short options alone or bundled, the first bundle with or without a dash, as tar does. The value of f or C is the rest of
// the bundle or the next argument.
func parse(args []string) (options, error) {
	o := options{archive: "-", dir: ".", keepTimes: true}
	for i := 0; i < len(args); i++ {
		bundle, dashed := strings.CutPrefix(args[i], "-")
		if !dashed && i > 0 {
			return o, fmt.Errorf("%s: picking members is not implemented in the sandbox's tar.exe", args[i])
		}
		for at, letter := range bundle {
			switch letter {
			case 'x':
				o.extract = true
			case 'v':
				o.verbose = true
			case 'z':
				o.gzip = true
			case 'm':
				o.keepTimes = false
			case 'p', 'o', 'k', 'U':
			case 'f', 'C':
				value := bundle[at+1:]
				if value == "" {
					if i++; i >= len(args) {
						return o, fmt.Errorf("option -%c requires an argument", letter)
					}
					value = args[i]
				}
				if letter == 'f' {
					o.archive = value
				} else {
					o.dir = value
				}
			default:
				return o, fmt.Errorf("option -%c is not implemented in the sandbox's tar.exe", letter)
			}
			if letter == 'f' || letter == 'C' {
				break
			}
		}
	}
	if !o.extract {
		return o, errors.New("must specify -x: nothing else is implemented in the sandbox's tar.exe")
	}
	return o, nil
}

func (o options) run(stdin io.Reader) error {
	source := stdin
	if o.archive != "-" {
		file, err := os.Open(o.archive)
		if err != nil {
			return fmt.Errorf("failed to open '%s': %w", o.archive, err)
		}
		defer file.Close()
		source = file
	}
	buffered := bufio.NewReaderSize(source, 1<<20)
	source = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		source = unpacked
	}
	return o.unpack(tar.NewReader(source))
}

func (o options) unpack(archive *tar.Reader) error {
	for {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("damaged tar archive: %w", err)
		}
		name, err := safe(member.Name)
		if err != nil {
			return err
		}
		if o.verbose {
			fmt.Fprintln(os.Stderr, "x", member.Name)
		}
		if err := o.write(filepath.Join(o.dir, name), member, archive); err != nil {
			return err
		}
	}
}

// safe refuses what bsdtar refuses: members that would land outside of the folder.
func safe(name string) (string, error) {
	slashed := strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	if len(slashed) > 1 && slashed[1] == ':' {
		slashed = strings.TrimLeft(slashed[2:], "/")
	}
	for _, part := range strings.Split(slashed, "/") {
		if part == ".." {
			return "", fmt.Errorf("%s: path contains '..'", name)
		}
	}
	return filepath.FromSlash(path.Clean(slashed)), nil
}

func (o options) write(target string, member *tar.Header, content io.Reader) error {
	switch member.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(target, 0o755)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%s: members of type %q are not implemented in the sandbox's tar.exe", member.Name, member.Typeflag)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// As libarchive does: an existing file is unlinked first, which fails for a running executable.
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil && o.keepTimes {
		err = os.Chtimes(target, member.ModTime, member.ModTime)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}
