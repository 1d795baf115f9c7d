// Package firewall opens ports in the Windows firewall through its COM interface (INetFwPolicy2), behind a small interface.
package firewall

import (
	"errors"
	"fmt"

	"wsu.windows/internal/drift"
)

// ErrAbsent says that the machine has no Windows firewall service, so that there is nothing to open.
var ErrAbsent = errors.New("the machine has no Windows firewall service (MpsSvc)")

// Rule lets TCP connections in to one port, in all profiles.
type Rule struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Port        int    `json:"port"`
	Enabled     bool   `json:"enabled"`
	// Allow is false where the rule blocks; Inbound and TCP likewise, and AllProfiles: what somebody may have changed it to.
	Allow       bool `json:"allow"`
	Inbound     bool `json:"inbound"`
	TCP         bool `json:"tcp"`
	AllProfiles bool `json:"allProfiles"`
}

// NewRule gives a rule that opens a port.
func NewRule(name, description string, port int) Rule {
	return Rule{Name: name, Description: description, Port: port, Enabled: true, Allow: true, Inbound: true, TCP: true, AllProfiles: true}
}

// Firewall is the machine's. Every method gives ErrAbsent where there is none.
type Firewall interface {
	// Rule gives nil where there is none of this name.
	Rule(name string) (*Rule, error)
	// Put replaces the rule of that name.
	Put(Rule) error
	// Delete is no error where there is none.
	Delete(name string) error
}

// Diff names what differs, field by field.
func Diff(have, want Rule) []drift.Difference {
	var list []drift.Difference
	for _, field := range []struct {
		name       string
		have, want any
	}{
		{"port", have.Port, want.Port},
		{"enabled", have.Enabled, want.Enabled},
		{"allow", have.Allow, want.Allow},
		{"inbound", have.Inbound, want.Inbound},
		{"TCP", have.TCP, want.TCP},
		{"all profiles", have.AllProfiles, want.AllProfiles},
	} {
		if field.have != field.want {
			list = append(list, drift.Difference{Field: field.name, Seen: fmt.Sprint(field.have), Desired: fmt.Sprint(field.want)})
		}
	}
	return list
}
