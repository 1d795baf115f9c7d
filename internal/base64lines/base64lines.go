// Package base64lines writes bytes as lines of base64, for far ends that read text line by line.
package base64lines

import (
	"encoding/base64"
	"errors"
	"io"
)

// width is a line's length, a multiple of four: each line can be decoded on its own.
const width = 32 << 10

// NewWriter gives a writer whose Close ends the last line. It does not close w.
func NewWriter(w io.Writer) io.WriteCloser {
	l := &lines{w: w}
	return &writer{base64.NewEncoder(base64.StdEncoding, l), l}
}

type writer struct {
	encoder io.WriteCloser
	lines   *lines
}

func (w *writer) Write(p []byte) (int, error) { return w.encoder.Write(p) }

func (w *writer) Close() error { return errors.Join(w.encoder.Close(), w.lines.end()) }

type lines struct {
	w    io.Writer
	line []byte
}

func (l *lines) Write(p []byte) (int, error) {
	for n := len(p); ; {
		taken := min(width-len(l.line), len(p))
		l.line, p = append(l.line, p[:taken]...), p[taken:]
		if len(l.line) < width {
			return n, nil
		}
		if err := l.end(); err != nil {
			return 0, err
		}
	}
}

func (l *lines) end() error {
	if len(l.line) == 0 {
		return nil
	}
	_, err := l.w.Write(append(l.line, '\n'))
	l.line = l.line[:0]
	return err
}
