package winrm

import (
	"context"
	"errors"
	"io"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// errRefused: the caller takes no more output.
type refusedOutput struct{ error }

// Run runs a command. What is left of stdin when the command ends is not read.
func (c *connection) Run(ctx context.Context, command transport.Command) (int, error) {
	a, err := c.ask(ctx, c.startCommand(c.shell, command.Line))
	if err != nil {
		return -1, c.explain(err)
	}
	id := a.Body.CommandID
	if id == "" {
		return -1, c.invalid("it does not say which command it started")
	}
	feeding, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	receiving, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	if command.Stdin != nil {
		go func() {
			if err := c.feed(feeding, id, command.Stdin); err != nil {
				cut(err)
			}
		}()
	}
	code, err := c.receive(receiving, id, command)
	stop(io.EOF)
	if cause := context.Cause(receiving); err != nil && cause != nil && ctx.Err() == nil {
		err = cause // what broke the input off
	}
	c.finish(ctx, id, err)
	var refused refusedOutput
	if errors.As(err, &refused) {
		return -1, reason.Wrap(reason.HostOutputInvalid, c.object(), refused.error, "")
	}
	if err != nil {
		return -1, c.lost(ctx, c.explain(err))
	}
	return code, nil
}

// receive takes a command's output until its end.
func (c *connection) receive(ctx context.Context, id string, command transport.Command) (int, error) {
	writers := map[string]io.Writer{"stdout": command.Stdout, "stderr": command.Stderr}
	for {
		a, err := c.ask(ctx, c.receiveOutput(c.shell, id))
		if isFault(err, faultTimedOut) {
			continue // nothing to say, but alive
		}
		if err != nil {
			return -1, err
		}
		err = c.each(&a.Body.Received, func(stream string, data []byte) error {
			if w := writers[stream]; w != nil {
				if _, err := w.Write(data); err != nil {
					return refusedOutput{err}
				}
			}
			return nil
		})
		if err != nil {
			return -1, err
		}
		if code, done := a.Body.Received.done(); done {
			return code, nil
		}
	}
}

// feed sends standard input, each piece once the host has taken the one before. A command that reads no more ends it without an error. What
// is there is sent, also where it is less than a message holds: whoever writes it may wait for what the command says to it.
func (c *connection) feed(ctx context.Context, id string, stdin io.Reader) error {
	in := newInput(ctx, stdin)
	defer in.close()
	data, message := make([]byte, sendSize), make([]byte, 0, maxEnvelope)
	for {
		n, readErr := in.take(data)
		if ctx.Err() != nil {
			return nil
		}
		last := errors.Is(readErr, io.EOF)
		if readErr != nil && !last {
			return reason.Wrap(reason.ConnectionLost, c.object(), readErr, "")
		}
		message = c.sendInput(message, c.shell, id, data[:n], last)
		_, err := c.ask(context.WithoutCancel(ctx), message) // a message cut in its middle would break the channel; its time is bounded
		switch {
		case ctx.Err() != nil || isFault(err, faultNoShell, faultAborted, faultBrokenPipe, faultNoData):
			return nil // receive says what became of it
		case err != nil:
			return err
		case last:
			return nil
		}
	}
}

// finish lets the host forget a command, and ends it where it still runs.
func (c *connection) finish(ctx context.Context, id string, err error) {
	if reason.Is(err, reason.ConnectionLost) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(farewell, c.operation+time.Second))
	defer cancel()
	_, _ = c.ask(ctx, c.signal(c.shell, id, terminate)) // a shell that is gone has no commands
}

// RoundTrip is the fastest message of this connection so far: creating the shell is one.
func (c *connection) RoundTrip(context.Context) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fastest, true
}
