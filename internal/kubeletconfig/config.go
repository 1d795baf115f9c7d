// Package kubeletconfig makes the kubelet's configuration for a Windows node: the KubeletConfiguration (kubelet.config.k8s.io/v1beta1) and
// the command line, out of what the cluster's Linux workers have and what Windows needs, for the version of the kubelet at hand. It
// never writes a flag, a field or a feature gate that the version does not know, because the kubelet would exit.
package kubeletconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/nodespec"
)

// Input is what a KubeletConfiguration is made of.
type Input struct {
	// Version is the kubelet's, as v1.36.3.
	Version string
	// Linux is the Linux workers' KubeletConfiguration in YAML, or nil.
	Linux []byte
	// ClientCAFile is the path of the authority of the kubelet's clients.
	ClientCAFile string
	// Endpoint is the CRI endpoint.
	Endpoint string
	Network  nodespec.Network
	// Taints are KEY=VALUE:EFFECT.
	Taints []string
	// Override is merged over the result; a null removes a field.
	Override map[string]any
}

// fromLinux are the fields that mean the same on Windows and are the cluster's administrator's to choose. All others of the Linux
// workers are dropped: cgroups, sysctls, swap, CPU, memory and topology management, OOM scores, iptables, static pods, Linux paths,
// reservations measured for Linux, and feature gates, which another kubelet version may not know.
var fromLinux = []string{
	"clusterDomain", "clusterDNS", "containerLogMaxFiles", "containerLogMaxSize", "containerLogMaxWorkers", "containerLogMonitorInterval",
	"configMapAndSecretChangeDetectionStrategy", "eventBurst", "eventRecordQPS", "evictionMaxPodGracePeriod",
	"evictionPressureTransitionPeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "imageMaximumGCAge",
	"imageMinimumGCAge", "kubeAPIBurst", "kubeAPIQPS", "maxParallelImagePulls", "maxPods", "nodeLeaseDurationSeconds",
	"nodeStatusMaxImages", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency", "podsPerCore", "registryBurst", "registryPullQPS",
	"serializeImagePulls", "streamingConnectionIdleTimeout", "syncFrequency", "tlsCipherSuites", "tlsCurvePreferences", "tlsMinVersion",
	"volumeStatsAggPeriod",
}

// defaults hold where the cluster says nothing. The values are those that the Windows Machine Config Operator gives its nodes.
func defaults() map[string]any {
	return map[string]any{
		"clusterDomain":       nodespec.DefaultClusterDomain,
		"containerLogMaxSize": "50Mi",
		"kubeAPIBurst":        100,
		"kubeAPIQPS":          50,
		"maxPods":             250,
		"serializeImagePulls": false,
	}
}

// windows are the values that a Windows node needs, whatever the Linux workers have. The same source.
func windows(in Input) map[string]any {
	return map[string]any{
		"kind":       "KubeletConfiguration",
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": in.ClientCAFile},
		},
		"rotateCertificates":       true,
		"serverTLSBootstrap":       true,
		"cgroupsPerQOS":            false,
		"enforceNodeAllocatable":   []any{"none"},
		"resolvConf":               "",
		"containerRuntimeEndpoint": in.Endpoint,
		"registerNode":             true,
		"runtimeRequestTimeout":    "10m0s",
		"enableSystemLogHandler":   true,
		"enableSystemLogQuery":     true,
		"evictionHard":             map[string]any{"nodefs.available": "10%", "imagefs.available": "15%"},
		"systemReserved":           map[string]any{"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
	}
}

// Config gives the KubeletConfiguration in YAML, always the same bytes for the same input.
func Config(in Input) ([]byte, error) {
	minor, err := minorOf(in.Version)
	if err != nil {
		return nil, err
	}
	config := defaults()
	if err := takeLinux(config, in.Linux); err != nil {
		return nil, err
	}
	maps.Copy(config, windows(in))
	if err := setNetwork(config, in.Network); err != nil {
		return nil, err
	}
	if err := setTaints(config, in.Taints); err != nil {
		return nil, err
	}
	setGates(config, minor)
	for name, span := range fieldSpans {
		if !span.holds(minor) {
			delete(config, name)
		}
	}
	return yaml.Marshal(merge(config, in.Override))
}

func takeLinux(config map[string]any, raw []byte) error {
	linux := map[string]any{}
	if err := yaml.Unmarshal(raw, &linux); err != nil {
		return errors.New("the Linux workers' kubelet.conf is not YAML")
	}
	if kind := linux["kind"]; len(linux) > 0 && kind != "KubeletConfiguration" {
		return fmt.Errorf("the Linux workers' kubelet.conf is a %v, not a KubeletConfiguration", kind)
	}
	for _, name := range fromLinux {
		if value, found := linux[name]; found && !isZero(value) {
			config[name] = value
		}
	}
	return nil
}

// isZero tells what only stands there because a Go structure was written out: the kubelet reads such a value as "the default".
func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0s" || v == "0"
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func setNetwork(config map[string]any, network nodespec.Network) error {
	if network.ClusterDomain != "" {
		config["clusterDomain"] = network.ClusterDomain
	}
	addresses := network.ClusterDNS
	if len(addresses) == 0 && len(network.ServiceCIDRs) > 0 {
		address, err := tenth(network.ServiceCIDRs[0])
		if err != nil {
			return err
		}
		addresses = []string{address}
	}
	if len(addresses) > 0 {
		config["clusterDNS"] = addresses
	}
	return nil
}

// tenth is where OpenShift and kubeadm put the cluster's DNS service.
func tenth(cidr string) (string, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("service network %q: %w", cidr, err)
	}
	address := prefix.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	if !prefix.Contains(address) {
		return "", fmt.Errorf("service network %s has no tenth address; name the cluster's DNS server", cidr)
	}
	return address.String(), nil
}

func setTaints(config map[string]any, texts []string) error {
	var taints []any
	for _, text := range texts {
		taint, err := nodespec.ParseTaint(text)
		if err != nil {
			return err
		}
		one := map[string]any{"key": taint.Key, "effect": taint.Effect}
		if taint.Value != "" {
			one["value"] = taint.Value
		}
		taints = append(taints, one)
	}
	if taints != nil {
		config["registerWithTaints"] = taints
	}
	return nil
}

func setGates(config map[string]any, minor int) {
	gates := map[string]any{}
	for name, span := range gateSpans {
		if span.holds(minor) {
			gates[name] = true
		}
	}
	if len(gates) > 0 {
		config["featureGates"] = gates
	}
}

// merge lays over upon config: objects member by member, everything else whole, and null removes.
func merge(config, over map[string]any) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(over)) {
		value := over[name]
		if value == nil {
			delete(config, name)
			continue
		}
		object, isObject := value.(map[string]any)
		below, hasObject := config[name].(map[string]any)
		if isObject && hasObject {
			config[name] = merge(maps.Clone(below), object)
			continue
		}
		config[name] = value
	}
	return config
}
