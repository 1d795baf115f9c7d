package winhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const shutdownLimit = 30 * time.Second

// Stop shuts the host down and returns when nothing of it runs: no process, namespace, mount or interface. Its directory stays, and a
// later Start boots it again. A host that does not obey is ended by force.
func (h *Host) Stop(ctx context.Context) error {
	r, runs, err := h.recorded()
	if err != nil {
		return err
	}
	if runs && !frozen(r) {
		if err := h.order(ctx, r, "shutdown"); err == nil {
			waitContext, cancel := context.WithTimeout(ctx, shutdownLimit)
			_ = h.awaitEnd(waitContext, r)
			cancel()
		}
	}
	return h.end(ctx, r)
}

// Destroy ends the host and deletes its directory.
func (h *Host) Destroy(ctx context.Context) error {
	r, _, err := h.recorded()
	if err != nil {
		return err
	}
	if err := h.end(ctx, r); err != nil {
		return err
	}
	if err := os.RemoveAll(h.Dir); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

// PowerCut ends the host as a cut of its power does and boots it again. Connections to it are not closed, they go silent; what Wine had
// not written of the registry in the last half minute is lost.
func (h *Host) PowerCut(ctx context.Context) error {
	r, err := h.running()
	if err != nil {
		return err
	}
	if err := ip(ctx, "link", "set", r.Veth, "down"); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.end(ctx, r); err != nil {
		return err
	}
	return h.boot(ctx, r)
}

// Reboot shuts the host down cleanly and returns when it is up again.
func (h *Host) Reboot(ctx context.Context) error {
	r, err := h.running()
	if err != nil {
		return err
	}
	last := h.bootNumber()
	if err := h.order(ctx, r, "reboot"); err != nil {
		return err
	}
	return h.awaitBoot(ctx, last)
}

// end kills the first process. The kernel kills the rest of its PID namespace before it is gone, and what only the namespaces held
// (mounts, loop devices, interfaces) follows.
func (h *Host) end(ctx context.Context, r record) error {
	if alive(r) {
		if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("host %s: kill %d: %w", h.Name, r.PID, err)
		}
	}
	if err := h.awaitEnd(ctx, r); err != nil {
		return err
	}
	if err := removeLink(ctx, r.Veth); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.awaitLoop(ctx); err != nil {
		return err
	}
	if err := os.Remove(h.path(recordFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

func (h *Host) awaitEnd(ctx context.Context, r record) error {
	return h.await(ctx, func() bool { return !alive(r) }, fmt.Sprintf("process %d does not end", r.PID))
}

// awaitLoop waits until no loop device has the disk's file: the kernel lets go of it when the last mount is gone.
func (h *Host) awaitLoop(ctx context.Context) error {
	return h.await(ctx, func() bool { return !attached(h.path("disk.img")) }, "drive C: stays mounted")
}

func (h *Host) await(ctx context.Context, over func() bool, otherwise string) error {
	for !over() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s: %s: %w", h.Name, otherwise, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// order writes a word into the fifo that the first process listens to.
func (h *Host) order(ctx context.Context, r record, word string) error {
	if frozen(r) {
		return fmt.Errorf("host %s: frozen: thaw it first", h.Name)
	}
	fifo, err := os.OpenFile(h.path("control"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("host %s: %w: it does not take orders yet", h.Name, err)
	}
	defer fifo.Close()
	if _, err := fifo.WriteString(word + "\n"); err != nil {
		return fmt.Errorf("host %s: %s: %w", h.Name, word, err)
	}
	return ctx.Err()
}
