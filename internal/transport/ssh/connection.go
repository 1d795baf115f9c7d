package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// endWithin bounds the wait for a command's streams after it was cut off, and for the answer of a bastion that may be to blame.
const endWithin = 2 * time.Second

type connection struct {
	*settings
	// hops are the bastions in their order, and the host.
	hops   []*hop
	client *ssh.Client // the host's
	done   chan struct{}
	close  sync.Once

	files     *sftp.Client
	noFiles   error
	filesOnce sync.Once
}

// Close ends the connection, everything on it and all bastions' connections. The outermost goes first: what is inside of it cannot wait for
// an answer then.
func (c *connection) Close() error {
	c.close.Do(func() { close(c.done) })
	var first error
	for _, h := range c.hops {
		if err := h.client.Close(); err != nil && !isClosed(err) && first == nil {
			first = err
		}
	}
	c.filesOnce.Do(func() { c.noFiles = net.ErrClosed })
	if c.files != nil {
		c.files.Close()
	}
	return first
}

// Run runs a command. What is left of stdin when the command ends is not read.
func (c *connection) Run(ctx context.Context, command transport.Command) (int, error) {
	session, err := c.session(ctx)
	if err != nil {
		return -1, err
	}
	defer session.Close()
	ended := make(chan struct{})
	defer close(ended)
	cut := func() {
		go session.Close() // which a line that takes nothing any more would hold up
		select {
		case <-ended:
		case <-time.After(endWithin): // a server waits for the command, however long that goes on
			c.client.Close()
		}
	}
	stop := context.AfterFunc(ctx, cut)
	defer stop()
	broken := &breakage{stop: sync.OnceFunc(func() { go cut() })}
	session.Stdout, session.Stderr = broken.guard(command.Stdout), broken.guard(command.Stderr)
	stdin, err := session.StdinPipe()
	if err != nil {
		return -1, c.lost(ctx, err)
	}
	if err := session.Start(command.Line); err != nil {
		return -1, c.lost(ctx, err)
	}
	go c.feed(session, stdin, command.Stdin, broken)
	err = session.Wait()
	var exit *ssh.ExitError
	output, input := broken.errors()
	switch {
	case ctx.Err() != nil: // also where the command took the end of its session for the end of its input, and says that all is well
		return -1, c.lost(ctx, err)
	case output != nil:
		return -1, reason.Wrap(reason.HostOutputInvalid, c.object(), output, "")
	case input != nil:
		return -1, fmt.Errorf("%s: the input of a command cannot be read: %w", c.object(), input)
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() == "":
		return exit.ExitStatus(), nil
	}
	return -1, c.lost(ctx, err)
}

// session opens a channel for a command; a line that hangs does not hold up whoever has lost patience.
func (c *connection) session(ctx context.Context) (*ssh.Session, error) {
	type result struct {
		session *ssh.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		session, err := c.client.NewSession()
		opened <- result{session, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, c.lost(ctx, r.err)
		}
		return r.session, nil
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.session.Close()
			}
		}()
		return nil, c.lost(ctx, ctx.Err())
	}
}

// feed copies the input. It is not session.Stdin: Wait would wait for a reader that nobody feeds any more. Input that cannot be read must not
// look like one that has ended, so the command is stopped before it can see the end.
func (c *connection) feed(session *ssh.Session, stdin io.WriteCloser, from io.Reader, broken *breakage) {
	if from == nil {
		stdin.Close()
		return
	}
	source := &source{Reader: from}
	_, _ = io.Copy(stdin, source) // a command that takes no more input is no failure
	if source.err != nil {
		broken.input(source.err)
		_ = session.Signal(ssh.SIGKILL) // where the server does not know signals, the end of the session is what is left
		broken.stop()
		return
	}
	stdin.Close()
}

// source remembers why it could not be read.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// breakage ends a command whose output the caller does not take any more, or whose input cannot be read: it would never end, or wrongly.
type breakage struct {
	mu      sync.Mutex
	out, in error
	stop    func()
}

func (b *breakage) guard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return guarded{w, b}
}

func (b *breakage) errors() (output, input error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out, b.in
}

func (b *breakage) input(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in = err
}

type guarded struct {
	w io.Writer
	b *breakage
}

func (g guarded) Write(p []byte) (int, error) {
	n, err := g.w.Write(p)
	if err != nil {
		g.b.mu.Lock()
		if g.b.out == nil {
			g.b.out = err
		}
		g.b.mu.Unlock()
		g.b.stop()
	}
	return n, err
}

// lost makes of an error on the line what it means.
func (c *connection) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return c.cancelled(ctx)
	}
	return c.blame(reason.Wrap(reason.ConnectionLost, c.object(), err, ""))
}

// blame names the bastion or the silence that is behind an error, if one is: the host's own connection only sees its end.
func (c *connection) blame(err error) error {
	for i, h := range c.hops {
		if i < len(c.hops)-1 || h.bastion != "" {
			if err := h.probe(endWithin, c.done); err != nil { // its own keepalive may come later than that of what is inside of it
				h.over(err)
			}
		}
		if why := h.reason(); why != nil {
			return reason.Wrap(reason.ConnectionLost, h.object(), why, "")
		}
	}
	return err
}

func isClosed(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}
