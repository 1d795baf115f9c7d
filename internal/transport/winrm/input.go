package winrm

import (
	"context"
	"io"
	"sync"
)

// input gathers standard input for the next message while the one before is under way.
type input struct {
	from io.Reader
	stop func() bool

	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	err     error
}

func newInput(ctx context.Context, from io.Reader) *input {
	in := &input{from: from, data: make([]byte, 0, sendSize)}
	in.changed = sync.NewCond(&in.mu)
	in.stop = context.AfterFunc(ctx, func() { in.end(ctx.Err()) })
	go in.gather()
	return in
}

// gather reads as long as there is room for what comes.
func (in *input) gather() {
	const piece = 64 << 10
	buffer := make([]byte, piece)
	for {
		in.mu.Lock()
		for in.err == nil && len(in.data) == cap(in.data) {
			in.changed.Wait()
		}
		room, err := cap(in.data)-len(in.data), in.err
		in.mu.Unlock()
		if err != nil {
			return
		}
		n, err := in.from.Read(buffer[:min(room, len(buffer))])
		in.mu.Lock()
		in.data = append(in.data, buffer[:n]...)
		in.mu.Unlock()
		if in.end(err); err != nil {
			return
		}
	}
}

// end notes the first error, and tells whoever waits that there is something new.
func (in *input) end(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
	}
	in.changed.Broadcast()
}

// take waits for something and gives all that there is. The error, io.EOF at the end, comes with the last of it.
func (in *input) take(into []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.err == nil && len(in.data) == 0 {
		in.changed.Wait()
	}
	n := copy(into, in.data)
	in.data = in.data[:0]
	in.changed.Broadcast()
	return n, in.err
}

func (in *input) close() {
	in.stop()
	in.end(io.ErrClosedPipe)
}
