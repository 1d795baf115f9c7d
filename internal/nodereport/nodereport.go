// Package nodereport holds the JSON documents that wmcb prints, one per subcommand. They are the only thing that WSU
// reads from a host, and they come from a machine that may be hostile: WSU bounds their size and decodes into these types.
package nodereport

import (
	"wsu.windows/internal/drift"
	"wsu.windows/internal/reason"
)

// APIVersion stands in every document.
const APIVersion = "wsu.windows/v1"

// Header is the common part of every document (embedded, so its fields stand at the top level).
type Header struct {
	APIVersion string `json:"apiVersion"`
	// Kind is Preflight, Enroll, Apply, Rollback, Status, Remove, Collect, Receive, Version or Error.
	Kind string `json:"kind"`
	// WMCB is the version of wmcb.exe.
	WMCB string `json:"wmcb"`
	// OK is false exactly where Error is set.
	OK      bool          `json:"ok"`
	Changed bool          `json:"changed"`
	Error   *reason.Error `json:"error,omitempty"`
}

// Version is printed by `wmcb version`.
type Version struct {
	Header
	// SHA256 is the digest of the running wmcb.exe itself.
	SHA256 string `json:"sha256"`
	// StreamVersions are the versions of the transfer stream that `wmcb receive` speaks.
	StreamVersions []int `json:"streamVersions"`
}

// Check results.
const (
	Pass = "pass"
	Warn = "warn"
	Fail = "fail"
)

// Check is one line of a preflight.
type Check struct {
	// Name is stable: windows_build, elevation, host_name, container_runtime, kubelet, disk, reboot, port_10250, network, clock, api_server, dns.
	Name   string `json:"name"`
	Result string `json:"result"`
	// Code is the reason's code where Result is not pass.
	Code reason.Code `json:"code,omitempty"`
	// Seen says what was found, Remedy what to do about it.
	Seen   string `json:"seen"`
	Remedy string `json:"remedy,omitempty"`
}

// Preflight is printed by `wmcb preflight`. It fails (Error of the first failed check) only if a check failed.
type Preflight struct {
	Header
	Checks []Check `json:"checks"`
	Facts  Facts   `json:"facts"`
}

// Facts are what WSU needs to know of a machine.
type Facts struct {
	HostName     string `json:"hostName"`
	NodeName     string `json:"nodeName"`
	WindowsBuild int    `json:"windowsBuild"`
	WindowsName  string `json:"windowsName"`
	// SystemUUID is what the kubelet will report as the Node's systemUUID; MachineID likewise.
	SystemUUID string `json:"systemUUID"`
	MachineID  string `json:"machineID"`
	// Addresses: every usable unicast address; NodeIP: the address of the default route's interface.
	Addresses []string `json:"addresses"`
	NodeIP    string   `json:"nodeIP"`
	// DNSNames are the names the machine has for itself (host name, FQDN).
	DNSNames []string      `json:"dnsNames"`
	Runtime  *RuntimeFacts `json:"runtime,omitempty"`
	// Joined is set where wmcb's own state says that this machine is a node.
	Joined    *Joined `json:"joined,omitempty"`
	FreeBytes int64   `json:"freeBytes"`
	Time      string  `json:"time"`
}

// RuntimeFacts describe the container runtime that was found.
type RuntimeFacts struct {
	Kind     string `json:"kind"`
	Service  string `json:"service"`
	Endpoint string `json:"endpoint"`
	Version  string `json:"version"`
}

// Joined says what this machine is a node of.
type Joined struct {
	Release  string `json:"release"`
	NodeName string `json:"nodeName"`
	Cluster  string `json:"cluster"`
	// KubeletVersion is the installed one.
	KubeletVersion string `json:"kubeletVersion"`
}

// Enroll states.
const (
	// CertificatePresent: the node has a valid client certificate; nothing to approve.
	CertificatePresent = "present"
	// CertificatePending: the CSR is submitted and waits for approval.
	CertificatePending = "pending"
	// CertificateIssued: the certificate was picked up by this run.
	CertificateIssued = "issued"
)

// Enroll is printed by `wmcb enroll`.
type Enroll struct {
	Header
	State    string `json:"state"`
	NodeName string `json:"nodeName"`
	// CSR is the request's object name; PublicKeySHA256 the digest of its SubjectPublicKeyInfo (DER), in hexadecimal.
	CSR             string `json:"csr,omitempty"`
	PublicKeySHA256 string `json:"publicKeySHA256"`
	NotAfter        string `json:"notAfter,omitempty"`
	// Addresses and DNSNames are those that the kubelet's serving certificate may carry.
	Addresses []string `json:"addresses"`
	DNSNames  []string `json:"dnsNames"`
}

// Step is what apply or remove did, or would do, about one thing.
type Step struct {
	// Name is stable, for example kubelet-config; Action is a sentence.
	Name    string `json:"name"`
	Action  string `json:"action"`
	Changed bool   `json:"changed"`
	// Drift names what was found different, field by field, where the thing existed.
	Drift []string `json:"drift,omitempty"`
	// Before and After are the texts for a diff, without secrets.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Millis is how long it took.
	Millis int64 `json:"millis"`
}

// Apply is printed by `wmcb apply` (with DryRun: a plan), `wmcb rollback` and `wmcb remove`.
type Apply struct {
	Header
	DryRun bool `json:"dryRun,omitempty"`
	// Release is the one that was to be made: of a roll-back the one that it goes back to.
	Release  string `json:"release"`
	NodeName string `json:"nodeName"`
	// PreviousRelease is the one that the machine had when the run began; empty: none. A run that succeeded has changed the release exactly
	// where it is neither empty nor Release.
	PreviousRelease string `json:"previousRelease,omitempty"`
	// RollbackTo is the release that `wmcb rollback` would go back to after this run; empty: none is kept.
	RollbackTo string `json:"rollbackTo,omitempty"`
	Steps      []Step `json:"steps"`
	// RolledBack is true where a failure was undone and the node is as before.
	RolledBack bool `json:"rolledBack,omitempty"`
	// KubeletLog holds the last lines of the kubelet's log, on failure.
	KubeletLog []string `json:"kubeletLog,omitempty"`
	// ServingCertificate is true where the kubelet already has a valid serving certificate.
	ServingCertificate bool `json:"servingCertificate"`
	RebootNeeded       bool `json:"rebootNeeded,omitempty"`
	// Warnings say what could not be done and did not matter enough to fail.
	Warnings []string `json:"warnings,omitempty"`
}

// Status is printed by `wmcb status`; it changes nothing.
type Status struct {
	Header
	Joined   *Joined         `json:"joined,omitempty"`
	Services []ServiceStatus `json:"services"`
	// RollbackTo is the release that `wmcb rollback` would go back to; RolledBackFrom the one that the last roll-back left, until the next
	// apply.
	RollbackTo     string `json:"rollbackTo,omitempty"`
	RolledBackFrom string `json:"rolledBackFrom,omitempty"`
	// Drift names every difference from the applied specification, a line each; Differences has the same in parts.
	Drift       []string     `json:"drift"`
	Differences []Difference `json:"differences"`
	// ClientCertificateNotAfter and ServingCertificateNotAfter are RFC 3339, or empty.
	ClientCertificateNotAfter  string   `json:"clientCertificateNotAfter,omitempty"`
	ServingCertificateNotAfter string   `json:"servingCertificateNotAfter,omitempty"`
	KubeletLog                 []string `json:"kubeletLog,omitempty"`
}

// Difference is one way in which the machine is not what was applied.
type Difference struct {
	// Step is the one of apply that would put it right; Object the file, service or rule.
	Step   string `json:"step"`
	Object string `json:"object,omitempty"`
	drift.Difference
}

// ServiceStatus is one Windows service.
type ServiceStatus struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	StartType string `json:"startType"`
	PID       uint32 `json:"pid,omitempty"`
}

// Collect is printed by `wmcb collect` on stderr's counterpart: the archive itself goes to stdout or a file, see cmd/wmcb.
type Collect struct {
	Header
	Path   string   `json:"path"`
	Size   int64    `json:"size"`
	SHA256 string   `json:"sha256"`
	Files  []string `json:"files"`
}
