package ssh

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

const (
	// keepAliveEvery and keepAliveWithin: a dead peer is noticed after their sum at the latest.
	keepAliveEvery  = 10 * time.Second
	keepAliveWithin = 10 * time.Second
	// endWithin bounds the wait for a command's streams after it was cut off.
	endWithin = 2 * time.Second
)

type connection struct {
	*settings
	client *ssh.Client
	done   chan struct{}
	close  sync.Once

	files     *sftp.Client
	noFiles   error
	filesOnce sync.Once
}

// Close ends the connection and everything on it.
func (c *connection) Close() error {
	c.close.Do(func() { close(c.done) })
	if c.files != nil {
		c.files.Close()
	}
	if err := c.client.Close(); err != nil && !errors.Is(err, io.EOF) && !isClosed(err) {
		return err
	}
	return nil
}

// keepAlive closes the connection when the host does not answer any more, which ends whatever waits on it.
func (c *connection) keepAlive() {
	ticker := time.NewTicker(keepAliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case <-c.done:
			return
		case err := <-answered:
			if err == nil {
				continue
			}
		case <-time.After(keepAliveWithin):
		}
		c.client.Close()
		return
	}
}

// Run runs a command. What is left of stdin when the command ends is not read.
func (c *connection) Run(ctx context.Context, command transport.Command) (int, error) {
	session, err := c.client.NewSession()
	if err != nil {
		return -1, c.lost(ctx, err)
	}
	defer session.Close()
	stop := context.AfterFunc(ctx, func() {
		session.Close()
		time.AfterFunc(endWithin, func() { c.client.Close() })
	})
	defer stop()
	refused := &refusal{stop: func() { session.Close() }}
	session.Stdout, session.Stderr = refused.guard(command.Stdout), refused.guard(command.Stderr)
	stdin, err := session.StdinPipe()
	if err != nil {
		return -1, c.lost(ctx, err)
	}
	if err := session.Start(command.Line); err != nil {
		return -1, c.lost(ctx, err)
	}
	go func() { // not session.Stdin: Wait would wait for a reader that nobody feeds any more
		if command.Stdin != nil {
			_, _ = io.Copy(stdin, command.Stdin)
		}
		stdin.Close()
	}()
	err = session.Wait()
	var exit *ssh.ExitError
	refusedErr := refused.error()
	switch {
	case refusedErr != nil && ctx.Err() == nil:
		return -1, reason.Wrap(reason.HostOutputInvalid, c.object(), refusedErr, "")
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return -1, c.lost(ctx, err)
	case errors.As(err, &exit) && exit.Signal() == "":
		return exit.ExitStatus(), nil
	}
	return -1, c.lost(ctx, err)
}

// refusal ends a command whose output the caller does not take any more: nobody would read what it goes on to say, and it would never end.
type refusal struct {
	mu   sync.Mutex
	err  error
	stop func()
}

func (r *refusal) guard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return guarded{w, r}
}

func (r *refusal) error() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

type guarded struct {
	w io.Writer
	r *refusal
}

func (g guarded) Write(p []byte) (int, error) {
	n, err := g.w.Write(p)
	if err != nil {
		g.r.mu.Lock()
		if g.r.err == nil {
			g.r.err = err
		}
		g.r.mu.Unlock()
		g.r.stop()
	}
	return n, err
}

func (c *connection) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return reason.New(reason.Timeout, c.object(), "it took longer than allowed", "")
		}
		return reason.Wrap(reason.Interrupted, c.object(), ctx.Err(), "")
	}
	return reason.Wrap(reason.ConnectionLost, c.object(), err, "")
}

func isClosed(err error) bool {
	return err != nil && (errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) || errors.Is(err, errClosed))
}
