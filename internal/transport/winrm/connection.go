package winrm

import (
	"context"
	"errors"
	"sync"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

const (
	// idle is how long a shell outlives us when the line is cut, the least that Windows allows.
	idle = 60 * time.Second
	// farewell bounds what is said to the host at the end.
	farewell = 5 * time.Second
)

// connection is a login and one shell. Sends and receives go on at the same time, so it has several channels.
type connection struct {
	*settings
	way     string
	tickets *tickets

	mu    sync.Mutex
	free  []*channel
	shell string
	// fastest is the shortest time that a message and its answer took.
	fastest time.Duration
}

// Dial logs in. Its errors are reason.Errors that tell a host that is down from one that is another, and from a refused login.
func Dial(ctx context.Context, config transport.Config) (transport.Connection, error) {
	s, err := newSettings(config)
	if err != nil {
		return nil, err
	}
	var refusals []error
	for _, way := range s.logins {
		c := &connection{settings: s, way: way, tickets: &tickets{settings: s}}
		if err = c.start(ctx); err == nil {
			return c, nil
		}
		if !reason.Is(err, reason.AuthFailed) {
			return nil, err
		}
		refusals = append(refusals, err)
	}
	if len(refusals) > 1 {
		return nil, reason.Wrap(reason.AuthFailed, s.object(), errors.Join(refusals...), "")
	}
	return nil, err
}

// start makes the shell: that is the first request which needs the rights of the account.
func (c *connection) start(ctx context.Context) error {
	orphans.end(ctx, c)
	a, err := c.ask(ctx, c.createShell(idle))
	if err != nil {
		c.closeChannels()
		return c.explain(err)
	}
	c.shell, err = c.shellOf(a)
	return err
}

// ask sends an envelope on a free channel.
func (c *connection) ask(ctx context.Context, envelope []byte) (*answer, error) {
	channel, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	raw, err := channel.post(ctx, envelope)
	if err != nil {
		channel.close()
		return nil, err
	}
	c.give(channel, time.Since(begun))
	return c.parse(raw)
}

func (c *connection) take(ctx context.Context) (*channel, error) {
	c.mu.Lock()
	if n := len(c.free); n > 0 {
		channel := c.free[n-1]
		c.free = c.free[:n-1]
		c.mu.Unlock()
		return channel, nil
	}
	c.mu.Unlock()
	return c.open(ctx, c.way, c.tickets)
}

func (c *connection) give(channel *channel, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fastest == 0 || took < c.fastest {
		c.fastest = took
	}
	c.free = append(c.free, channel)
}

func (c *connection) closeChannels() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, channel := range c.free {
		channel.close()
	}
	c.free = nil
}

// Close deletes the shell, which ends what still runs in it.
func (c *connection) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell) //nolint:contextcheck // said at the end, when the caller's context may be over
	defer cancel()
	shell := c.shell
	c.shell = ""
	if shell != "" {
		if _, err := c.ask(ctx, c.deleteShell(shell)); err != nil && !isFault(err, faultNoShell) {
			orphans.add(c.endpoint.Host, shell)
		}
	}
	c.closeChannels()
	return nil
}

// orphans are the shells of connections that were cut: on the host they live on until they have been idle for long enough, and what runs in
// them keeps its files. The next connection to the host ends them.
var orphans = orphanage{shells: map[string][]string{}}

type orphanage struct {
	mu     sync.Mutex
	shells map[string][]string // by the host's address
}

func (o *orphanage) add(host, shell string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shells[host] = append(o.shells[host], shell)
}

func (o *orphanage) end(ctx context.Context, c *connection) {
	o.mu.Lock()
	shells := o.shells[c.endpoint.Host]
	delete(o.shells, c.endpoint.Host)
	o.mu.Unlock()
	for _, shell := range shells {
		if _, err := c.ask(ctx, c.deleteShell(shell)); err != nil && !isFault(err, faultNoShell) {
			o.add(c.endpoint.Host, shell)
		}
	}
}
