package winhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const filler = "sandbox/filler"

// Path is where the Linux side finds a file of the running host: name is a path below C:\ with slashes.
func (h *Host) Path(name string) (string, error) {
	r, err := h.running()
	if err != nil {
		return "", err
	}
	return filepath.Join(fmt.Sprintf("/proc/%d/root", r.PID), home, prefixDir, "drive_c", filepath.FromSlash(name)), nil
}

// Fill takes drive C:'s free space until at most leave bytes are left. The space is reserved, not written: the real machine's disk keeps
// its own.
func (h *Host) Fill(ctx context.Context, leave int64) error {
	if err := h.Unfill(ctx); err != nil {
		return err
	}
	path, err := h.Path(filler)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	defer file.Close()
	var size int64
	// An ext4 reservation needs blocks for its own records, so that one step of all that is free fails: ever smaller steps, then.
	for step := int64(1) << 40; step >= 4096; {
		free, err := freeBytes(path)
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		if step = min(step, (free-leave)&^4095); step < 4096 {
			return nil
		}
		err = syscall.Fallocate(int(file.Fd()), 0, size, step)
		switch {
		case err == nil:
			size += step
		case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG):
			step /= 2
		default:
			return fmt.Errorf("host %s: filling drive C: %w", h.Name, err)
		}
	}
	return ctx.Err()
}

// Unfill gives back what Fill took.
func (h *Host) Unfill(context.Context) error {
	path, err := h.Path(filler)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

func freeBytes(path string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// attached reports whether a loop device has the file behind it. The kernel detaches it when the last mount is gone.
func attached(file string) bool {
	var disk unix.Stat_t
	if err := unix.Stat(file, &disk); err != nil {
		return false
	}
	busy, _ := filepath.Glob("/sys/block/loop*/loop") // those without a file have no such folder
	for _, path := range busy {
		device, err := os.Open(filepath.Join("/dev", filepath.Base(filepath.Dir(path))))
		if err != nil {
			continue
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		device.Close()
		if err == nil && info.Inode == disk.Ino && info.Device == disk.Dev {
			return true
		}
	}
	return false
}
