package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a process that the sandbox started. The pid alone says little once the process has ended, since the kernel
// gives pids out again; together with the start time and the boot it is unique.
type Process struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks since boot: field 22 of /proc/PID/stat
	Boot    string `json:"boot"`    // /proc/sys/kernel/random/boot_id
	Log     string `json:"log"`
}

// Start runs command detached, in a session of its own, with its output in log, and records what identifies it.
func Start(name, log string, command *exec.Cmd) (Process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return Process{}, fmt.Errorf("%s: %w", name, err)
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return Process{}, fmt.Errorf("%s: %w", name, err)
	}
	defer output.Close()
	command.Stdin, command.Stdout, command.Stderr = nil, output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return Process{}, fmt.Errorf("%s: %w", name, err)
	}
	process, err := Identify(name, command.Process.Pid)
	process.Log = log
	// Reap it when it ends while this program still runs; otherwise a dead child would look alive as a zombie.
	go func() { _ = command.Wait() }()
	return process, err
}

// Identify records the running process pid under a name.
func Identify(name string, pid int) (Process, error) {
	started, err := startTime(pid)
	if err != nil {
		return Process{Name: name, PID: pid}, fmt.Errorf("%s ended right after its start: %w", name, err)
	}
	boot, err := bootID()
	if err != nil {
		return Process{Name: name, PID: pid}, fmt.Errorf("%s: %w", name, err)
	}
	return Process{Name: name, PID: pid, Started: started, Boot: boot}, nil
}

// Running says whether this very process, and not another one with its pid, still runs.
func (p Process) Running() bool {
	if boot, err := bootID(); err != nil || boot != p.Boot {
		return false
	}
	started, err := startTime(p.PID)
	return err == nil && started == p.Started
}

// End asks the process to end and kills it after patience. A process that does not run is no error.
func (p Process) End(ctx context.Context, patience time.Duration) error {
	if !p.Running() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.wait(ctx, patience) {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if p.wait(ctx, patience) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s (pid %d): not waited for its end: %w", p.Name, p.PID, err)
	}
	return fmt.Errorf("%s (pid %d) does not end, not even when killed", p.Name, p.PID)
}

func (p Process) signal(signal syscall.Signal) error {
	if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s (pid %d): %w", p.Name, p.PID, err)
	}
	return nil
}

func (p Process) wait(ctx context.Context, patience time.Duration) bool {
	for deadline := time.Now().Add(patience); p.Running(); {
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-ctx.Done():
			return !p.Running()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// startTime reads field 22 of /proc/PID/stat (proc_pid_stat(5)). A zombie counts as ended.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	return parseStartTime(stat)
}

func parseStartTime(stat []byte) (uint64, error) {
	// The command name is in parentheses and may hold blanks and parentheses itself.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("/proc stat: no command name")
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return 0, errors.New("/proc stat: too short")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errors.New("the process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
