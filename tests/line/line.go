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

	mu        sync.Mutex
	open      map[net.Conn]bool
	forgotten map[net.Conn]bool
	cutAt     int64
	cutLater  []int64
	forgetAt  int64
	flipAt    int64
	flipBit   uint
	silent    bool
	speed     int64
	held      chan struct{}
	closed    bool
	wait      sync.WaitGroup
}

// never is where on the line nothing happens.
const never = -1

// New makes a line to an address on which each byte takes roundTrip there and back.
func New(to string, roundTrip time.Duration) (*Line, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	l := &Line{listener: listener, to: to, oneWay: roundTrip / 2, open: map[net.Conn]bool{}, forgotten: map[net.Conn]bool{},
		cutAt: never, forgetAt: never, flipAt: never}
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
	l.Hold(false)
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

// CutAfter breaks all connections off once so many more bytes have gone towards the host, and again so many bytes after each cut; negative
// or none: never.
func (l *Line) CutAfter(bytes ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutLater = bytes
	l.nextCut()
}

// CutsLeft gives how many cuts are still to come.
func (l *Line) CutsLeft() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutAt < 0 {
		return 0
	}
	return 1 + len(l.cutLater)
}

func (l *Line) nextCut() {
	l.cutAt = never
	if len(l.cutLater) > 0 && l.cutLater[0] >= 0 {
		l.cutAt, l.cutLater = l.Sent.Load()+l.cutLater[0], l.cutLater[1:]
	}
}

// FlipAfter flips a bit of the byte that comes after so many more towards the host.
func (l *Line) FlipAfter(bytes int64, bit uint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flipAt, l.flipBit = l.Sent.Load()+bytes, bit
}

// Flipped reports whether nothing is left to flip.
func (l *Line) Flipped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flipAt < 0
}

// ForgetAfter forgets all connections once so many more bytes have gone towards the host, as a firewall does that was started anew: nothing
// passes on them any more, and neither end learns that the other one has closed. New connections are as before.
func (l *Line) ForgetAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetAt = l.Sent.Load() + bytes
}

// Forgotten reports whether there is nothing left to forget.
func (l *Line) Forgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forgetAt < 0
}

// Silence lets nothing through any more, and no connection end.
func (l *Line) Silence(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

// Speed lets each direction of each connection carry so many bytes a second; 0: as many as it can.
func (l *Line) Speed(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speed = bytes
}

// takes gives how long some bytes are under way because the line is slow.
func (l *Line) takes(bytes int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.speed == 0 {
		return 0
	}
	return time.Duration(int64(bytes) * int64(time.Second) / l.speed)
}

// Hold keeps what is under way back, until it is told to let it go.
func (l *Line) Hold(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hold == (l.held != nil) {
		return
	}
	if hold {
		l.held = make(chan struct{})
		return
	}
	close(l.held)
	l.held = nil
}

func (l *Line) letGo() {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil {
		<-held
	}
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
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			time.Sleep(l.takes(len(p.data)))
			l.letGo()
			data, over := l.allowed(from, p.data, count, towardsHost)
			if len(data) > 0 {
				if _, err := to.Write(data); err != nil {
					break
				}
			}
			if over {
				l.Cut()
			}
		}
		if !l.keeps(to) {
			to.Close()
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

// keeps reports whether one end of a connection is not to learn of the other's end.
func (l *Line) keeps(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forgotten[c] && !l.closed
}

// allowed gives what of some bytes may pass, and whether the line breaks after them.
func (l *Line) allowed(from net.Conn, data []byte, count *atomic.Int64, towardsHost bool) (passed []byte, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent || l.forgotten[from] {
		return nil, false
	}
	if !towardsHost {
		count.Add(int64(len(data)))
		return data, false
	}
	end := count.Load() + int64(len(data))
	if l.forgetAt >= 0 && end > l.forgetAt {
		l.forgetAt = never
		for c := range l.open {
			l.forgotten[c] = true
		}
		return nil, false
	}
	if l.flipAt >= 0 && end > l.flipAt {
		data[l.flipAt-count.Load()] ^= 1 << (l.flipBit % 8)
		l.flipAt = never
	}
	if l.cutAt >= 0 && end >= l.cutAt {
		data, over = data[:max(0, l.cutAt-count.Load())], true
	}
	count.Add(int64(len(data)))
	if over {
		l.nextCut()
	}
	return data, over
}
