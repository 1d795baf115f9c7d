// Package transfer is the module transfer: it brings a set of contents to a Windows host, only what is missing there, verified, resumed.
package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/remotewmcb"
	stream "wsu.windows/internal/transfer"
	"wsu.windows/internal/transport"
)

// Module is the module.
var Module = ansible.New("transfer", Run)

const (
	// attempts bounds how often a lost connection is made again, pause is the time before.
	attempts = 4
	pause    = 2 * time.Second
	// busyWithin is how long another transfer to the host is waited for.
	busyWithin = 60 * time.Second
)

// Args are the module's arguments. Timeout is in seconds.
type Args struct {
	Connection *transport.Config `json:"connection" opaque:"true"`
	WMCB       remotewmcb.Binary `json:"wmcb" required:"true"`
	Files      []File            `json:"files" required:"true"`
	InstallDir string            `json:"install_dir" default:"C:\\k"`
	Timeout    int               `json:"timeout" default:"1800"`
}

// File is a local file. Secret files leave no trace on the control host.
type File struct {
	Name   string `json:"name" required:"true"`
	Path   string `json:"path" path:"true" required:"true"`
	SHA256 string `json:"sha256" required:"true"`
	Size   int64  `json:"size" required:"true"`
	Secret bool   `json:"secret"`
	// Component and Version are not used: what the module payload returns fits as it is.
	Component string `json:"component"`
	Version   string `json:"version"`
}

// Result is what the module returns. Bytes are before compression; WireBytes as they were sent.
type Result struct {
	Sent      []string `json:"sent"`
	Present   []string `json:"present"`
	SentBytes int64    `json:"sent_bytes"`
	WireBytes int64    `json:"wire_bytes"`
	// FirstFile is how wmcb.exe got there: present, sftp or tar.
	FirstFile string `json:"first_file"`
}

// Run brings what is missing.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(args.Timeout)*time.Second)
	defer cancel()
	t := &job{args: args, env: env, result: Result{Sent: []string{}, Present: []string{}}}
	changed, err := t.run(ctx)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = reason.New(reason.Timeout, "transfer to "+t.host(), fmt.Sprintf("it took longer than %d s", args.Timeout), "Raise wsu_transfer_timeout, or find out why the line is slow. What has arrived is kept.")
	}
	return ansible.Result{Changed: changed, Msg: t.message(changed), Data: t.result}, err
}

// job is one transfer to one host.
type job struct {
	args   *Args
	env    *ansible.Env
	result Result
	// total and done are in bytes, for the progress.
	total, done int64
}

func (j *job) host() string {
	if j.args.Connection == nil {
		return j.env.Host
	}
	return j.args.Connection.InventoryHostname
}

func (j *job) message(changed bool) string {
	switch {
	case !changed:
		return "everything is there"
	case j.env.CheckMode:
		return fmt.Sprintf("would send %d files", len(j.result.Sent))
	}
	return fmt.Sprintf("sent %d files, %.1f MB as %.1f MB", len(j.result.Sent), float64(j.result.SentBytes)/1e6, float64(j.result.WireBytes)/1e6)
}

func (j *job) run(ctx context.Context) (changed bool, err error) {
	return retry(ctx, func(why string) { j.env.Progress.Say("transfer", "trying again: "+why) }, j.once)
}

// retry goes on after a lost connection where it broke off.
func retry(ctx context.Context, say func(string), once func(context.Context) (bool, error)) (changed bool, err error) {
	var busySince time.Time
	damaged := 0
	for attempt := 1; ; attempt++ {
		var now bool
		now, err = once(ctx)
		changed = changed || now
		again := attempt < attempts && (remotewmcb.IsLost(err) || attempt > 1 && reason.Is(err, reason.HostUnreachable))
		switch {
		case reason.Is(err, reason.TransferBusy):
			if busySince.IsZero() { // not since the start: what was lost may have run for long
				busySince = time.Now()
			}
			attempt-- // the far end of a lost connection may not have noticed yet, or another run is about to end
			again = time.Since(busySince) < busyWithin
		case reason.Is(err, reason.TransferChecksum):
			damaged++
			again = damaged == 1 // the kept frames were forgotten; twice is no flipped bit
		}
		if err == nil || !again || ctx.Err() != nil {
			return changed, err
		}
		say(reason.Of(err).Problem)
		select {
		case <-ctx.Done():
			return changed, err
		case <-time.After(pause):
		}
	}
}

func (j *job) once(ctx context.Context) (changed bool, err error) {
	connection, err := remotewmcb.Dial(ctx, j.args.Connection)
	if err != nil {
		return false, err
	}
	defer connection.Close()
	remote, err := remotewmcb.Open(ctx, connection, j.args.WMCB, remotewmcb.Host{Name: j.host(), InstallDir: j.args.InstallDir, Progress: j.env.Progress})
	if err != nil {
		return false, err
	}
	defer remote.Close(ctx)
	if j.result.FirstFile == "" {
		j.result.FirstFile = remote.Way()
	}
	plan, err := j.plan(ctx, remote)
	if err != nil {
		return false, err
	}
	files, err := j.missing(plan)
	if err != nil {
		return false, err
	}
	if len(files) == 0 && plan.Installed {
		return false, nil
	}
	if j.env.CheckMode {
		return true, nil
	}
	return true, j.send(ctx, remote, files)
}

func (j *job) plan(ctx context.Context, remote *remotewmcb.Remote) (*nodereport.Receive, error) {
	m := stream.Manifest{Version: stream.Version}
	for _, f := range j.args.Files {
		m.Contents = append(m.Contents, stream.Content{SHA256: f.SHA256, Size: f.Size})
	}
	if err := m.Check(); err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument files", err, "")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	plan := &nodereport.Receive{}
	return plan, remote.Run(ctx, []string{"receive", "--install-dir", j.args.InstallDir, "--plan"}, bytes.NewReader(raw), nil, plan)
}

// missing makes of the host's answer what to send, in our order. The answer has to name each of our files exactly once.
func (j *job) missing(plan *nodereport.Receive) ([]stream.File, error) {
	j.result.Present, j.total, j.done = []string{}, 0, 0
	var files []stream.File
	for _, f := range j.args.Files {
		at := slices.IndexFunc(plan.Missing, func(m nodereport.Missing) bool { return m.SHA256 == f.SHA256 })
		if count(plan, f.SHA256) != 1 {
			return nil, reason.New(reason.HostOutputInvalid, "host "+j.host()+": wmcb receive", "it does not say whether it has "+f.Name, "")
		}
		if at < 0 {
			if !slices.Contains(j.result.Sent, f.Name) {
				j.result.Present = append(j.result.Present, f.Name)
			}
			continue
		}
		offset := plan.Missing[at].Have
		if offset < 0 || offset > f.Size || offset%stream.ChunkSize != 0 {
			offset = 0
		}
		if !slices.Contains(j.result.Sent, f.Name) {
			j.result.Sent = append(j.result.Sent, f.Name)
		}
		files = append(files, stream.File{Content: stream.Content{SHA256: f.SHA256, Size: f.Size, Offset: offset}, Path: f.Path, Secret: f.Secret})
		j.total += f.Size
		j.done += offset
	}
	return files, nil
}

// count gives how often an answer names a content.
func count(plan *nodereport.Receive, sha256 string) (n int) {
	for _, present := range plan.Present {
		if present == sha256 {
			n++
		}
	}
	for _, missing := range plan.Missing {
		if missing.SHA256 == sha256 {
			n++
		}
	}
	return n
}

func (j *job) send(ctx context.Context, remote *remotewmcb.Remote, files []stream.File) error {
	reader, writer := io.Pipe()
	counted := &counter{w: writer}
	sent := make(chan error, 1)
	go func() {
		err := stream.Send(counted, files, func(_ stream.File, n int64) {
			j.done += n
			j.result.SentBytes += n
			j.env.Progress.Bytes("transfer", "files", j.done, j.total)
		})
		writer.CloseWithError(err)
		sent <- err
	}()
	var report nodereport.Receive
	err := remote.Run(ctx, []string{"receive", "--install-dir", j.args.InstallDir}, reader, nil, &report)
	reader.Close() // ends a sender whose stream nobody reads any more
	sendErr := <-sent
	j.result.WireBytes += counted.n
	switch {
	case reason.Is(err, reason.TransferChecksum):
		for _, f := range files {
			stream.Forget(f.Path)
		}
	case err != nil && sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe):
		// The far end only saw a stream that broke off; what broke it is here.
		return reason.Wrap(reason.FileMissing, "a file of the payload's cache", sendErr, "Run it again; it is fetched anew.")
	case err == nil:
		return j.checkReceived(files, &report)
	}
	return err
}

// checkReceived: what was sent has to be what arrived.
func (j *job) checkReceived(files []stream.File, report *nodereport.Receive) error {
	for _, f := range files {
		if !slices.Contains(report.Received, f.SHA256) {
			return reason.New(reason.HostOutputInvalid, "host "+j.host()+": wmcb receive", "it does not confirm the content "+f.SHA256, "")
		}
	}
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
