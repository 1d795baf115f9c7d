// Package receive is the far end of a transfer: it reads the stream from the standard input into the content store, and makes sure that the
// wmcb.exe of the install folder is this one.
package receive

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
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
	// heard is the standard input.
	heard *heard
}

// Run receives.
func Run(ctx context.Context, options Options) (nodereport.Receive, error) {
	report := nodereport.Receive{
		Header:  nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Receive", WMCB: version.Release},
		Present: []string{}, Missing: []nodereport.Missing{}, Others: []nodereport.Other{}, Received: []string{},
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
	options.heard = &heard{Reader: options.Stdin}
	in := binary(options.heard)
	m, err := transfer.ReadManifest(in)
	if err != nil {
		return err
	}
	if m.Lane > 0 {
		leave, err := s.Join(m.Session, m.Lane)
		if err != nil {
			return err
		}
		defer leave()
		return receive(ctx, options, s, in, m, report)
	}
	unlock, err := s.Lock(m.Session)
	if err != nil {
		return err
	}
	defer unlock()
	return receiveMain(ctx, options, s, in, m, report)
}

// receiveMain prepares the contents, lets the lanes begin, and installs this program in the end: also where the stream broke off, so that the
// next one needs not bring it again.
func receiveMain(ctx context.Context, options Options, s store.Store, in io.Reader, m *transfer.Manifest, report *nodereport.Receive) (err error) {
	p, err := thisProgram(options)
	if err != nil {
		return err
	}
	if err := s.CheckSpace(missing(s, m.Contents) + p.needs()); err != nil {
		return err
	}
	if err := p.compare(); err != nil {
		return err
	}
	for _, content := range m.Contents {
		if err := s.Prepare(content); err != nil {
			return err
		}
	}
	if err := s.Admit(m.Session); err != nil {
		return err
	}
	received := receive(ctx, options, s, in, m, report)
	if err := p.install(); err != nil {
		return errors.Join(received, err)
	}
	report.Changed = report.Changed || !p.installed
	report.Installed, report.Moved = true, p.moved
	return received
}

// binary reads a stream that came as lines of base64 as what it means: a stream begins with a zero byte, which base64 does not have.
func binary(stdin io.Reader) *bufio.Reader {
	in := bufio.NewReaderSize(stdin, 1<<20)
	if first, err := in.Peek(1); err != nil || first[0] == 0 {
		return in
	}
	return bufio.NewReaderSize(base64.NewDecoder(base64.StdEncoding, in), 1<<20) // the decoder passes line breaks over
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
			report.Missing = append(report.Missing, nodereport.Missing{SHA256: content.SHA256, Have: s.Have(content)})
		}
	}
	if err := others(s, report); err != nil {
		return err
	}
	p, err := thisProgram(options)
	if err == nil {
		err = p.compare()
	}
	report.Installed, report.SHA256 = p.installed, p.sha256
	return err
}

// others lists what else is in the store.
func others(s store.Store, report *nodereport.Receive) error {
	contents, err := s.Contents()
	for _, content := range contents {
		if !slices.Contains(report.Present, content.SHA256) {
			report.Others = append(report.Others, nodereport.Other{SHA256: content.SHA256, Size: content.Size})
		}
	}
	return err
}

// receive takes chunks in any order. The main stream makes the contents visible at its end, when its lanes have ended.
func receive(ctx context.Context, options Options, s store.Store, in io.Reader, m *transfer.Manifest, report *nodereport.Receive) error {
	r := &receiver{store: s, contents: m.Contents, report: report, open: make([]*store.Incoming, len(m.Contents)), bases: map[string]*store.Base{}}
	defer func() { _ = r.close() }() // after an error; else end and the lane have closed already
	reader, err := transfer.NewReader(in, m, r.base)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	chunks, free, ended := unpack(reader, done)
	var written int64
	options.Progress.Received(written)
	for {
		chunk, more, err := next(ctx, chunks, options.heard)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.take(chunk); err != nil {
			return err
		}
		written += chunk.Wire
		options.Progress.Received(written)
		free <- chunk.Data
	}
	switch err := <-ended; {
	case !errors.Is(err, io.EOF):
		return err
	case m.Lane > 0:
		return r.close()
	}
	return r.end(m.Session)
}

// unpack reads and unpacks chunks while those before are written. What it gives back to free is used again. It ends with the stream, or once
// done is closed and the stream gives something.
func unpack(reader *transfer.Reader, done <-chan struct{}) (chunks chan transfer.Chunk, free chan []byte, ended chan error) {
	const ahead = 3
	chunks, free, ended = make(chan transfer.Chunk, ahead), make(chan []byte, ahead), make(chan error, 1)
	for range ahead {
		free <- make([]byte, transfer.ChunkSize)
	}
	go func() {
		defer reader.Close()
		defer close(chunks)
		for {
			var buffer []byte
			select {
			case buffer = <-free:
			case <-done:
				return
			}
			chunk, err := reader.Next(buffer)
			if err != nil {
				ended <- err
				return
			}
			select {
			case chunks <- chunk:
			case <-done:
				return
			}
		}
	}()
	return chunks, free, ended
}

// receiver takes the chunks of one stream.
type receiver struct {
	store    store.Store
	contents []transfer.Content
	report   *nodereport.Receive
	open     []*store.Incoming
	bases    map[string]*store.Base
}

// missing gives how many bytes the contents may still take on the drive.
func missing(s store.Store, contents []transfer.Content) (bytes int64) {
	for _, content := range contents {
		bytes += content.Size
		for _, have := range s.Have(content) {
			bytes -= int64(have[1]-have[0]) * transfer.ChunkSize
		}
	}
	return bytes
}

func (r *receiver) base(sha256 string) (transfer.Base, error) {
	if base, opened := r.bases[sha256]; opened {
		return base, nil
	}
	base, err := r.store.OpenBase(sha256)
	if err != nil {
		return nil, err
	}
	r.bases[sha256] = base
	return base, nil
}

func (r *receiver) take(chunk transfer.Chunk) (err error) {
	open := r.open[chunk.Index]
	if open == nil {
		if open, err = r.store.Receive(r.contents[chunk.Index]); err != nil {
			return err
		}
		r.open[chunk.Index] = open
	}
	if err := open.Write(chunk.Data, chunk.Offset); err != nil {
		return err
	}
	r.report.Bytes += int64(len(chunk.Data))
	return nil
}

// end verifies the contents and makes them visible.
func (r *receiver) end(session string) error {
	if session != "" {
		if err := r.store.LanesEnded(session); err != nil {
			return err
		}
	}
	for i, content := range r.contents {
		open := r.open[i]
		if open == nil { // empty, or other lines brought it all
			var err error
			if open, err = r.store.Receive(content); err != nil {
				return err
			}
		}
		r.open[i] = nil
		if err := open.Commit(); err != nil {
			return err
		}
		r.report.Received = append(r.report.Received, content.SHA256)
		r.report.Changed = true
	}
	return nil
}

func (r *receiver) close() (err error) {
	for _, open := range r.open {
		if open != nil {
			err = errors.Join(err, open.Close())
		}
	}
	clear(r.open)
	for _, base := range r.bases {
		err = errors.Join(err, base.Close())
	}
	clear(r.bases)
	return err
}
