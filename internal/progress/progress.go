// Package progress carries live progress of long work from a binary to the person who waits for it: one JSON object a line
// on stderr, which the action plugin turns into display lines.
package progress

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Event is one line. Bytes and totals are 0 where they make no sense.
type Event struct {
	// Phase says what goes on: download, transfer, csr, kubelet, node.
	Phase string `json:"phase"`
	// Text is for people, without the host's name.
	Text string `json:"text,omitempty"`
	// Done and Total are in bytes; Rate is in bytes a second.
	Done  int64   `json:"done,omitempty"`
	Total int64   `json:"total,omitempty"`
	Rate  float64 `json:"rate,omitempty"`
}

// Prefix starts each progress line on stderr, so that other output cannot be taken for one.
const Prefix = "wsu-progress "

// Reporter writes events, at most one every half second for the same phase, plus the last one.
type Reporter struct {
	mu    sync.Mutex
	w     io.Writer
	every time.Duration
	last  map[string]time.Time
	start map[string]time.Time
}

// New makes a Reporter that writes to w; a nil Reporter reports nothing.
func New(w io.Writer) *Reporter {
	return &Reporter{w: w, every: 500 * time.Millisecond, last: map[string]time.Time{}, start: map[string]time.Time{}}
}

// Say reports a sentence at once.
func (r *Reporter) Say(phase, text string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(Event{Phase: phase, Text: text})
}

// PhaseReceived is that of Received: it is for the program that sends, not for people.
const PhaseReceived = "received"

// Received tells whoever sends a stream, at once, how many bytes of it have been written down.
func (r *Reporter) Received(bytes int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(Event{Phase: PhaseReceived, Done: bytes})
}

// Bytes reports progress of a byte count; text names what is being moved.
func (r *Reporter) Bytes(phase, text string, done, total int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if _, ok := r.start[phase]; !ok {
		r.start[phase] = now
	}
	if done < total && now.Sub(r.last[phase]) < r.every {
		return
	}
	r.last[phase] = now
	event := Event{Phase: phase, Text: text, Done: done, Total: total}
	if elapsed := now.Sub(r.start[phase]).Seconds(); elapsed > 0 {
		event.Rate = float64(done) / elapsed
	}
	r.write(event)
}

func (r *Reporter) write(e Event) {
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = r.w.Write(append([]byte(Prefix), append(line, '\n')...))
}
