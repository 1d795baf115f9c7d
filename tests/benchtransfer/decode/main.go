// Command decode writes the lines of base64 on its standard input to a file: what Ansible has PowerShell do, faster than that.
package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	out, err := os.Create(path) //nolint:gosec // the caller's file
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	_, err = io.Copy(out, lines{in})
	return errors.Join(err, out.Close())
}

// lines decodes each line on its own: every one ends in padding.
type lines struct{ in *bufio.Reader }

func (l lines) Read([]byte) (int, error) { return 0, errors.New("WriteTo is used") }

func (l lines) WriteTo(w io.Writer) (written int64, err error) {
	for {
		line, err := l.in.ReadBytes('\n')
		if len(line) > 0 {
			data, decodeErr := base64.StdEncoding.DecodeString(string(line)) // line ends are passed over
			if decodeErr != nil {
				return written, decodeErr
			}
			n, writeErr := w.Write(data)
			written += int64(n)
			if writeErr != nil {
				return written, writeErr
			}
		}
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, err
		}
	}
}
