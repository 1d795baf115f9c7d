// Package transfer is the module transfer: it brings a set of contents to a Windows host, only what is missing there, verified, resumed.
package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	// busyWithin is how long another transfer to the host is waited for: WinRM ends the commands of a lost connection after a minute.
	busyWithin = 100 * time.Second
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
	// FirstFile is how wmcb.exe got there: present, sftp, tar or base64.
	FirstFile string `json:"first_file"`
	// Lanes is how many lines were used at once. Differences are the files that were sent as differences to what the host had.
	Lanes       int      `json:"lanes"`
	Differences []string `json:"differences"`
}

// Run brings what is missing.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(args.Timeout)*time.Second)
	defer cancel()
	t := &job{args: args, env: env, result: Result{Sent: []string{}, Present: []string{}, Differences: []string{}}}
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
	// mistrust is set once something arrived that was not what was sent: then everything is sent whole, and as text where bytes may change.
	mistrust bool
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
			again = damaged == 1 // once more with less trust; twice is no flipped bit
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
	lines := &lines{config: j.args.Connection, main: connection}
	defer lines.close()
	remote, plan, err := j.open(ctx, connection, func() { lines.begin(ctx, stream.MaxLanes) })
	if err != nil {
		return false, err
	}
	defer remote.Close(ctx)
	if j.result.FirstFile == "" {
		j.result.FirstFile = remote.Way()
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
	return true, j.send(ctx, lines, remote, files)
}

// open finds or brings wmcb.exe and asks it what is missing: one question tells both.
func (j *job) open(ctx context.Context, connection transport.Connection, bringing func()) (*remotewmcb.Remote, *nodereport.Receive, error) {
	m := stream.Manifest{Version: stream.Version, Contents: []stream.Content{}}
	for _, f := range j.args.Files {
		m.Contents = append(m.Contents, stream.Content{SHA256: f.SHA256, Size: f.Size})
	}
	if err := m.Check(); err != nil {
		return nil, nil, reason.Wrap(reason.ArgumentInvalid, "argument files", err, "")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	var plan nodereport.Receive
	remote, err := remotewmcb.Open(ctx, connection, j.args.WMCB, remotewmcb.Host{
		Name: j.host(), InstallDir: j.args.InstallDir, Progress: j.env.Progress, Bringing: bringing,
		Question: &remotewmcb.Question{
			Args: []string{"receive", "--install-dir", j.args.InstallDir, "--plan"}, Stdin: raw,
			Answer: func(raw []byte) string {
				plan = nodereport.Receive{}
				if json.Unmarshal(raw, &plan) != nil || plan.Kind != "Receive" || !plan.OK {
					return ""
				}
				return plan.SHA256
			},
		},
	})
	return remote, &plan, err
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
		if !slices.Contains(j.result.Sent, f.Name) {
			j.result.Sent = append(j.result.Sent, f.Name)
		}
		file := stream.File{Content: stream.Content{SHA256: f.SHA256, Size: f.Size}, Path: f.Path, Secret: f.Secret}
		file.Only = without(file.Chunks(), plan.Missing[at].Have)
		if !j.mistrust {
			file.Base, file.BasePath = base(f, plan.Others)
		}
		files = append(files, file)
		j.total += f.Size
		j.done += f.Size - int64(len(file.Only))*stream.ChunkSize // the last chunk may be shorter
	}
	j.done = max(j.done, 0)
	return files, nil
}

// without gives the chunks that are in none of the ranges.
func without(chunks int, have [][2]int) []int {
	only := make([]int, 0, chunks)
	for chunk := range chunks {
		if !slices.ContainsFunc(have, func(r [2]int) bool { return r[0] <= chunk && chunk < r[1] }) {
			only = append(only, chunk)
		}
	}
	return only
}

// base finds the content that the host has and that is here too, most like the file: an earlier version of it has nearly its size. Contents
// lie in the cache under their digests.
func base(f File, others []nodereport.Other) (sha256, path string) {
	best := f.Size / 4 // farther away it is another program
	for _, other := range others {
		distance := max(other.Size-f.Size, f.Size-other.Size)
		local := filepath.Join(filepath.Dir(f.Path), other.SHA256)
		if info, err := os.Stat(local); distance < best && err == nil && info.Mode().IsRegular() && info.Size() == other.Size && digest.MatchString(other.SHA256) {
			best, sha256, path = distance, other.SHA256, local
		}
	}
	return sha256, path
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

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
