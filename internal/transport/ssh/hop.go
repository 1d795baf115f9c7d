package ssh

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// hop is one SSH connection of a chain: a bastion's, or at its end the host's.
type hop struct {
	*settings
	client *ssh.Client
	heard  *heard
	// ended is closed when the connection is over, for whatever reason.
	ended chan struct{}

	mu  sync.Mutex
	why error
}

// heard is a connection that knows when something came from the far end last.
type heard struct {
	net.Conn
	last atomic.Int64 // in nanoseconds, of the Unix time
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.last.Store(time.Now().UnixNano())
	}
	return n, err
}

// silent gives how long nothing came.
func (h *heard) silent() time.Duration { return time.Since(time.Unix(0, h.last.Load())) }

// watch waits for the end.
func (h *hop) watch() {
	h.over(h.client.Wait())
	close(h.ended)
}

// over notes the first reason for the end.
func (h *hop) over(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil {
		h.why = err
	}
}

func (h *hop) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

// keepAwake closes the connection when the far end does not answer any more, which ends whatever waits on it.
func (h *hop) keepAwake(done <-chan struct{}) {
	ticker := time.NewTicker(h.keepAlive.every)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-h.ended:
			return
		case <-ticker.C:
		}
		err := h.probe(h.keepAlive.within, done)
		if err == nil {
			continue
		}
		h.over(err)
		h.client.Close()
		return
	}
}

// probe asks the far end for any answer; it is nil, too, when done is closed. On a slow line the question stands behind what was sent before
// it, but then the far end says again and again that it takes that: only silence is no answer.
func (h *hop) probe(within time.Duration, done <-chan struct{}) error {
	answered := make(chan error, 1)
	go func() {
		_, _, err := h.client.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	wait := time.NewTimer(within)
	defer wait.Stop()
	for {
		select {
		case <-done:
			return nil
		case err := <-answered:
			return err
		case <-wait.C:
		}
		left := within - h.heard.silent()
		if left <= 0 {
			return fmt.Errorf("it does not answer any more, for %s", within)
		}
		wait.Reset(left)
	}
}
