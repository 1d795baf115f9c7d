package remotewmcb

import (
	"bytes"
	"encoding/json"

	"wsu.windows/internal/progress"
)

// maxLine bounds a line of the error output, in bytes; the rest of a longer one is dropped.
const maxLine = 64 << 10

// errorOutput takes a command's error output apart: progress is passed on, the last JSON line is the document, the rest is for messages.
type errorOutput struct {
	progress *progress.Reporter
	received func(bytes int64)
	line     []byte
	document []byte
	said     []byte
}

func (e *errorOutput) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			e.add(p)
			break
		}
		e.add(p[:end])
		e.end()
		p = p[end+1:]
	}
	return n, nil
}

func (e *errorOutput) add(p []byte) {
	e.line = append(e.line, p[:min(len(p), maxLine-len(e.line))]...)
}

// end takes what was gathered as a line.
func (e *errorOutput) end() {
	line := bytes.TrimSpace(e.line)
	e.line = e.line[:0]
	switch {
	case len(line) == 0:
	case bytes.HasPrefix(line, []byte(progress.Prefix)):
		e.pass(line[len(progress.Prefix):])
	case line[0] == '{':
		e.document = bytes.Clone(line)
	default:
		e.said = append(append(e.said, line...), '\n')
		if len(e.said) > maxSaid {
			e.said = e.said[len(e.said)-maxSaid:]
		}
	}
}

func (e *errorOutput) tail() string { return clean(string(e.said)) }

// pass hands an event of the host to our own reporter, which throttles it.
func (e *errorOutput) pass(raw []byte) {
	var event progress.Event
	if json.Unmarshal(raw, &event) != nil || event.Phase == "" {
		return
	}
	if event.Phase == progress.PhaseReceived {
		if e.received != nil {
			e.received(event.Done)
		}
		return
	}
	const longest = 300
	phase, text := clean(event.Phase[:min(len(event.Phase), 40)]), clean(event.Text[:min(len(event.Text), longest)])
	if event.Total > 0 && event.Done >= 0 {
		e.progress.Bytes(phase, text, min(event.Done, event.Total), event.Total)
		return
	}
	e.progress.Say(phase, text)
}
