package apply

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
)

const (
	// tailBytes bounds how much of a log is looked at, lineLength what is kept of one line, in bytes.
	tailBytes  = 64 << 10
	lineLength = 600
)

// noise hides why a program ended: the kubelet's line for each of its 150 flags, and the frames of a Go stack trace.
var noise = regexp.MustCompile(`\] FLAG: --|^\S+\.go:\d+( \+0x[0-9a-f]+)?$|^[\w./*()@-]+\((0x|\{|\.\.\.|\)).*$|^goroutine \d+ \[`)

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Tail gives the last lines of a log, at most count, from the offset on (0: all of it); none where it cannot be read. Control characters
// are taken out: the lines end on somebody's terminal.
func Tail(path string, offset int64, count int) []string {
	log, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil
	}
	if offset > info.Size() {
		offset = 0 // it was rotated meanwhile
	}
	from := max(offset, info.Size()-tailBytes)
	raw := make([]byte, info.Size()-from)
	n, err := log.ReadAt(raw, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(raw[:n]), "\r\n"), "\n")
	if from > offset && len(lines) > 1 {
		lines = lines[1:] // half a line
	}
	var clean []string
	for _, line := range lines {
		if line = printable(line); line != "" && !noise.MatchString(line) {
			clean = append(clean, line)
		}
	}
	return clean[max(0, len(clean)-count):]
}

func printable(line string) string {
	line = strings.ToValidUTF8(line, "?")
	if len(line) > lineLength {
		line = strings.ToValidUTF8(line[:lineLength], "") + "..."
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line))
}
