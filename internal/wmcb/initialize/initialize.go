// Package initialize joins a machine with nothing but the two inputs of OpenShift's enhancement proposal: a worker Ignition and a
// kubelet. It puts them into the store, builds the NodeSpec that WSU would have rendered, and applies it.
package initialize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"wsu.windows/internal/ignition"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/version"
	"wsu.windows/internal/wmcb/apply"
)

// DefaultWait is how long the node's certificate request may wait for somebody to approve it.
const DefaultWait = 10 * time.Minute

// Options of one run.
type Options struct {
	// IgnitionFile and KubeletPath are the two inputs.
	IgnitionFile, KubeletPath string
	// LogRunnerPath is kube-log-runner.exe; empty: the one beside the kubelet, or none, and then the kubelet's output is lost.
	LogRunnerPath string
	// NodeName is the Node's name; empty: the machine's, in lower case.
	NodeName string
	// NodeIP is the node's address; empty: the one of the way to the API server.
	NodeIP string
	// ServiceCIDR and ClusterDNS are optional: the Ignition names the DNS server.
	ServiceCIDR, ClusterDNS string
	// KubeletVersion is asked of the kubelet where it is empty.
	KubeletVersion string
	Paths          nodespec.Paths
	Wait           time.Duration
	Enroll         apply.Enroll
	Host           apply.Host
	Progress       *progress.Reporter
}

// Run joins the machine; its report is apply's.
func Run(ctx context.Context, options Options) (nodereport.Apply, error) {
	spec, err := newSpec(ctx, options)
	if err != nil {
		report := nodereport.Apply{
			Header: nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Apply", WMCB: version.Release, Error: reason.Of(err)},
			Steps:  []nodereport.Step{},
		}
		return report, err
	}
	if options.Wait == 0 {
		options.Wait = DefaultWait
	}
	return apply.Run(ctx, apply.Options{
		Spec: spec, Enroll: options.Enroll, EnrollWait: options.Wait, Host: options.Host, Progress: options.Progress,
	})
}

func newSpec(ctx context.Context, options Options) (*nodespec.NodeSpec, error) {
	raw, err := os.ReadFile(options.IgnitionFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.New(reason.FileMissing, options.IgnitionFile, "there is no such file", "Name the worker Ignition with --ignition-file.")
	}
	if err != nil {
		return nil, reason.Wrap(reason.AccessDenied, options.IgnitionFile, err, "")
	}
	worker, err := ignition.Parse(raw)
	if err != nil {
		return nil, err
	}
	spec, err := draft(ctx, options, worker.CASHA256)
	if err != nil {
		return nil, err
	}
	if spec.Files, err = files(options, spec.Kubelet.Version); err != nil {
		return nil, err
	}
	spec.Bootstrap.IgnitionSHA256 = worker.SHA256
	if err := nodespec.Validate(spec); err != nil {
		return nil, err
	}
	return spec, fillStore(spec, options, raw)
}

func draft(ctx context.Context, options Options, cluster string) (*nodespec.NodeSpec, error) {
	spec := &nodespec.NodeSpec{
		APIVersion: nodespec.APIVersion, Kind: nodespec.Kind, Release: version.Release, Flavour: nodespec.FlavourOpenShift,
		Node: nodespec.Node{Name: options.NodeName}, Cluster: nodespec.Cluster{ID: cluster},
		Kubelet: nodespec.Kubelet{Version: options.KubeletVersion}, Paths: options.Paths,
	}
	nodespec.Default(spec)
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the machine's name: %w", err)
	}
	if spec.Node.Name == "" {
		spec.Node.Name = strings.ToLower(host)
	}
	spec.Node.HostnameOverride = !strings.EqualFold(spec.Node.Name, host)
	if options.NodeIP != "" {
		spec.Node.Addresses = []string{options.NodeIP}
	}
	if options.ServiceCIDR != "" {
		spec.Network.ServiceCIDRs = []string{options.ServiceCIDR}
	}
	if options.ClusterDNS != "" {
		spec.Network.ClusterDNS = []string{options.ClusterDNS}
	}
	if spec.Kubelet.Version == "" {
		if spec.Kubelet.Version, err = askVersion(ctx, options.KubeletPath); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

var versionLine = regexp.MustCompile(`(?m)^Kubernetes (v[0-9]+\.[0-9]+\.[0-9]+[^\s]*)\s*$`)

// askVersion runs the kubelet, which prints "Kubernetes v1.36.3".
func askVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", reason.New(reason.FileMissing, path, "there is no such file", "Name kubelet.exe with --kubelet-path.")
	}
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", reason.New(reason.FileMissing, path, "it does not tell its version: "+err.Error(), "Name a kubelet.exe for this Windows with --kubelet-path.")
	}
	match := versionLine.FindSubmatch(output)
	if match == nil {
		return "", reason.New(reason.FileMissing, path, "it is not a kubelet: it answers nothing as \"Kubernetes v1.36.3\" to --version",
			"Name kubelet.exe with --kubelet-path.")
	}
	return string(match[1]), nil
}

// sources gives the files by their names in the release folder.
func (o Options) sources() map[string]string {
	sources := map[string]string{"kubelet.exe": o.KubeletPath}
	runner := o.LogRunnerPath
	if runner == "" {
		beside := filepath.Join(filepath.Dir(o.KubeletPath), "kube-log-runner.exe")
		if _, err := os.Stat(beside); err == nil {
			runner = beside
		}
	}
	if runner != "" {
		sources["kube-log-runner.exe"] = runner
	}
	return sources
}

func files(options Options, kubeletVersion string) ([]nodespec.File, error) {
	var list []nodespec.File
	for _, name := range []string{"kubelet.exe", "kube-log-runner.exe"} {
		path, found := options.sources()[name]
		if !found {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, reason.Wrap(reason.FileMissing, path, err, "")
		}
		digest, err := securefile.Digest(path)
		if err != nil {
			return nil, reason.Wrap(reason.FileMissing, path, err, "")
		}
		list = append(list, nodespec.File{Name: name, SHA256: digest, Size: info.Size(), Version: kubeletVersion})
	}
	return list, nil
}

// fillStore copies what is not there yet; the originals are their owner's to delete.
func fillStore(spec *nodespec.NodeSpec, options Options, ignition []byte) error {
	if err := os.MkdirAll(filepath.Dir(spec.Paths.Install), 0o755); err != nil {
		return err
	}
	store := filepath.Join(spec.Paths.Install, "store")
	for _, folder := range []string{spec.Paths.Install, store} {
		if err := securefile.MakeFolder(folder); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err := securefile.Write(filepath.Join(store, spec.Bootstrap.IgnitionSHA256), ignition); err != nil {
		return err
	}
	for _, file := range spec.Files {
		target := filepath.Join(store, file.SHA256)
		if digest, err := securefile.Digest(target); err == nil && digest == file.SHA256 {
			continue
		}
		if err := securefile.Copy(options.sources()[file.Name], target, file.SHA256); err != nil {
			return err
		}
	}
	return nil
}
