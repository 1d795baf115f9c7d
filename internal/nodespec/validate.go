package nodespec

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	dnsLabel      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	release       = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)
	version       = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)
	digest        = regexp.MustCompile(`^[0-9a-f]{64}$`)
	fileName      = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`)
	serviceName   = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,79}$`)
	flagName      = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	labelValue    = regexp.MustCompile(`^([0-9A-Za-z]([0-9A-Za-z._-]{0,61}[0-9A-Za-z])?)?$`)
	qualifiedName = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z._-]{0,61}[0-9A-Za-z])?$`)
	windowsPath   = regexp.MustCompile(`^[A-Za-z]:(\\[0-9A-Za-z][0-9A-Za-z._-]*)+$`)
)

// maxKeep bounds keepReleases: a release has about 150 MB.
const maxKeep = 20

// ownFlags are the kubelet's flags that hold the transaction together; nobody else may set them.
var ownFlags = []string{"config", "config-dir", "kubeconfig", "bootstrap-kubeconfig", "cert-dir", "root-dir", "windows-service"}

// Validate says what is wrong with a NodeSpec: a reason.Error that names the first wrong field, or nil.
func Validate(s *NodeSpec) error {
	for _, check := range []func(*NodeSpec) error{
		validateHeader, validateNode, validateLabels, validateTaints, validateBootstrap, validateFiles, validateKubelet,
		validateRuntime, validateNetwork, validateProxy, validatePaths,
	} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func validateHeader(s *NodeSpec) error {
	switch {
	case s.APIVersion != APIVersion:
		return invalid("apiVersion", fmt.Sprintf("it is %q, and has to be %q", s.APIVersion, APIVersion))
	case s.Kind != Kind:
		return invalid("kind", fmt.Sprintf("it is %q, and has to be %q", s.Kind, Kind))
	case !release.MatchString(s.Release) || strings.HasSuffix(s.Release, "."):
		return invalid("release", fmt.Sprintf("%q is not a release's version", s.Release))
	case s.Flavour != FlavourOpenShift && s.Flavour != FlavourKubernetes:
		return invalid("flavour", fmt.Sprintf("it is %q, and has to be %s or %s", s.Flavour, FlavourOpenShift, FlavourKubernetes))
	case s.KeepReleases < 0 || s.KeepReleases > maxKeep:
		return invalid("keepReleases", fmt.Sprintf("%d is not within 1 and %d", s.KeepReleases, maxKeep))
	case s.Cluster.KubernetesVersion != "" && !version.MatchString(s.Cluster.KubernetesVersion):
		return invalid("cluster.kubernetesVersion", fmt.Sprintf("%q is not a version as v1.36.3", s.Cluster.KubernetesVersion))
	}
	return nil
}

func validateNode(s *NodeSpec) error {
	if len(s.Node.Name) > 63 || !dnsLabels(s.Node.Name) {
		return invalid("node.name", fmt.Sprintf("%q is not a node name: lower-case letters, digits, hyphens and dots, at most 63", s.Node.Name))
	}
	for i, address := range s.Node.Addresses {
		parsed, err := netip.ParseAddr(address)
		if err != nil || parsed.Zone() != "" {
			return invalid(fmt.Sprintf("node.addresses[%d]", i), fmt.Sprintf("%q is not an IP address", address))
		}
		if parsed.IsLoopback() || parsed.IsMulticast() || parsed.IsUnspecified() || parsed.IsLinkLocalUnicast() {
			return invalid(fmt.Sprintf("node.addresses[%d]", i), fmt.Sprintf("%s cannot be a node's address", address))
		}
	}
	return nil
}

func dnsLabels(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if !dnsLabel.MatchString(label) {
			return false
		}
	}
	return true
}

func validateLabels(s *NodeSpec) error {
	for _, key := range sortedKeys(s.Node.Labels) {
		field := "node.labels." + key
		if !isQualifiedName(key) {
			return invalid(field, "it is not a label's name")
		}
		if !labelValue.MatchString(s.Node.Labels[key]) {
			return invalid(field, fmt.Sprintf("%q is not a label's value", s.Node.Labels[key]))
		}
		if !KubeletMaySet(key) {
			return invalid(field, "a kubelet may not give itself this label (NodeRestriction); it is set through the API")
		}
	}
	return nil
}

func isQualifiedName(key string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		return qualifiedName.MatchString(key)
	}
	return len(prefix) <= 253 && dnsLabels(prefix) && qualifiedName.MatchString(name)
}

// kubeletLabels are those of kubernetes.io and k8s.io that a kubelet may set: k8s.io/kubelet, pkg/apis/well_known_labels.go.
var kubeletLabels = []string{
	"kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
	"kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// KubeletMaySet reports whether the NodeRestriction admission plugin, and the kubelet's own check, let a kubelet set the label.
func KubeletMaySet(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found || slices.Contains(kubeletLabels, key) {
		return true
	}
	for _, allowed := range []string{"kubelet.kubernetes.io", "node.kubernetes.io"} {
		if prefix == allowed || strings.HasSuffix(prefix, "."+allowed) {
			return true
		}
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == reserved || strings.HasSuffix(prefix, "."+reserved) {
			return false
		}
	}
	return true
}

// Taint is KEY=VALUE:EFFECT taken apart.
type Taint struct{ Key, Value, Effect string }

// ParseTaint reads KEY=VALUE:EFFECT or KEY:EFFECT.
func ParseTaint(text string) (Taint, error) {
	keyValue, effect, found := strings.Cut(text, ":")
	key, value, _ := strings.Cut(keyValue, "=")
	if !found || !isQualifiedName(key) || !labelValue.MatchString(value) {
		return Taint{}, fmt.Errorf("%q is not a taint as KEY=VALUE:EFFECT", text)
	}
	if !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
		return Taint{}, fmt.Errorf("%q has the effect %q; there are NoSchedule, PreferNoSchedule and NoExecute", text, effect)
	}
	return Taint{key, value, effect}, nil
}

func validateTaints(s *NodeSpec) error {
	for i, text := range s.Node.Taints {
		if _, err := ParseTaint(text); err != nil {
			return invalid(fmt.Sprintf("node.taints[%d]", i), err.Error())
		}
	}
	return nil
}

func validateBootstrap(s *NodeSpec) error {
	b := s.Bootstrap
	if (b.IgnitionSHA256 == "") == (b.IgnitionFile == "") {
		return invalid("bootstrap", "exactly one of ignitionSHA256 and ignitionFile has to be set")
	}
	if b.IgnitionSHA256 != "" && !digest.MatchString(b.IgnitionSHA256) {
		return invalid("bootstrap.ignitionSHA256", "it is not 64 lower-case hexadecimal digits")
	}
	return nil
}

func validateFiles(s *NodeSpec) error {
	seen := map[string]bool{}
	for i, file := range s.Files {
		field := fmt.Sprintf("files[%d]", i)
		switch {
		case !fileName.MatchString(file.Name) || strings.HasSuffix(file.Name, "."):
			return invalid(field+".name", fmt.Sprintf("%q is not a plain file name", file.Name))
		case seen[strings.ToLower(file.Name)]:
			return invalid(field+".name", fmt.Sprintf("%q is there twice", file.Name))
		case !digest.MatchString(file.SHA256):
			return invalid(field+".sha256", "it is not 64 lower-case hexadecimal digits")
		case file.Size <= 0:
			return invalid(field+".size", fmt.Sprintf("%d bytes is not the size of a program", file.Size))
		}
		seen[strings.ToLower(file.Name)] = true
	}
	if !seen["kubelet.exe"] {
		return invalid("files", "kubelet.exe is missing")
	}
	return nil
}

func validateKubelet(s *NodeSpec) error {
	k := s.Kubelet
	if !version.MatchString(k.Version) {
		return invalid("kubelet.version", fmt.Sprintf("%q is not a version as v1.36.3", k.Version))
	}
	if k.Verbosity != nil && (*k.Verbosity < 0 || *k.Verbosity > 10) {
		return invalid("kubelet.verbosity", fmt.Sprintf("%d is not within 0 and 10", *k.Verbosity))
	}
	if k.HealthTimeoutSeconds < 0 || k.HealthTimeoutSeconds > 3600 {
		return invalid("kubelet.healthTimeoutSeconds", fmt.Sprintf("%d is not within 0 and 3600", k.HealthTimeoutSeconds))
	}
	for _, name := range sortedKeys(k.ExtraArgs) {
		field := "kubelet.extraArgs." + name
		if !flagName.MatchString(name) {
			return invalid(field, "it is not a flag's name, which is written without dashes in front")
		}
		if slices.Contains(ownFlags, name) {
			return invalid(field, "wmcb sets this flag itself")
		}
		if hasControl(k.ExtraArgs[name]) {
			return invalid(field, "its value holds control characters")
		}
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if _, found := k.Config[name]; found {
			return invalid("kubelet.config."+name, "it cannot be changed")
		}
	}
	return nil
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func validateRuntime(s *NodeSpec) error {
	if !serviceName.MatchString(s.Runtime.Service) {
		return invalid("runtime.service", fmt.Sprintf("%q is not a service's name", s.Runtime.Service))
	}
	if !strings.HasPrefix(s.Runtime.Endpoint, "npipe:") || strings.ContainsAny(s.Runtime.Endpoint, " \"\r\n") {
		return invalid("runtime.endpoint", fmt.Sprintf("%q is not a named pipe as %s", s.Runtime.Endpoint, DefaultRuntimeEndpoint))
	}
	return nil
}

func validateNetwork(s *NodeSpec) error {
	for i, cidr := range s.Network.ServiceCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return invalid(fmt.Sprintf("network.serviceCIDRs[%d]", i), fmt.Sprintf("%q is not a network as 172.30.0.0/16", cidr))
		}
	}
	for i, address := range s.Network.ClusterDNS {
		if _, err := netip.ParseAddr(address); err != nil {
			return invalid(fmt.Sprintf("network.clusterDNS[%d]", i), fmt.Sprintf("%q is not an IP address", address))
		}
	}
	if s.Network.ClusterDomain != "" && !dnsLabels(s.Network.ClusterDomain) {
		return invalid("network.clusterDomain", fmt.Sprintf("%q is not a domain", s.Network.ClusterDomain))
	}
	return nil
}

func validateProxy(s *NodeSpec) error {
	if s.Proxy == nil {
		return nil
	}
	for field, value := range map[string]string{"http": s.Proxy.HTTP, "https": s.Proxy.HTTPS, "noProxy": s.Proxy.NoProxy} {
		if hasControl(value) {
			return invalid("proxy."+field, "it holds control characters") // the value may hold a password
		}
	}
	return nil
}

func validatePaths(s *NodeSpec) error {
	for _, p := range []struct{ field, path string }{
		{"paths.install", s.Paths.Install}, {"paths.logs", s.Paths.Logs}, {"paths.kubeletData", s.Paths.KubeletData},
	} {
		if !windowsPath.MatchString(p.path) {
			return invalid(p.field, fmt.Sprintf(`%q is not a path as C:\k: drive letter, backslashes, no spaces`, p.path))
		}
	}
	if s.Bootstrap.IgnitionFile != "" && hasControl(s.Bootstrap.IgnitionFile) {
		return invalid("bootstrap.ignitionFile", "it holds control characters")
	}
	return nil
}
