// Package apply makes a Windows machine the node that a NodeSpec describes, as one transaction: see internal/transaction. Its steps are
// also what status checks without doing, and its undoers what remove settles an unfinished transaction with.
package apply

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"wsu.windows/internal/firewall"
	"wsu.windows/internal/kubeapi"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
)

// Host is the machine as apply sees it.
type Host struct {
	Services  winservice.Services
	Processes winservice.Processes
	Firewall  firewall.Firewall
	// NodeIP gives this machine's address on the way to the API server's URL.
	NodeIP func(ctx context.Context, apiServer string) (string, error)
	// Heard gives when the API server last heard of the node's kubelet, by this machine's clock; the zero time: never. It asks with the
	// kubelet's own credentials.
	Heard func(ctx context.Context, kubeconfigFile, node string) (time.Time, error)
	// Journal wraps the journal where it is set: tests die in it.
	Journal func(transaction.Journal) transaction.Journal
	// Stays is how long the kubelet has to stay healthy on a join, and StaysChanged on a change of what was running.
	Stays, StaysChanged time.Duration
}

// ThisHost is the machine that the program runs on.
func ThisHost() Host {
	return Host{
		Services: winservice.Open(), Processes: winservice.OpenProcesses(), Firewall: firewall.Open(), NodeIP: addressTowards, Heard: heard,
		Stays: healthyFor, StaysChanged: changedHealthyFor,
	}
}

// heard asks the API server that the kubelet's kubeconfig names.
func heard(ctx context.Context, kubeconfigFile, node string) (time.Time, error) {
	credentials, err := kubeconfig.Load(kubeconfigFile)
	if err != nil {
		return time.Time{}, fmt.Errorf("the kubelet's kubeconfig: %w", err)
	}
	client, err := kubeapi.New(credentials)
	if err != nil {
		return time.Time{}, err
	}
	defer client.Close()
	at, err := client.NodeHeard(ctx, node)
	if errors.Is(err, kubeapi.ErrNotFound) {
		return time.Time{}, nil
	}
	return at, err
}

// addressTowards asks the routing table: connecting a UDP socket sends nothing.
func addressTowards(ctx context.Context, apiServer string) (string, error) {
	server, err := url.Parse(apiServer)
	if err != nil {
		return "", err
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("no route to the API server %s: %w", server.Host, err)
	}
	defer connection.Close()
	address, ok := connection.LocalAddr().(*net.UDPAddr)
	if !ok || address.IP.IsLoopback() || address.IP.IsUnspecified() {
		return "", fmt.Errorf("the way to the API server %s has no address of its own", server.Host)
	}
	return address.IP.String(), nil
}

// Enroll makes the node have its client certificate, and waits at most so long for the approval. It is enroll.Run of wmcb's subcommand.
type Enroll func(ctx context.Context, spec *nodespec.NodeSpec, wait time.Duration) (nodereport.Enroll, error)

// Options of one run.
type Options struct {
	Spec *nodespec.NodeSpec
	// DryRun plans and changes nothing.
	DryRun bool
	// Enroll is called where the node has no valid client certificate; EnrollWait bounds its waiting for approval.
	Enroll     Enroll
	EnrollWait time.Duration
	Host       Host
	Progress   *progress.Reporter
}

// How long a service may take to stop before its processes are killed: StopTimeout where it worked, brokenStopTimeout where it never became
// healthy; and killTimeout for killed processes to go.
const (
	StopTimeout       = 30 * time.Second
	brokenStopTimeout = 10 * time.Second
	killTimeout       = 15 * time.Second
)

// layout is where things lie on the node.
type layout struct {
	install, store, releases, release, undo string
	kubeletData, pki, logs, cniState        string
	kubelet, logRunner, kubeletConfig       string
	kubeletCA, kubeconfig, bootstrap        string
	kubeletLog                              string
}

func layoutOf(spec *nodespec.NodeSpec) layout {
	install := spec.Paths.Install
	release := filepath.Join(install, "releases", spec.Release)
	data := spec.Paths.KubeletData
	return layout{
		install: install, store: filepath.Join(install, "store"), releases: filepath.Join(install, "releases"), release: release,
		undo: undoFolder(install), kubeletData: data, pki: filepath.Join(data, "pki"), logs: filepath.Join(spec.Paths.Logs, "kubelet"),
		cniState: filepath.Join(filepath.Dir(data), "cni"),
		kubelet:  filepath.Join(release, "kubelet.exe"), logRunner: filepath.Join(release, "kube-log-runner.exe"),
		kubeletConfig: filepath.Join(release, "kubelet.conf"), kubeletCA: filepath.Join(install, "kubelet-ca.crt"),
		kubeconfig: filepath.Join(install, "kubeconfig"), bootstrap: filepath.Join(install, "bootstrap-kubeconfig"),
		kubeletLog: LogFile(spec.Paths.Logs),
	}
}

// LogFile is the kubelet's log, given the folder of all logs.
func LogFile(logs string) string { return filepath.Join(logs, "kubelet", "kubelet.log") }

// ClientCertificate and ServingCertificate are where the kubelet keeps certificate and key, given its data folder.
func ClientCertificate(kubeletData string) string {
	return filepath.Join(kubeletData, "pki", "kubelet-client-current.pem")
}

// ServingCertificate see ClientCertificate.
func ServingCertificate(kubeletData string) string {
	return filepath.Join(kubeletData, "pki", "kubelet-server-current.pem")
}
