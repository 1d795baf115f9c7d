package ssh

import (
	"context"
	"time"
)

// RoundTrip measures how long the host's SSH server takes to answer.
func (c *connection) RoundTrip(ctx context.Context) (time.Duration, bool) {
	begin := time.Now()
	stop := context.AfterFunc(ctx, func() { c.client.Close() })
	defer stop()
	_, _, _ = c.client.SendRequest("keepalive@openssh.com", true, nil) // any answer is one; a lost connection is the next command's to tell
	return time.Since(begin), false
}
