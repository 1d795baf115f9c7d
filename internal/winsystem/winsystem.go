// Package winsystem reads what a Windows machine is: its build, its names, its networks. It changes nothing.
package winsystem

import (
	"errors"
	"net/netip"
)

// ErrNotWindows is what everything here answers elsewhere.
var ErrNotWindows = errors.New("this is not Windows")

// Info is what does not change while the machine runs.
type Info struct {
	// Build is Windows' build number, as 20348; Name is its product name.
	Build int
	Name  string
	// Architecture is Go's name of the machine's, as amd64.
	Architecture string
	// HostName is the machine's own DNS host name, in its own case; Domain its DNS suffix, or empty.
	HostName, Domain string
	// SystemUUID is what the kubelet reports as the node's, in upper case without braces; empty where Windows has none.
	SystemUUID string
	// Elevated is true where this process has an administrator's rights.
	Elevated bool
	// PendingReboots names what waits for a reboot.
	PendingReboots []string
}

// Interface is a network interface that is up.
type Interface struct {
	Name string
	// Addresses are its usable unicast addresses.
	Addresses []netip.Addr
	// Default is true where it has a default gateway, Metric its preference: the lowest wins.
	Default bool
	Metric  uint32
}
