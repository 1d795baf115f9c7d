package preflight

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winsystem"
	"wsu.windows/internal/wmcb/foreign"
	"wsu.windows/internal/wmcb/state"
)

// builds are the supported ones.
var builds = map[int]string{17763: "Windows Server 2019", 20348: "Windows Server 2022", 26100: "Windows Server 2025"}

const kubeletPort = 10250

func nodeName(wanted, hostName string) string {
	if wanted != "" {
		return wanted
	}
	return strings.ToLower(hostName)
}

func dnsNames(node string, info winsystem.Info) []string {
	names := []string{node}
	host := strings.ToLower(info.HostName)
	candidates := []string{host}
	if info.Domain != "" {
		candidates = append(candidates, host+"."+strings.ToLower(info.Domain))
	}
	for _, name := range candidates {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (e *examination) build() nodereport.Check {
	seen := fmt.Sprintf("%s, build %d, %s", e.info.Name, e.info.Build, e.info.Architecture)
	if builds[e.info.Build] == "" || e.info.Architecture != "amd64" {
		return fail("windows_build", reason.WindowsUnsupported, seen, "")
	}
	return pass("windows_build", seen)
}

func (e *examination) elevation() nodereport.Check {
	if !e.info.Elevated {
		return fail("elevation", reason.NotElevated, "this session has no administrator's rights", "")
	}
	return pass("elevation", "the session has an administrator's rights")
}

func (e *examination) hostName() nodereport.Check {
	name := e.report.Facts.NodeName
	seen := fmt.Sprintf("host name %s, node name %s", e.info.HostName, name)
	if !nodespec.IsNodeName(name) {
		remedy := ""
		if e.Request.NodeName != "" {
			remedy = "Correct wsu_node_name: lower-case letters, digits, hyphens and dots, at most 63 characters."
		}
		return fail("host_name", reason.NodeNameInvalid, seen, remedy)
	}
	return pass("host_name", seen)
}

// runtime finds the container runtime: the service that was asked for, else Docker, which a kubelet cannot use.
func (e *examination) runtime(ctx context.Context) nodereport.Check {
	const name = "container_runtime"
	service := e.Request.RuntimeService
	config, err := e.Host.Services.Config(service)
	if err != nil {
		return fail(name, reason.Internal, "service "+service+": "+err.Error(), "")
	}
	if config == nil {
		if docker, err := e.Host.Services.Config("docker"); err == nil && docker != nil {
			e.report.Facts.Runtime = &nodereport.RuntimeFacts{Kind: "docker", Service: "docker", Endpoint: "npipe://./pipe/docker_engine"}
			return fail(name, reason.RuntimeUnsupported, "the service docker is here, and no service "+service, "")
		}
		return fail(name, reason.RuntimeMissing, "there is no service "+service, "Install containerd as a Windows service, or set wsu_container_runtime_service.")
	}
	facts := &nodereport.RuntimeFacts{Kind: "containerd", Service: service, Endpoint: e.Request.RuntimeEndpoint}
	e.report.Facts.Runtime = facts
	status, err := e.Host.Services.Status(service)
	if err != nil {
		return fail(name, reason.Internal, "service "+service+": "+err.Error(), "")
	}
	if status.State != winservice.Running {
		return fail(name, reason.RuntimeMissing, fmt.Sprintf("the service %s is %s", service, status.State), "Start it: Start-Service "+service+"; if it does not stay, see its log.")
	}
	pipe, isPipe := strings.CutPrefix(facts.Endpoint, "npipe://./pipe/")
	if !isPipe {
		return fail(name, reason.RuntimeUnsupported, "the endpoint "+facts.Endpoint+" is not a named pipe as npipe://./pipe/NAME", "Correct wsu_container_runtime_endpoint.")
	}
	if !e.Host.HasPipe(`\\.\pipe\` + strings.ReplaceAll(pipe, "/", `\`)) {
		return fail(name, reason.RuntimeMissing, fmt.Sprintf("the service %s runs, and nothing serves %s", service, facts.Endpoint), "Correct wsu_container_runtime_endpoint, or see the service's log.")
	}
	if facts.Version, err = e.Host.RuntimeVersion(ctx, program(config.CommandLine)); err != nil {
		return warn(name, reason.RuntimeUnsupported, fmt.Sprintf("the service %s runs; its version is unknown: %v", service, err), "See that it is containerd 1.7 or later.")
	}
	return pass(name, fmt.Sprintf("%s %s, service %s, %s", facts.Kind, facts.Version, service, facts.Endpoint))
}

// program takes the program out of a service's command line.
func program(commandLine string) string {
	if rest, quoted := strings.CutPrefix(commandLine, `"`); quoted {
		path, _, _ := strings.Cut(rest, `"`)
		return path
	}
	if at := strings.Index(strings.ToLower(commandLine), ".exe"); at >= 0 {
		return commandLine[:at+len(".exe")]
	}
	path, _, _ := strings.Cut(commandLine, " ")
	return path
}

// hasJournal reports whether a transaction of ours is open. It may be at work: a run outlives the session that started it.
func hasJournal(install string) bool {
	_, err := os.Stat(filepath.Join(install, state.JournalName))
	return err == nil
}

// joinedSince reports whether a run that was at work has made the machine a node by now.
func (e *examination) joinedSince() bool {
	now, err := state.Load(e.Request.Paths.Install)
	return err == nil && now != nil && now.Current != nil
}

// kubelet refuses a machine that somebody else has made a node. An unfinished transaction of ours is not somebody else.
func (e *examination) kubelet() nodereport.Check {
	const name = "kubelet"
	if err := foreign.Check(e.Host.Services, e.Request.Paths.Install); err != nil {
		known := reason.Of(err)
		return fail(name, known.Code, known.Object+": "+known.Problem, known.Remedy)
	}
	config, err := e.Host.Services.Config("kubelet")
	if err != nil {
		return fail(name, reason.Internal, "service kubelet: "+err.Error(), "")
	}
	switch {
	case e.joined():
		return pass(name, fmt.Sprintf("this machine is node %s with release %s", e.report.Facts.Joined.NodeName, e.report.Facts.Joined.Release))
	case config == nil:
		return pass(name, "there is none")
	case e.underWay || hasJournal(e.Request.Paths.Install) || e.joinedSince():
		return pass(name, "there is one of a run that is not finished, or has just ended; the next one settles it")
	}
	unknown := reason.Of(foreign.Unknown(config))
	return fail(name, unknown.Code, unknown.Object+": "+unknown.Problem, unknown.Remedy)
}

func (e *examination) disk() nodereport.Check {
	const name = "disk"
	free, err := e.Host.FreeBytes(e.Request.Paths.Install)
	if err != nil {
		return fail(name, reason.DiskFull, err.Error(), "Correct wsu_install_dir.")
	}
	e.report.Facts.FreeBytes = free
	const reserve = 256 << 20 // for logs and the kubelet's own data
	needed := e.Request.RequiredBytes + reserve
	seen := fmt.Sprintf("%d MB are free on the drive of %s", free>>20, e.Request.Paths.Install)
	switch {
	case free >= needed:
		return pass(name, seen)
	case e.joined():
		return warn(name, reason.DiskFull, seen, fmt.Sprintf("Free space: %d MB are wanted.", needed>>20))
	}
	return fail(name, reason.DiskFull, fmt.Sprintf("%s, and %d MB are needed", seen, needed>>20), "Free space on that drive, or set wsu_install_dir.")
}

func (e *examination) reboot() nodereport.Check {
	if len(e.info.PendingReboots) > 0 {
		return warn("reboot", reason.PendingReboot, "Windows waits for a reboot: "+strings.Join(e.info.PendingReboots, ", "), "")
	}
	return pass("reboot", "none is pending")
}

func (e *examination) port() nodereport.Check {
	const name = "port_10250"
	if e.joined() {
		return pass(name, "it is this node's kubelet's")
	}
	if err := e.Host.PortIsFree(kubeletPort); err != nil {
		if config, serviceErr := e.Host.Services.Config("kubelet"); serviceErr == nil && config != nil {
			return warn(name, reason.PortInUse, "it is taken; there is a service kubelet", "")
		}
		return fail(name, reason.PortInUse, fmt.Sprintf("port %d cannot be listened on: %v", kubeletPort, err),
			fmt.Sprintf("Find the process with Get-NetTCPConnection -LocalPort %d and stop it.", kubeletPort))
	}
	return pass(name, "it is free")
}

// network finds the node's address.
func (e *examination) network(ctx context.Context) nodereport.Check {
	const name = "network"
	interfaces, err := e.Host.Interfaces()
	if err != nil {
		return fail(name, reason.NetworkUnsuitable, err.Error(), "")
	}
	facts, byAddress := &e.report.Facts, map[string]string{}
	var defaults []string
	for _, i := range interfaces {
		for _, address := range i.Addresses {
			facts.Addresses = append(facts.Addresses, address.String())
			byAddress[address.String()] = i.Name
		}
		if i.Default {
			defaults = append(defaults, i.Name)
		}
	}
	if wanted := e.Request.NodeIP; wanted != "" {
		address, err := netip.ParseAddr(wanted)
		if err != nil || byAddress[address.String()] == "" {
			return fail(name, reason.NetworkUnsuitable, fmt.Sprintf("wsu_node_ip %s is not an address of this machine; it has %s", wanted, strings.Join(facts.Addresses, ", ")), "Correct wsu_node_ip.")
		}
		facts.NodeIP = address.String()
		return pass(name, fmt.Sprintf("%s on %s, as wsu_node_ip says", facts.NodeIP, byAddress[facts.NodeIP]))
	}
	facts.NodeIP = e.chooseAddress(ctx, interfaces)
	switch {
	case facts.NodeIP == "":
		return fail(name, reason.NetworkUnsuitable, "no interface that is up has a default route and an address", "")
	case len(defaults) > 1:
		return warn(name, reason.NetworkUnsuitable, fmt.Sprintf("%s on %s; there are several default routes: %s", facts.NodeIP, byAddress[facts.NodeIP], strings.Join(defaults, ", ")),
			"Set wsu_node_ip for the host if this is not the cluster's network.")
	}
	return pass(name, fmt.Sprintf("%s on %s", facts.NodeIP, byAddress[facts.NodeIP]))
}

// chooseAddress prefers the way to the API server, else the interface of the best default route.
func (e *examination) chooseAddress(ctx context.Context, interfaces []winsystem.Interface) string {
	if e.Request.APIServer != "" {
		if address, err := e.Host.AddressTowards(ctx, e.Request.APIServer); err == nil {
			return address
		}
	}
	best := -1
	for i, candidate := range interfaces {
		if candidate.Default && (best < 0 || candidate.Metric < interfaces[best].Metric) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return interfaces[best].Addresses[0].String()
}
