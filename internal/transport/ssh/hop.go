package ssh

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// hop is one SSH connection of a chain: a bastion's, or at its end the host's.
type hop struct {
	*settings
	client *ssh.Client
	// ended is closed when the connection is over, for whatever reason.
	ended chan struct{}

	mu  sync.Mutex
	why error
}

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

// probe asks the far end for any answer; it is nil, too, when done is closed.
func (h *hop) probe(within time.Duration, done <-chan struct{}) error {
	answered := make(chan error, 1)
	go func() {
		_, _, err := h.client.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case <-done:
		return nil
	case err := <-answered:
		return err
	case <-time.After(within):
		return fmt.Errorf("it does not answer any more, for %s", within)
	}
}
