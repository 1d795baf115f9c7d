package winhost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// addLink puts a pair of interfaces between the bridge and the namespaces of process pid, where it is called eth0.
func (h *Host) addLink(ctx context.Context, pid int) error {
	if _, err := os.Stat("/sys/class/net/" + h.Bridge + "/bridge"); err != nil {
		return fmt.Errorf("bridge %s: not there: make it first: ip link add %s type bridge", h.Bridge, h.Bridge)
	}
	if err := ip(ctx, "link", "add", h.veth(), "type", "veth",
		"peer", "name", "eth0", "address", h.mac(), "netns", strconv.Itoa(pid)); err != nil {
		return err
	}
	return ip(ctx, "link", "set", h.veth(), "master", h.Bridge, "up")
}

// removeLink takes away an interface that a host left behind; usually the kernel has done so with the namespace.
func (h *Host) removeLink(ctx context.Context) error {
	if !h.hasLink() {
		return nil
	}
	if err := ip(ctx, "link", "del", h.veth()); err != nil && h.hasLink() {
		return err
	}
	return nil
}

func (h *Host) hasLink() bool {
	_, err := os.Lstat("/sys/class/net/" + h.veth())
	return err == nil
}

// Cut takes the host off the network, as a pulled cable does: nobody is told. Mend plugs it in again.
func (h *Host) Cut(ctx context.Context) error { return h.setLink(ctx, "down") }

// Mend ends what Cut began.
func (h *Host) Mend(ctx context.Context) error { return h.setLink(ctx, "up") }

func (h *Host) setLink(ctx context.Context, state string) error {
	r, err := h.running()
	if err != nil {
		return err
	}
	if err := ip(ctx, "link", "set", r.Veth, state); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
