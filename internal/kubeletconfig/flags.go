package kubeletconfig

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"wsu.windows/internal/nodespec"
)

// osLabel is what OpenShift's own components select Windows nodes by.
const osLabel = "node.openshift.io/os_id"

// Command is what the kubelet's command line is made of. Paths are the node's.
type Command struct {
	Spec *nodespec.NodeSpec
	// LinuxFlags are the flags of the Linux workers' kubelet, name without dashes to value.
	LinuxFlags map[string]string
	// NodeIP is the address to register with; empty leaves it to the kubelet.
	NodeIP string
	// Program, Config, Kubeconfig, BootstrapKubeconfig, CertDir and RootDir are paths.
	Program, Config, Kubeconfig, BootstrapKubeconfig, CertDir, RootDir string
	// CloudConfig is a path, or empty where there is none.
	CloudConfig string
}

// Args gives the kubelet's program and arguments, sorted by flag: the same command for the same input. An extra argument that the
// version does not know is an error that names it.
func Args(c Command) ([]string, error) {
	minor, err := minorOf(c.Spec.Kubelet.Version)
	if err != nil {
		return nil, err
	}
	flags := c.flags(minor)
	for name, span := range flagSpans {
		if !span.holds(minor) {
			delete(flags, name)
		}
	}
	for name, value := range c.Spec.Kubelet.ExtraArgs {
		if span, listed := flagSpans[name]; listed && !span.holds(minor) {
			return nil, fmt.Errorf("kubelet.extraArgs.%s: kubelet %s does not know this flag any more", name, c.Spec.Kubelet.Version)
		}
		flags[name] = value
	}
	args := []string{c.Program}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name+"="+flags[name])
	}
	return args, nil
}

func (c Command) flags(minor int) map[string]string {
	flags := map[string]string{
		"config":                c.Config,
		"kubeconfig":            c.Kubeconfig,
		"bootstrap-kubeconfig":  c.BootstrapKubeconfig,
		"cert-dir":              c.CertDir,
		"root-dir":              c.RootDir,
		"windows-service":       "true",
		"windows-priorityclass": "ABOVE_NORMAL_PRIORITY_CLASS",
		"v":                     c.verbosity(),
		"container-runtime":     "remote",
	}
	if !fieldSpans["containerRuntimeEndpoint"].holds(minor) {
		flags["container-runtime-endpoint"] = c.Spec.Runtime.Endpoint
	}
	if labels := c.labels(); labels != "" {
		flags["node-labels"] = labels
	}
	if c.NodeIP != "" {
		flags["node-ip"] = c.NodeIP
	}
	if c.Spec.Node.HostnameOverride {
		flags["hostname-override"] = c.Spec.Node.Name
	}
	if provider := cloudProvider(c.LinuxFlags["cloud-provider"], minor); provider != "" {
		flags["cloud-provider"] = provider
		if c.CloudConfig != "" {
			flags["cloud-config"] = c.CloudConfig
		}
	}
	return flags
}

// cloudProvider: the in-tree ones went with 1.31, and the flag is external or empty since.
func cloudProvider(linux string, minor int) string {
	if linux != "external" && minor >= 31 {
		return ""
	}
	return linux
}

// KnowsCloudConfig reports whether a kubelet of this version takes --cloud-config.
func KnowsCloudConfig(version string) bool {
	minor, err := minorOf(version)
	return err == nil && flagSpans["cloud-config"].holds(minor)
}

func (c Command) verbosity() string {
	if c.Spec.Kubelet.Verbosity != nil {
		return strconv.Itoa(*c.Spec.Kubelet.Verbosity)
	}
	if level, err := strconv.Atoi(c.LinuxFlags["v"]); err == nil && level >= 0 {
		return strconv.Itoa(level)
	}
	return "2"
}

// labels leaves the Linux workers' labels out: node-role labels are not the kubelet's to set, and pools differ.
func (c Command) labels() string {
	all := map[string]string{}
	if c.Spec.Flavour == nodespec.FlavourOpenShift {
		all[osLabel] = "Windows"
	}
	maps.Copy(all, c.Spec.Node.Labels)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, key+"="+all[key])
	}
	return strings.Join(list, ",")
}

// rotationSince is the first Kubernetes minor whose kube-log-runner rotates (k8s.io/component-base 0.34).
const rotationSince = 34

// LogRunner wraps a command into kube-log-runner, which keeps its output in a file and rotates it: Kubernetes' programs write no log
// files themselves since 1.26. Older kube-log-runners than rotationSince do not rotate.
func LogRunner(program, version, logFile string, command []string) ([]string, error) {
	minor, err := minorOf(version)
	if err != nil {
		return nil, err
	}
	args := []string{program, "-log-file=" + logFile}
	if minor >= rotationSince {
		args = append(args, "-log-file-size=100Mi", "-log-file-age=168h", "-flush-interval=5s")
	}
	return append(args, command...), nil
}

// CloudConfigName is the file's name on the node.
func CloudConfigName(linuxPath string) string { return path.Base(linuxPath) }
