// Package progress tells a person what the sandbox is doing: phases, each with the things that became ready and how long
// that took. Several goroutines may report at once.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Log writes progress lines.
type Log struct {
	mu  sync.Mutex
	out io.Writer
}

// New writes to out.
func New(out io.Writer) *Log { return &Log{out: out} }

// Phase begins a part of the work.
func (l *Log) Phase(title string) { l.line("==> %s", title) }

// Say tells something in between.
func (l *Log) Say(format string, arguments ...any) { l.line("    "+format, arguments...) }

// Step runs one piece of work and reports it with its duration. What failed is left to the caller's error.
func (l *Log) Step(name string, work func() error) error {
	begin := time.Now()
	if err := work(); err != nil {
		l.line("    %-44s failed after %s", name, round(time.Since(begin)))
		return err
	}
	l.line("    %-44s %s", name, round(time.Since(begin)))
	return nil
}

func (l *Log) line(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, format+"\n", arguments...)
}

func round(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
