package winhost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// addLink puts a pair of interfaces between the bridge and the namespaces of the host's first process, where it is called eth0.
func addLink(ctx context.Context, r record) error {
	if _, err := os.Stat("/sys/class/net/" + r.Bridge + "/bridge"); err != nil {
		return fmt.Errorf("bridge %s: not there: make it first: ip link add %s type bridge", r.Bridge, r.Bridge)
	}
	if err := ip(ctx, "link", "add", r.Veth, "type", "veth",
		"peer", "name", "eth0", "address", r.MAC, "netns", strconv.Itoa(r.PID)); err != nil {
		return err
	}
	return ip(ctx, "link", "set", r.Veth, "master", r.Bridge, "up")
}

// removeLink takes away an interface that a host left behind. The kernel does the same, some time after the namespace is gone.
func removeLink(ctx context.Context, name string) error {
	if !hasLink(name) {
		return nil
	}
	if err := ip(ctx, "link", "del", name); err != nil && hasLink(name) {
		return err
	}
	return nil
}

func hasLink(name string) bool {
	_, err := os.Lstat("/sys/class/net/" + name)
	return name != "" && err == nil
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
