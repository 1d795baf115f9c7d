// Package line is a TCP line between two programs of a test: as long as one wants, counted, and cut or silent when it is told to be. It takes
// the place of a slow or broken network, which this kernel may not be able to make.
package line

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Line listens on loopback and passes on to a host.
type Line struct {
	listener net.Listener
	to       string
	oneWay   time.Duration

	// Sent and Received count the bytes towards the host and back.
	Sent, Received atomic.Int64

	mu     sync.Mutex
	open   map[net.Conn]bool
	cutAt  int64
	silent bool
	closed bool
	wait   sync.WaitGroup
}

// New makes a line to an address on which each byte takes roundTrip there and back.
func New(to string, roundTrip time.Duration) (*Line, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	l := &Line{listener: listener, to: to, oneWay: roundTrip / 2, open: map[net.Conn]bool{}, cutAt: -1}
	l.wait.Go(l.accept)
	return l, nil
}

// Port is where it listens, on 127.0.0.1.
func (l *Line) Port() int { return l.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it is a TCP listener

// Close ends it and everything on it.
func (l *Line) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.listener.Close()
	l.Cut()
	l.wait.Wait()
}

// Cut breaks the connections of this moment off.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Close()
	}
	clear(l.open)
}

// CutAfter breaks all connections off once so many more bytes have gone towards the host; negative: never.
func (l *Line) CutAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutAt = -1
	if bytes >= 0 {
		l.cutAt = l.Sent.Load() + bytes
	}
}

// Silence lets nothing through any more, and no connection end.
func (l *Line) Silence(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

func (l *Line) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.to) //nolint:noctx // a test's line
		if err != nil {
			near.Close()
			continue
		}
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			near.Close()
			far.Close()
			return
		}
		l.open[near], l.open[far] = true, true
		l.mu.Unlock()
		l.wait.Go(func() { l.pass(near, far, &l.Sent, true) })
		l.wait.Go(func() { l.pass(far, near, &l.Received, false) })
	}
}

// piece is what was read at once, and when it arrives at the other end.
type piece struct {
	at   time.Time
	data []byte
}

func (l *Line) pass(from, to net.Conn, count *atomic.Int64, towardsHost bool) {
	const underWay = 4096 // pieces of at most 64 KiB: more than any window
	pieces := make(chan piece, underWay)
	l.wait.Go(func() {
		defer to.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			data, over := l.allowed(p.data, count, towardsHost)
			if _, err := to.Write(data); err != nil {
				break
			}
			if over {
				l.Cut()
			}
		}
		from.Close()
		for range pieces { //nolint:revive // what is still read goes nowhere
		}
	})
	for {
		buffer := make([]byte, 64<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			pieces <- piece{time.Now().Add(l.oneWay), buffer[:n]}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	l.mu.Lock()
	delete(l.open, from)
	l.mu.Unlock()
}

// allowed gives what of some bytes may pass, and whether the line breaks after them.
func (l *Line) allowed(data []byte, count *atomic.Int64, towardsHost bool) (passed []byte, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return nil, false
	}
	if towardsHost && l.cutAt >= 0 && count.Load()+int64(len(data)) >= l.cutAt {
		data = data[:max(0, l.cutAt-count.Load())]
		l.cutAt, over = -1, true
	}
	count.Add(int64(len(data)))
	return data, over
}
