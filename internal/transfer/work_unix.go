//go:build unix

package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"wsu.windows/internal/transfer/delta"
)

const (
	// keepFrom is the size from which a file's frames are kept.
	keepFrom = 64 << 10
	// deltaFrom and maxDelta bound which files a difference is made for, in bytes: it costs memory of several times the size.
	deltaFrom = 4 << 20
	maxDelta  = 512 << 20
	// slowLine is the speed, in bytes of the line per second, below which a thorough compression costs less time than it saves. The
	// first measureFor tell.
	slowLine   = 2 << 20
	measureFor = 3 * time.Second
)

// File is a local file that is sent as a content.
type File struct {
	Content
	Path string
	// Secret files are not compressed: nothing of them is kept on the disk.
	Secret bool
	// Chunks are those to send, in their order; nil is all.
	Only []int
	// BasePath is the local file of the content Base, where the far end has it too.
	BasePath string
}

func (f File) chunks() []int {
	if f.Only != nil {
		return f.Only
	}
	all := make([]int, f.Chunks())
	for i := range all {
		all[i] = i
	}
	return all
}

// Work is what has to be sent to one host, shared by the lanes that send it.
type Work struct {
	files   []File
	sources []source
	session string
	// Sent is called after each chunk with its bytes before compression, from one goroutine at a time.
	Sent func(bytes int64)
	// MaxUnderWay bounds what all lanes together have sent and the far end has not told Arrived of, in bytes of the line: that much is lost
	// by a cut. 0 is no bound. Until the far end says anything, which may well be that it is busy, only one chunk is sent.
	MaxUnderWay int64

	mu      sync.Mutex
	room    *sync.Cond
	sent    [MaxLanes]int64
	arrived [MaxLanes]int64
	heard   bool
	todo    []piece
	wire    int64
	begun   time.Time
	chosen  bool
	lanes   sync.WaitGroup
	better  sync.WaitGroup
	failure error
	// replaced are sources that better ones took the place of.
	replaced []source
}

type piece struct {
	index, chunk int
	from         source
}

// NewWork opens the files, and packs those that nobody has packed before. A session is needed for more than one lane.
func NewWork(files []File, session string) (*Work, error) {
	w := &Work{files: files, session: session}
	w.room = sync.NewCond(&w.mu)
	m := w.manifest(0)
	if err := m.Check(); err != nil {
		return nil, err
	}
	for i, f := range files {
		s, err := openSource(&files[i])
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		w.sources = append(w.sources, s)
		for _, chunk := range f.chunks() {
			w.todo = append(w.todo, piece{index: i, chunk: chunk})
		}
	}
	return w, nil
}

// Close closes the files.
func (w *Work) Close() {
	w.better.Wait()
	for _, s := range append(w.replaced, w.sources...) {
		_ = s.Close()
	}
}

// Bytes gives what is left to send, before compression and on the line.
func (w *Work) Bytes() (raw, wire int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.todo {
		raw += int64(w.files[p.index].chunkLength(p.chunk))
		wire += w.sources[p.index].size(p.chunk)
	}
	return raw, wire
}

func (w *Work) manifest(lane int) *Manifest {
	m := &Manifest{Version: Version, Session: w.session, Lane: lane, Contents: []Content{}}
	for _, f := range w.files {
		m.Contents = append(m.Contents, f.Content)
	}
	return m
}

// openSource takes the kept frames where there may be some. A base that is of no use is forgotten.
func openSource(f *File) (source, error) {
	if f.BasePath != "" && f.Size >= deltaFrom && f.Size <= maxDelta && !f.Secret {
		if kept, err := openDelta(*f); err == nil {
			return kept, nil
		}
	}
	f.Base = ""
	if f.Secret || f.Size < keepFrom {
		return openPlain(*f)
	}
	kept, err := openKept(*f, fast)
	if err != nil {
		return openPlain(*f) // the cache is not writable or the disk is full: more bytes, the same contents
	}
	return kept, nil
}

// openDelta opens the differences to the base, if they are much smaller than the file packed alone.
func openDelta(f File) (source, error) {
	whole, err := openKept(f, fast)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	kept, err := openKept(f, difference(f))
	if err != nil {
		return nil, err
	}
	if all := f.chunks(); kept.wireSize(all) > whole.wireSize(all)*3/4 {
		return nil, errors.Join(delta.ErrNoGain, kept.Close())
	}
	return kept, nil
}

// Send writes one lane's stream: chunks as long as there are some that no lane has taken. The main stream, lane 0, ends when all others have ended.
func (w *Work) Send(ctx context.Context, out io.Writer, lane int) error {
	if lane > 0 {
		defer w.lanes.Done()
	}
	err := w.send(ctx, out, lane)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.failure == nil {
		w.failure = err
		w.room.Broadcast()
	}
	return err
}

// Arrived says how many bytes of a lane's frames the far end has written down.
func (w *Work) Arrived(lane int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrived[lane] = max(w.arrived[lane], min(bytes, w.sent[lane]))
	w.heard = true
	w.room.Broadcast()
}

// fits reports whether so many bytes more may be under way.
func (w *Work) fits(bytes int64) bool {
	var underWay int64
	for lane := range w.sent {
		underWay += w.sent[lane] - w.arrived[lane]
	}
	return w.MaxUnderWay == 0 || underWay == 0 || w.heard && underWay+bytes <= w.MaxUnderWay
}

// AddLane announces a lane beside the main stream, before its Send. DropLane takes that back.
func (w *Work) AddLane() { w.lanes.Add(1) }

// DropLane see AddLane.
func (w *Work) DropLane() { w.lanes.Done() }

// Differences gives the contents that are sent as differences.
func (w *Work) Differences() (sha256 []string) {
	for _, f := range w.files {
		if f.Base != "" {
			sha256 = append(sha256, f.SHA256)
		}
	}
	return sha256
}

func (w *Work) send(ctx context.Context, out io.Writer, lane int) error {
	b := bufio.NewWriterSize(out, 64<<10)
	if err := WriteManifest(b, w.manifest(lane)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.room.Broadcast()
	})()
	buffer := make([]byte, ChunkSize)
	for {
		p, found, err := w.next(ctx, lane, b.Flush)
		if err != nil {
			return err
		}
		if !found {
			break
		}
		header, data, err := w.frame(p, buffer)
		if err != nil {
			return fmt.Errorf("%s: %w", w.files[p.index].Path, err)
		}
		if _, err := b.Write(header.encode()); err != nil {
			return err
		}
		if _, err := b.Write(data); err != nil {
			return err
		}
		w.count(header)
	}
	if err := b.Flush(); err != nil { // the others wait for these chunks
		return err
	}
	if lane == 0 {
		if err := w.others(ctx); err != nil {
			return err
		}
	}
	if _, err := b.Write(frame{kind: kindEnd}.encode()); err != nil {
		return err
	}
	return b.Flush()
}

// others waits for the lanes beside the main stream.
func (w *Work) others(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		w.lanes.Wait()
		w.allArrived(ctx)
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// allArrived waits until the far end has written down what the other lanes have sent, where it says so: a lane may be slower than the main
// stream, whose end says that everything is there.
func (w *Work) allArrived(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for lane := 1; lane < MaxLanes; lane++ {
		for w.MaxUnderWay > 0 && w.arrived[lane] < w.sent[lane] && w.failure == nil && ctx.Err() == nil {
			w.room.Wait()
		}
	}
}

// next takes the next chunk, when it fits. What was written before is on its way while it waits.
func (w *Work) next(ctx context.Context, lane int, flush func() error) (piece, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for flushed := false; ; {
		if ctx.Err() != nil {
			return piece{}, false, ctx.Err()
		}
		if w.failure != nil || len(w.todo) == 0 {
			return piece{}, false, nil
		}
		p := w.todo[0]
		p.from = w.sources[p.index]
		if bytes := p.from.size(p.chunk); w.fits(bytes) {
			w.todo = w.todo[1:]
			w.sent[lane] += bytes
			if w.begun.IsZero() {
				w.begun = time.Now()
			}
			return p, true, nil
		}
		if flushed {
			w.room.Wait()
			continue
		}
		w.mu.Unlock()
		err := flush()
		w.mu.Lock()
		if err != nil {
			return piece{}, false, err
		}
		flushed = true
	}
}

func (w *Work) frame(p piece, buffer []byte) (frame, []byte, error) {
	header, data, err := p.from.frame(p.chunk, buffer)
	header.index = uint32(p.index) //nolint:gosec // at most MaxContents
	return header, data, err
}

func (w *Work) count(f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wire += headerLength + int64(f.wire)
	if w.Sent != nil {
		w.Sent(int64(f.raw))
	}
	if since := time.Since(w.begun); !w.chosen && since > measureFor {
		w.chosen = true
		if float64(w.wire)/since.Seconds() < slowLine {
			w.better.Go(w.packBetter)
		}
	}
}

// packBetter has the rest packed thoroughly while the line is busy, and goes over to that when it is done.
func (w *Work) packBetter() {
	for i, f := range w.files {
		w.mu.Lock()
		_, kept := w.sources[i].(*keptFrames)
		w.mu.Unlock()
		if !kept || f.Base != "" {
			continue
		}
		better, err := openKept(f, thorough)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.replaced = append(w.replaced, w.sources[i]) // a lane may be reading from it
		w.sources[i] = better
		w.mu.Unlock()
	}
}
