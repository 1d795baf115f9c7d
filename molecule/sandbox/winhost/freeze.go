package winhost

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Freeze stops every process of the host where it is, as a hypervisor that pauses a machine does; its kernel still acknowledges what
// arrives on open connections. Thaw lets it go on.
func (h *Host) Freeze(ctx context.Context) error {
	r, err := h.running()
	if err != nil {
		return err
	}
	// A process may fork until it is stopped: go on until a whole round finds none that runs.
	return h.signalAll(ctx, r, syscall.SIGSTOP, func(state string) bool { return state == "T" || state == "t" || state == "Z" || state == "X" })
}

// Thaw ends what Freeze began.
func (h *Host) Thaw(ctx context.Context) error {
	r, err := h.running()
	if err != nil {
		return err
	}
	return h.signalAll(ctx, r, syscall.SIGCONT, func(state string) bool { return state != "T" })
}

func (h *Host) signalAll(ctx context.Context, r record, signal syscall.Signal, done func(state string) bool) error {
	for {
		pids, err := processes(r.PID)
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		left := 0
		for _, pid := range pids {
			if state, _, err := processState(pid); err != nil || done(state) {
				continue
			}
			left++
			_ = syscall.Kill(pid, signal) // it may have ended since
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s: %s: %w", h.Name, signal, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func frozen(r record) bool {
	state, _, err := processState(r.PID)
	return err == nil && state == "T"
}

// processes lists the processes of the PID namespace whose first process is init, by their numbers on the real machine.
func processes(init int) ([]int, error) {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && link == namespace {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
