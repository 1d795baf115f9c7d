// Package lifecycle brings a sandbox up and down: it knows the order of things, what has to be recorded before it can be ended, and
// what a person has to be told.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/progress"
	"wsu.windows/sandbox/internal/state"
)

// Sandbox is one sandbox, running or not.
type Sandbox struct {
	Config config.Config
	Log    *progress.Log
	// Program is the sandbox command, started for `serve`; empty means the running program.
	Program string

	store state.Store
	mu    sync.Mutex // hosts are started in parallel and recorded one by one
	state *state.State

	remoting *remoting // while hosts with WinRM are started
}

// New is the sandbox that the configuration names.
func New(c config.Config, log *progress.Log) *Sandbox {
	return &Sandbox{Config: c, Log: log, store: state.NewStore(c.Dir, c.ID())}
}

// locked runs work while no other up or down of this sandbox runs.
func (s *Sandbox) locked(work func() error) error {
	if err := os.MkdirAll(s.Config.Dir, 0o755); err != nil {
		return fmt.Errorf("SANDBOX_DIR: %w", err)
	}
	file, err := os.OpenFile(s.Config.Path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("SANDBOX_DIR: %w", err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another sandbox command is at work in %s: wait for it to end, then try again", s.Config.Dir)
	}
	return work()
}

// load reads what is recorded; nothing recorded is no error.
func (s *Sandbox) load() error {
	recorded, err := s.store.Load()
	s.state = recorded
	return err
}

// record saves the state after a change.
func (s *Sandbox) record(change func(*state.State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.state)
	return s.store.Save(s.state)
}

// started records a process; one that is not recorded could not be ended, so it is ended at once if that fails.
func (s *Sandbox) started(process state.Process) error {
	err := s.record(func(st *state.State) { st.Processes = append(st.Processes, process) })
	if err != nil {
		return errors.Join(err, process.End(context.Background(), endWithin)) //nolint:contextcheck // cleaning up
	}
	return nil
}

func requireRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("the sandbox makes network interfaces and namespaces: run it as root (sudo make sandbox)")
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installSelf puts this very program into the sandbox's bin, where it outlives `go run`. Program names another one instead.
func (s *Sandbox) installSelf() (string, error) {
	if s.Program != "" {
		return s.Program, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("sandbox program: %w", err)
	}
	target := s.Config.Path("bin", "sandbox")
	if same(self, target) {
		return target, nil
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return "", fmt.Errorf("sandbox program: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", fmt.Errorf("sandbox program: %w", err)
	}
	if err := os.WriteFile(target+".new", content, 0o755); err != nil {
		return "", fmt.Errorf("sandbox program: %w", err)
	}
	return target, os.Rename(target+".new", target)
}

func same(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
