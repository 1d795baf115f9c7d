package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"wsu.windows/tests/line"
)

// file is one of a transfer.
type file struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Secret bool   `json:"secret,omitempty"`
}

// cached puts a content into the cache, where contents lie under their digests.
func cached(cache, name string, content []byte) (file, error) {
	f := file{Name: name, SHA256: sum(content), Size: int64(len(content))}
	f.Path = filepath.Join(cache, f.SHA256)
	return f, os.WriteFile(f.Path, content, 0o600)
}

// mixture is what is sent: parts of real programs, text that compresses well, noise that does not, a secret, an empty and a tiny file. The
// noise makes it worth several lanes.
func (c *chaos) mixture() (files []file, err error) {
	noise := rand.NewChaCha8([32]byte{1})
	random := make([]byte, 11<<20+4321)
	_, _ = noise.Read(random) // it does not fail
	kubelet, err := os.ReadFile(filepath.Join(c.payload, "kubelet.exe"))
	if err != nil {
		return nil, err
	}
	runner, err := os.ReadFile(filepath.Join(c.payload, "kube-log-runner.exe"))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for i := 0; text.Len() < 4<<20; i++ {
		fmt.Fprintf(&text, "2026-01-02T03:04:05.%06dZ kubelet.go:%d] \"SyncLoop\" pod=\"default/web-%x\"\n", i, i%3000, i*i)
	}
	for _, part := range []struct {
		name    string
		content []byte
	}{
		{"program", kubelet[10<<20 : 16<<20+77]}, {"runner.exe", runner}, {"log", text.Bytes()}, {"noise", random}, {"empty", nil}, {"tiny", []byte("x")},
		{"secret", random[:70_000]},
	} {
		f, err := cached(c.cache, part.name, part.content)
		if err != nil {
			return nil, err
		}
		f.Secret = part.name == "secret"
		files = append(files, f)
	}
	return files, nil
}

func size(files []file) (total int64) {
	for _, f := range files {
		total += f.Size
	}
	return total
}

// outcome is what the module says.
type outcome struct {
	Failed    bool     `json:"failed"`
	Msg       string   `json:"msg"`
	Reason    string   `json:"reason"`
	Changed   bool     `json:"changed"`
	Sent      []string `json:"sent"`
	SentBytes int64    `json:"sent_bytes"`
	WireBytes int64    `json:"wire_bytes"`
	Lanes     int      `json:"lanes"`
	FirstFile string   `json:"first_file"`
	// Differences are files that were sent as differences.
	Differences []string `json:"differences"`
	// said is the error output; attempts counts how often the module began.
	said     string
	attempts int
	killed   bool
}

func (o outcome) error() error {
	if o.Failed || o.killed {
		return fmt.Errorf("the module failed: %s (%s)\n%s", o.Msg, o.Reason, o.said)
	}
	return nil
}

// run is one run of the module transfer as a process of its own.
type run struct {
	cmd       *exec.Cmd
	out, said bytes.Buffer
	arguments string
	ended     chan error
}

// begin starts the module transfer as Ansible does.
func (c *chaos) begin(connection map[string]any, install string, files []file) (*run, error) {
	raw, err := json.Marshal(map[string]any{"connection": connection, "wmcb": map[string]any{"path": c.wmcb.Path, "sha256": c.wmcb.SHA256, "size": c.wmcb.Size}, "files": files, "install_dir": install, "timeout": 600,
		"_ansible_inventory_hostname": connection["inventory_hostname"]})
	if err != nil {
		return nil, err
	}
	arguments, err := os.CreateTemp(c.work, "arguments")
	if err != nil {
		return nil, err
	}
	if _, err := arguments.Write(raw); err != nil {
		return nil, err
	}
	r := &run{arguments: arguments.Name()}
	r.cmd = exec.Command(c.module, "transfer", r.arguments) //nolint:gosec,noctx // the program to test
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.said
	if err := errorsOf(arguments.Close(), r.cmd.Start()); err != nil {
		return nil, err
	}
	r.ended = make(chan error, 1)
	go func() { r.ended <- r.cmd.Wait() }()
	return r, nil
}

// until waits until a line has carried so many bytes in all, or the module has ended.
func (r *run) until(l *line.Line, bytes int64) {
	for l.Sent.Load() < bytes && len(r.ended) == 0 {
		time.Sleep(time.Millisecond)
	}
}

// end waits for the module.
func (r *run) end() (outcome, error) {
	defer os.Remove(r.arguments)
	err := <-r.ended
	o := outcome{said: r.said.String()}
	o.attempts = 1 + strings.Count(o.said, "trying again")
	if r.out.Len() == 0 {
		o.killed = true
		if r.cmd.ProcessState.ExitCode() >= 0 {
			return o, fmt.Errorf("the module said nothing: %w: %s", err, o.said)
		}
		return o, nil
	}
	if err := json.Unmarshal([]byte(lastLine(r.out.Bytes())), &o); err != nil {
		return o, fmt.Errorf("the module's result: %w: %s", err, r.out.String())
	}
	return o, nil
}

// transfer runs the module to its end.
func (c *chaos) transfer(connection map[string]any, install string, files []file) (outcome, error) {
	r, err := c.begin(connection, install, files)
	if err != nil {
		return outcome{}, err
	}
	return r.end()
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// row is one line of the table.
type row struct {
	Name      string  `json:"name"`
	Transfers int     `json:"transfers"`
	Cuts      int     `json:"cuts"`
	Attempts  int     `json:"attempts"`
	Runs      int     `json:"runs"`
	Lanes     int     `json:"lanes"`
	WorstSent int64   `json:"worst_sent_again"`
	WorstWire int64   `json:"worst_wire_again"`
	Seconds   float64 `json:"seconds"`
	Failures  int     `json:"failures"`
	begun     time.Time
	mu        sync.Mutex
}

func (c *chaos) row(name string) *row {
	r := &row{Name: name, begun: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = append(c.rows, r)
	return r
}

func (r *row) done() { r.Seconds = time.Since(r.begun).Seconds() }

// fail counts and tells a failure.
func (r *row) fail(format string, values ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Failures++
	fmt.Fprintf(os.Stderr, "FAIL %s: %s\n", r.Name, fmt.Sprintf(format, values...))
}
