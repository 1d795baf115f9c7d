package receive

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transfer"
)

// silence is how long nothing may come. Where what is between forgets a connection, neither end learns of the other's end: a receiver that waited
// on would keep the next transfer away, and that waits a little longer than this.
const silence = 75 * time.Second

// heard is a standard input that knows when something came last.
type heard struct {
	io.Reader
	last atomic.Int64 // in nanoseconds, of the Unix time; 0: nothing yet
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.last.Store(time.Now().UnixNano())
	}
	return n, err
}

// next gives the next chunk, and false at the end of all.
func next(ctx context.Context, chunks <-chan transfer.Chunk, from *heard) (chunk transfer.Chunk, more bool, err error) {
	wait := time.NewTimer(silence)
	defer wait.Stop()
	for {
		select {
		case chunk, more = <-chunks:
			return chunk, more, nil
		case <-ctx.Done():
			return chunk, false, reason.Wrap(reason.Interrupted, "receive", ctx.Err(), "")
		case <-wait.C:
		}
		left := silence - time.Since(time.Unix(0, from.last.Load()))
		if left <= 0 {
			return chunk, false, reason.New(reason.ConnectionLost, "transfer stream", fmt.Sprintf("nothing came for %s", silence), "")
		}
		wait.Reset(left)
	}
}
