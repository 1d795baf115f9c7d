package winhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bootLimit is how long a boot may take. It takes one to three seconds; twenty hosts at once on two cores take their turns.
const bootLimit = 5 * time.Minute

// Start makes the host if it is not there yet, boots it and returns when it answers over SSH. A running host is left as it is.
func (h *Host) Start(ctx context.Context) error {
	if err := h.validate(); err != nil {
		return err
	}
	if _, runs, err := h.recorded(); err != nil || runs {
		return err
	}
	wine, err := h.Wine.found()
	if err != nil {
		return err
	}
	if err := h.lay(ctx, wine); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return h.boot(ctx, record{
		Name: h.Name, Address: h.Address.String(), Veth: h.veth(), Bridge: h.Bridge, MAC: h.mac(), Environment: h.environment(),
	})
}

// lay makes the host's directory.
func (h *Host) lay(ctx context.Context, wine Wine) error {
	var err error
	if h.Dir, err = filepath.Abs(h.Dir); err != nil {
		return err
	}
	for _, dir := range []string{"log", "home", "etc"} {
		if err := os.MkdirAll(h.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := h.writeEtc(ctx, wine); err != nil {
		return err
	}
	return h.clone()
}

// boot launches what r describes and waits until it is up.
func (h *Host) boot(ctx context.Context, r record) error {
	if err := os.Remove(h.path("ready")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("host %s: %w", r.Name, err)
	}
	if err := h.launch(ctx, r); err != nil {
		return fmt.Errorf("host %s: %w", r.Name, err)
	}
	return h.awaitBoot(ctx, 0)
}

// launch starts the host's first process in fresh namespaces, records it, and gives it its interface.
func (h *Host) launch(ctx context.Context, r record) error {
	if err := removeLink(ctx, r.Veth); err != nil {
		return err
	}
	out, err := os.OpenFile(h.Log("init.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("bash", h.path("etc", "init.sh")) // not bound to ctx: the host outlives the call
	cmd.Env = r.Environment
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
		Setsid:     true,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("namespaces: %w: root with CAP_SYS_ADMIN is needed", err)
	}
	go func() { _ = cmd.Wait() }() // reaps it if this process is still there when it ends
	r.PID, r.Started = cmd.Process.Pid, time.Now()
	if _, r.Ticks, err = processState(r.PID); err == nil {
		err = h.save(r)
	}
	if err == nil {
		err = addLink(ctx, r)
	}
	if err == nil {
		_, err = io.WriteString(stdin, "go\n")
	}
	if err != nil {
		_ = cmd.Process.Kill()
	}
	return err
}

func (h *Host) environment() []string {
	gateway, windows, python := "", "yes", ""
	if h.WinRM != nil {
		python = h.WinRM.Python
	}
	if h.Gateway.IsValid() {
		gateway = h.Gateway.String()
	}
	if h.NotWindows {
		windows = "no"
	}
	size := h.DiskBytes
	if size == 0 {
		size = DefaultDiskBytes
	}
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "WINHOST_DIR=" + h.Dir, "WINHOST_NAME=" + h.Name, "WINHOST_ADDRESS=" + h.Address.String(),
		"WINHOST_GATEWAY=" + gateway, "WINHOST_WINDOWS=" + windows, "WINHOST_DISK=" + strconv.FormatInt(size, 10), "WINHOST_WINRM=" + python,
	}
}

// awaitBoot returns once the boot after number `last` is over.
func (h *Host) awaitBoot(ctx context.Context, last int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootLimit, fmt.Errorf("not up within %s", bootLimit))
	defer cancel()
	for {
		if _, runs, err := h.recorded(); err != nil {
			return err
		} else if !runs {
			return fmt.Errorf("host %s: its first process ended while booting: %s", h.Name, h.lastLines())
		}
		if h.bootNumber() > last {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s: boot: %w: %s", h.Name, context.Cause(ctx), h.lastLines())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// bootNumber is the number of the boot that is over, 0 while there is none.
func (h *Host) bootNumber() int {
	content, err := os.ReadFile(h.path("ready"))
	if err != nil {
		return 0
	}
	number, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return number
}

func (h *Host) lastLines() string {
	content, err := os.ReadFile(h.Log("init.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return h.Log("init.log") + " ends with:\n" + strings.Join(lines[max(0, len(lines)-5):], "\n")
}
