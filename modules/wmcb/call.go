package wmcb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/remotewmcb"
	"wsu.windows/internal/transport"
)

const (
	// attempts bounds how often a lost connection is made again, pause is the time before.
	attempts = 4
	pause    = 2 * time.Second
	// busyWithin is how long another run on the host is waited for: the longest apply proves its kubelet, undoes, and proves the old one.
	busyWithin = 4 * time.Minute
	// maxArchive bounds a support archive, in bytes.
	maxArchive = 512 << 20
)

// call is one use of wmcb.exe on one host.
type call struct {
	args       *Args
	env        *ansible.Env
	connection transport.Connection
	remote     *remotewmcb.Remote
	// ran is true where a document may have come.
	ran bool
	// left are temporary copies of wmcb.exe that a lost connection left behind, maybe still at work.
	left []*remotewmcb.Remote
}

func (c *call) open(ctx context.Context) error {
	connection, err := remotewmcb.Dial(ctx, c.args.Connection)
	if err != nil {
		return err
	}
	c.connection = connection
	c.remote, err = remotewmcb.Open(ctx, connection, c.args.WMCB, remotewmcb.Host{
		Name: c.args.Connection.InventoryHostname, InstallDir: c.args.InstallDir, Progress: c.env.Progress,
		Temporary: c.args.Command == "remove" && !c.env.CheckMode, // a program cannot be deleted while it runs
	})
	if err != nil {
		c.remote = nil
		c.close(ctx)
	}
	return err
}

func (c *call) close(ctx context.Context) {
	if c.remote != nil {
		for _, left := range c.left {
			left.Over(c.connection).Delete(ctx)
		}
		c.left = nil
		c.remote.Close(ctx)
		c.remote = nil
	}
	if c.connection != nil {
		_ = c.connection.Close() // nothing is left to lose
		c.connection = nil
	}
}

// detached are the commands that go on when the connection is lost; the same line again gives their outcome.
func (c *call) detached() bool {
	return slices.Contains([]string{"apply", "rollback", "remove"}, c.args.Command) && !c.env.CheckMode
}

// run runs a command. All commands may be repeated: where the connection is lost, what became of the first run is found out by another one.
func (c *call) run(ctx context.Context, line []string, document any) error {
	if c.detached() {
		line = append([]string{"run", "--id", rand.Text()}, line...)
	}
	var tried trials
	for {
		err := c.once(ctx, line, document)
		if err == nil || ctx.Err() != nil || !tried.again(err) {
			return err
		}
		c.env.Progress.Say(c.args.Command, "asking again: "+reason.Of(err).Problem)
		if c.remote != nil && !c.remote.Installed() {
			c.left = append(c.left, c.remote)
			c.remote = nil
		}
		c.close(ctx)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// trials are the attempts at one command.
type trials struct {
	count     int
	lost      bool
	busySince time.Time
}

// again reports whether another attempt is worth it after this error.
func (t *trials) again(err error) bool {
	t.count++
	switch {
	case remotewmcb.IsLost(err):
		t.lost = true
		return t.count < attempts
	case reason.Is(err, reason.HostUnreachable):
		return t.lost && t.count < attempts
	case reason.Is(err, reason.NodeBusy):
		t.count-- // what an earlier run has begun outlives it, and is waited for
		if t.busySince.IsZero() {
			t.busySince = time.Now()
		}
		return time.Since(t.busySince) < busyWithin
	}
	return false
}

func (c *call) once(ctx context.Context, line []string, document any) error {
	if c.remote == nil {
		if err := c.open(ctx); err != nil {
			return err
		}
	}
	stdin, err := c.spec()
	if err != nil {
		return err
	}
	c.ran = true
	return c.remote.Run(ctx, line, stdin, nil, document)
}

// wouldEnroll says whether enroll would make a certificate, without making one.
func (c *call) wouldEnroll(ctx context.Context) (ansible.Result, error) {
	defer c.close(ctx)
	if err := c.open(ctx); err != nil {
		return ansible.Result{Data: Result{}}, err
	}
	var status nodereport.Status
	err := c.remote.Run(ctx, []string{"status", "--install-dir", c.args.InstallDir, "--log-lines", "0"}, nil, nil, &status)
	if err != nil {
		return ansible.Result{Data: Result{}}, err
	}
	until, err := time.Parse(time.RFC3339, status.ClientCertificateNotAfter)
	if err == nil && time.Now().Before(until) {
		return ansible.Result{Msg: "the node has its certificate", Data: Result{}}, nil
	}
	return ansible.Result{Changed: true, Msg: "the node would make a key and ask for a certificate", Data: Result{}}, nil
}

// removeProgram deletes what wmcb itself cannot: the installed wmcb.exe, and its folder where nothing else is in it.
func (c *call) removeProgram(ctx context.Context) error {
	if err := c.connection.Remove(ctx, c.args.InstallDir+`\wmcb.exe`); err != nil {
		return err
	}
	_ = c.connection.Remove(ctx, c.args.InstallDir) // what is not ours keeps the folder there
	return nil
}

// collect fetches the support archive into a file that only its owner reads.
func (c *call) collect(ctx context.Context) (ansible.Result, error) {
	defer c.close(ctx)
	document := &nodereport.Collect{}
	if err := os.MkdirAll(filepath.Dir(c.args.Dest), 0o700); err != nil {
		return ansible.Result{Data: Result{}}, reason.Wrap(reason.AccessDenied, c.args.Dest, err, "Set wsu_report_dir to a folder that you can write to.")
	}
	temporary, err := os.CreateTemp(filepath.Dir(c.args.Dest), ".wsu-archive-*") // 0600
	if err != nil {
		return ansible.Result{Data: Result{}}, reason.Wrap(reason.AccessDenied, c.args.Dest, err, "Set wsu_report_dir to a folder that you can write to.")
	}
	defer os.Remove(temporary.Name())
	err = c.fetch(ctx, temporary, document)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), c.args.Dest)
	}
	shown := result(c.env.Host, document, err == nil)
	shown.Changed = false // neither host nor cluster
	return shown, err
}

func (c *call) fetch(ctx context.Context, into io.Writer, document *nodereport.Collect) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	line := []string{"collect", "--install-dir", c.args.InstallDir, "--to", "-"}
	if c.args.Options.LogDir != "" {
		line = append(line, "--log-dir", c.args.Options.LogDir)
	}
	sum := sha256.New()
	if err := c.remote.Run(ctx, line, nil, &atMost{io.MultiWriter(into, sum), maxArchive}, document); err != nil {
		return err
	}
	if seen := hex.EncodeToString(sum.Sum(nil)); seen != document.SHA256 {
		return reason.New(reason.TransferChecksum, "support archive of "+c.args.Connection.InventoryHostname,
			fmt.Sprintf("what arrived has the SHA-256 %s, and the host says %s", seen, document.SHA256), "")
	}
	return nil
}

// atMost refuses output without end.
type atMost struct {
	w    io.Writer
	left int64
}

func (a *atMost) Write(p []byte) (int, error) {
	if a.left -= int64(len(p)); a.left < 0 {
		return 0, errors.New("the archive is too large")
	}
	return a.w.Write(p)
}
