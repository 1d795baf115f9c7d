// Package preflight finds out, before anything is changed, whether a machine can become a node and what it is. Each check says what it saw
// and what to do; all of them are made, so that one run names everything.
package preflight

import (
	"context"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winsystem"
	"wsu.windows/internal/wmcb/state"
)

// within bounds each check that asks somebody else.
const within = 15 * time.Second

// Host is the machine as preflight sees it.
type Host struct {
	System     func() (winsystem.Info, error)
	Interfaces func() ([]winsystem.Interface, error)
	FreeBytes  func(path string) (int64, error)
	HasPipe    func(path string) bool
	Services   winservice.Services
	// RuntimeVersion asks a container runtime's program for its version.
	RuntimeVersion func(ctx context.Context, program string) (string, error)
	// PortIsFree reports whether a TCP port can be listened on.
	PortIsFree func(port int) error
	// Resolve looks a name up.
	Resolve func(ctx context.Context, name string) ([]string, error)
	// Ask reaches the API server and gives its time.
	Ask func(ctx context.Context, server string, authority []byte) (time.Time, error)
	// AddressTowards is the machine's address on the way to the API server.
	AddressTowards func(ctx context.Context, server string) (string, error)
	Now            func() time.Time
}

// Options of one run.
type Options struct {
	Request nodespec.Preflight
	Host    Host
}

// Run makes all checks. The error is the first failed one's.
func Run(ctx context.Context, options Options) (nodereport.Preflight, error) {
	report := nodereport.Preflight{
		Header: nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Preflight", WMCB: version.Release},
		Checks: []nodereport.Check{},
		Facts:  nodereport.Facts{Addresses: []string{}, DNSNames: []string{}, Time: options.Host.Now().UTC().Format(time.RFC3339)},
	}
	err := run(ctx, options, &report)
	if err != nil {
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

// examination is one run on one machine.
type examination struct {
	Options
	info   winsystem.Info
	state  *state.State
	report *nodereport.Preflight
	// underWay: a transaction of ours was open when the examination began.
	underWay bool
}

func run(ctx context.Context, options Options, report *nodereport.Preflight) error {
	info, err := options.Host.System()
	if err != nil {
		return reason.Wrap(reason.Internal, "this machine", err, "")
	}
	underWay := hasJournal(options.Request.Paths.Install) // before the state: what ends now writes that first
	found, err := state.Load(options.Request.Paths.Install)
	if err != nil {
		return err
	}
	e := &examination{Options: options, info: info, state: found, report: report, underWay: underWay}
	e.facts()
	slow := e.startSlowChecks(ctx)
	e.add(e.build())
	e.add(e.elevation())
	e.add(e.hostName())
	e.add(e.runtime(ctx))
	e.add(e.kubelet())
	e.add(e.disk())
	e.add(e.reboot())
	e.add(e.port())
	e.add(e.network(ctx))
	for _, check := range <-slow {
		e.add(check)
	}
	return e.firstFailure()
}

func (e *examination) add(check nodereport.Check) { e.report.Checks = append(e.report.Checks, check) }

// joined reports whether wmcb's own state says that the machine is a node.
func (e *examination) joined() bool { return e.report.Facts.Joined != nil }

func (e *examination) facts() {
	facts := &e.report.Facts
	facts.HostName, facts.WindowsBuild, facts.WindowsName = e.info.HostName, e.info.Build, e.info.Name
	// The kubelet's MachineID on Windows is the host name as it is.
	facts.SystemUUID, facts.MachineID = e.info.SystemUUID, e.info.HostName
	facts.NodeName = nodeName(e.Request.NodeName, e.info.HostName)
	facts.DNSNames = dnsNames(facts.NodeName, e.info)
	if e.state != nil && e.state.Current != nil {
		current := e.state.Current
		facts.Joined = &nodereport.Joined{Release: current.Release, NodeName: current.NodeName, Cluster: current.Cluster, KubeletVersion: current.KubeletVersion}
	}
}

func (e *examination) firstFailure() error {
	for _, check := range e.report.Checks {
		if check.Result == nodereport.Fail {
			return reason.New(check.Code, check.Name, check.Seen, check.Remedy)
		}
	}
	return nil
}

func pass(name, seen string) nodereport.Check {
	return nodereport.Check{Name: name, Result: nodereport.Pass, Seen: seen}
}

// fail takes the code's general remedy where there is no better one.
func fail(name string, code reason.Code, seen, remedy string) nodereport.Check {
	if remedy == "" {
		remedy = code.Remedy()
	}
	return nodereport.Check{Name: name, Result: nodereport.Fail, Code: code, Seen: seen, Remedy: remedy}
}

func warn(name string, code reason.Code, seen, remedy string) nodereport.Check {
	check := fail(name, code, seen, remedy)
	check.Result = nodereport.Warn
	return check
}
