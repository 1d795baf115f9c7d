// Package receive is the far end of a transfer: it reads the stream from the standard input into the content store, and makes sure that the
// wmcb.exe of the install folder is this one.
package receive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/store"
	"wsu.windows/internal/transfer"
	"wsu.windows/internal/version"
)

// maxPlan bounds the manifest of a plan, in bytes.
const maxPlan = 1 << 20

// Options of one run.
type Options struct {
	// Install is the install folder.
	Install string
	// Plan says what is missing and changes nothing; the standard input is the manifest alone, as JSON.
	Plan     bool
	Stdin    io.Reader
	Progress *progress.Reporter

	// self replaces the running program in tests.
	self string
}

// Run receives.
func Run(ctx context.Context, options Options) (nodereport.Receive, error) {
	report := nodereport.Receive{
		Header:  nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Receive", WMCB: version.Release},
		Present: []string{}, Missing: []nodereport.Missing{}, Received: []string{},
	}
	err := run(ctx, options, &report)
	if err != nil {
		err = asReason(err, options.Install)
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

func asReason(err error, install string) error {
	var known *reason.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, os.ErrPermission):
		return reason.Wrap(reason.AccessDenied, install, err, "")
	case store.IsHeld(err):
		return reason.Wrap(reason.FileLocked, install, err, "")
	case store.IsFull(err):
		return reason.New(reason.DiskFull, "drive of "+install, "it is full", "")
	}
	return reason.Wrap(reason.Internal, install, err, "")
}

func run(ctx context.Context, options Options, report *nodereport.Receive) error {
	if options.self == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		options.self = self
	}
	if options.Plan {
		return plan(options, report)
	}
	s := store.At(options.Install)
	if err := s.Make(); err != nil {
		return err
	}
	unlock, err := s.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := install(options, s, report); err != nil {
		return err
	}
	return receive(ctx, s, options.Stdin, report)
}

func plan(options Options, report *nodereport.Receive) error {
	raw, err := io.ReadAll(io.LimitReader(options.Stdin, maxPlan))
	if err != nil {
		return err
	}
	m := &transfer.Manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return reason.New(reason.ArgumentInvalid, "manifest", "it is not JSON", "")
	}
	if err := m.Check(); err != nil {
		return err
	}
	s := store.At(options.Install)
	for _, content := range m.Contents {
		present, err := s.Has(content)
		if err != nil {
			return err
		}
		if present {
			report.Present = append(report.Present, content.SHA256)
		} else {
			report.Missing = append(report.Missing, nodereport.Missing{SHA256: content.SHA256, Have: s.Partial(content)})
		}
	}
	report.Installed, err = isInstalled(options)
	return err
}

// isInstalled reports whether the install folder's wmcb.exe is the one that runs.
func isInstalled(options Options) (bool, error) {
	target := filepath.Join(options.Install, "wmcb.exe")
	if strings.EqualFold(filepath.Clean(options.self), target) {
		return true, nil
	}
	found, err := securefile.Digest(target)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	own, err := securefile.Digest(options.self)
	return found == own, err
}

func install(options Options, s store.Store, report *nodereport.Receive) error {
	present, err := isInstalled(options)
	if err != nil {
		return err
	}
	if !present {
		info, err := os.Stat(options.self)
		if err != nil {
			return err
		}
		if err := s.CheckSpace(info.Size()); err != nil {
			return err
		}
		own, err := securefile.Digest(options.self)
		if err != nil {
			return err
		}
		if err := securefile.Copy(options.self, filepath.Join(options.Install, "wmcb.exe"), own); err != nil {
			return err
		}
		report.Changed = true
	}
	securefile.SweepAside(options.Install)
	sweepTemporary(filepath.Join(os.Getenv("SystemRoot"), "Temp"), options.self)
	report.Installed = true
	return nil
}

// sweepTemporary deletes the copies of wmcb.exe that killed runs left where the control host puts them, as far as nobody runs them.
func sweepTemporary(folder, self string) {
	const lifetime = 24 * time.Hour
	left, _ := filepath.Glob(filepath.Join(folder, "wsu-*", "wmcb.exe")) // the pattern is good
	for _, path := range left {
		if info, err := os.Stat(path); err != nil || strings.EqualFold(path, self) || time.Since(info.ModTime()) < lifetime {
			continue
		}
		if os.Remove(path) == nil {
			os.Remove(filepath.Dir(path))
		}
	}
}

func receive(ctx context.Context, s store.Store, stdin io.Reader, report *nodereport.Receive) error {
	in := bufio.NewReaderSize(stdin, 1<<20)
	m, err := transfer.ReadManifest(in)
	if err != nil {
		return err
	}
	var needed int64
	for _, content := range m.Contents {
		needed += content.Size - content.Offset
	}
	if err := s.CheckSpace(needed); err != nil {
		return err
	}
	reader, err := transfer.NewReader(in, m)
	if err != nil {
		return err
	}
	defer reader.Close()
	r := &receiver{store: s, contents: m.Contents, report: report, index: -1}
	defer r.close()
	for {
		if ctx.Err() != nil {
			return reason.Wrap(reason.Interrupted, "receive", ctx.Err(), "")
		}
		index, chunk, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return r.end()
		}
		if err != nil {
			return err
		}
		if err := r.take(index, chunk); err != nil {
			return err
		}
	}
}

// receiver takes chunks; the contents come one after the other, in the manifest's order.
type receiver struct {
	store    store.Store
	contents []transfer.Content
	report   *nodereport.Receive
	index    int
	open     *store.Incoming
}

func (r *receiver) take(index int, chunk []byte) error {
	for r.index < index {
		if err := r.next(); err != nil {
			return err
		}
	}
	if r.index != index || r.open == nil {
		return reason.New(reason.TransferChecksum, "transfer stream", "its contents are not in the manifest's order", "")
	}
	n, err := r.open.Write(chunk)
	r.report.Bytes += int64(n)
	if err != nil {
		return err
	}
	if r.open.Whole() {
		return r.commit()
	}
	return nil
}

// next opens the following content; the one before must be whole.
func (r *receiver) next() error {
	if r.open != nil {
		return reason.New(reason.TransferChecksum, "content "+r.contents[r.index].SHA256, "the stream goes on without the whole of it", "")
	}
	r.index++
	content := r.contents[r.index]
	open, err := r.store.Receive(content)
	if err != nil {
		return err
	}
	r.open = open
	if open.Whole() { // an empty one, or one of which only the verification was missing
		return r.commit()
	}
	return nil
}

func (r *receiver) commit() error {
	open := r.open
	r.open = nil
	if err := open.Commit(); err != nil {
		return err
	}
	r.report.Received = append(r.report.Received, r.contents[r.index].SHA256)
	r.report.Changed = true
	return nil
}

func (r *receiver) end() error {
	for r.index+1 < len(r.contents) {
		if err := r.next(); err != nil {
			return err
		}
	}
	if r.open != nil {
		return reason.New(reason.TransferChecksum, "content "+r.contents[r.index].SHA256, fmt.Sprintf("the stream ended after %d bytes of this run", r.report.Bytes), "")
	}
	return nil
}

func (r *receiver) close() {
	if r.open != nil {
		r.open.Close()
	}
}
