// Package network makes the sandbox's bridge and finds out beforehand what stands in its way.
package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Up makes the bridge with the first address of the subnet.
func Up(ctx context.Context, bridge string, gateway netip.Addr, subnet netip.Prefix) error {
	for _, arguments := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"addr", "add", netip.PrefixFrom(gateway, subnet.Bits()).String(), "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := ip(ctx, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// Down removes the bridge; one that is not there is no error.
func Down(ctx context.Context, bridge string) error {
	if bridge == "" || !Exists(bridge) {
		return nil
	}
	return ip(ctx, "link", "del", bridge)
}

// RemoveLinks removes the network interfaces in the root namespace whose names begin with prefix: the host's ends of veth pairs
// whose other end's namespace was left behind. The prefix holds the sandbox's own ID.
func RemoveLinks(ctx context.Context, prefix string) error {
	entries, err := filepath.Glob("/sys/class/net/" + prefix + "*")
	if err != nil {
		return fmt.Errorf("network interfaces %s*: %w", prefix, err)
	}
	var problems []error
	for _, entry := range entries {
		if name := filepath.Base(entry); Exists(name) {
			problems = append(problems, ip(ctx, "link", "del", name))
		}
	}
	return errors.Join(problems...)
}

// Exists says whether the root namespace has a network interface of that name.
func Exists(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name)
	return err == nil
}

// CheckSubnet fails if an interface or a route of this machine overlaps the subnet. The bridge ours is left out.
func CheckSubnet(ctx context.Context, subnet netip.Prefix, ours string) error {
	output, err := exec.CommandContext(ctx, "ip", "-4", "-json", "route", "show", "table", "all").Output()
	if err != nil {
		return fmt.Errorf("ip route: %w", err)
	}
	return checkRoutes(output, subnet, ours)
}

func checkRoutes(routes []byte, subnet netip.Prefix, ours string) error {
	var list []struct{ Type, Dst, Dev string }
	if err := json.Unmarshal(routes, &list); err != nil {
		return fmt.Errorf("ip route: %w", err)
	}
	for _, route := range list {
		prefix, ok := parseDestination(route.Dst)
		if !ok || route.Dev == ours || route.Dev == "lo" || prefix.Bits() < subnet.Bits() && prefix.Bits() < 8 || !prefix.Overlaps(subnet) {
			continue
		}
		return fmt.Errorf("subnet %s is in use on this machine: %s has a route to %s. Set SANDBOX_SUBNET to a free network, for example SANDBOX_SUBNET=10.98.0.0/24",
			subnet, route.Dev, prefix)
	}
	return nil
}

func parseDestination(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, true
	}
	address, err := netip.ParseAddr(text)
	if err != nil { // "default"
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}

// CheckPort fails if something listens on the address, on all addresses included, and names it if it can.
func CheckPort(address netip.AddrPort, purpose string) error {
	listener, err := net.Listen("tcp", address.String())
	if err == nil {
		return listener.Close()
	}
	by := holder(address.Port())
	if by == "" {
		by = "another program"
	}
	return fmt.Errorf("port %d, which %s needs on %s, is taken by %s: end that program, then start again (%w)",
		address.Port(), purpose, address.Addr(), by, err)
}

// holder names the process that listens on a port, as "NAME (pid N)".
func holder(port uint16) string {
	output, err := exec.Command("ss", "-Hltnp", fmt.Sprintf("sport = :%d", port)).Output()
	if err != nil {
		return ""
	}
	return parseHolder(string(output))
}

func parseHolder(line string) string {
	_, after, found := strings.Cut(line, `users:(("`)
	if !found {
		return ""
	}
	name, rest, _ := strings.Cut(after, `"`)
	_, rest, _ = strings.Cut(rest, "pid=")
	pid, _, _ := strings.Cut(rest, ",")
	return fmt.Sprintf("%s (pid %s)", name, pid)
}

func ip(ctx context.Context, arguments ...string) error {
	output, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
