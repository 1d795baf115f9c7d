// Package nodespec is the contract between WSU and WMCB: what a node shall be. WSU renders a NodeSpec, wmcb obeys it.
package nodespec

// APIVersion and Kind stand at the top of every NodeSpec document.
const (
	APIVersion = "wsu.windows/v1"
	Kind       = "NodeSpec"
)

// Flavours of cluster.
const (
	FlavourOpenShift  = "openshift"
	FlavourKubernetes = "kubernetes"
)

// NodeSpec is the whole of what a Windows machine shall be as a node. Decoding is strict: see Decode.
type NodeSpec struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Release is the version of the release that this specification belongs to, as in release.yml.
	Release string `json:"release"`
	// Flavour is openshift or kubernetes.
	Flavour   string    `json:"flavour"`
	Node      Node      `json:"node"`
	Cluster   Cluster   `json:"cluster"`
	Bootstrap Bootstrap `json:"bootstrap"`
	Kubelet   Kubelet   `json:"kubelet"`
	// Files are the release's files that the node needs; their content is in the store before apply begins.
	Files   []File  `json:"files"`
	Runtime Runtime `json:"runtime"`
	Network Network `json:"network"`
	Proxy   *Proxy  `json:"proxy,omitempty"`
	Paths   Paths   `json:"paths"`
	// KeepReleases is how many releases' files stay besides the current one's; 0: 1, which is what one roll-back needs. It is not filled
	// in: a state that says it cannot be read by releases that do not know it.
	KeepReleases int `json:"keepReleases,omitempty"`
}

// Keep is KeepReleases with its default.
func (s *NodeSpec) Keep() int { return max(s.KeepReleases, 1) }

// Node is the machine's identity in the cluster.
type Node struct {
	// Name is the Node's name: RFC 1123, lower case, at most 63 characters.
	Name string `json:"name"`
	// Addresses are the node's IP addresses; the first is the kubelet's --node-ip. Empty: wmcb takes the address of the
	// interface that has the default route.
	Addresses []string `json:"addresses,omitempty"`
	// HostnameOverride is passed to the kubelet where the Node's name is not the machine's host name.
	HostnameOverride bool `json:"hostnameOverride,omitempty"`
	// Labels and Taints are those that the kubelet registers the Node with. Taints are KEY=VALUE:EFFECT; absent means
	// os=Windows:NoSchedule, an empty list none.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []string          `json:"taints"`
}

// Cluster identifies the cluster, so that a machine that belongs to another one is noticed.
type Cluster struct {
	// ID is the cluster's own identifier (OpenShift: ClusterVersion's clusterID), or the API server CA's digest.
	ID string `json:"id,omitempty"`
	// KubernetesVersion is the API server's, as v1.36.3.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// Bootstrap says where the material for joining is.
type Bootstrap struct {
	// IgnitionSHA256 names the worker Ignition's content in the store. Exactly one of this and IgnitionFile is set.
	IgnitionSHA256 string `json:"ignitionSHA256,omitempty"`
	// IgnitionFile is a path on the node (initialize-kubelet).
	IgnitionFile string `json:"ignitionFile,omitempty"`
}

// File is one file of the release on the node.
type File struct {
	// Name is the file's name in the release folder, for example kubelet.exe.
	Name string `json:"name"`
	// SHA256 is the content's digest, 64 lower-case hexadecimal digits, which is also its name in the store.
	SHA256 string `json:"sha256"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Version is the component's own, for example v1.36.3.
	Version string `json:"version,omitempty"`
}

// Kubelet says how the kubelet runs.
type Kubelet struct {
	// Version decides which flags and fields the kubelet knows, as v1.36.3.
	Version string `json:"version"`
	// Verbosity is the kubelet's --v; nil: the Ignition's, else 2.
	Verbosity *int `json:"verbosity,omitempty"`
	// ExtraArgs are added to the command line, flag name without dashes to value; they win over computed ones.
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`
	// Config is merged over the computed KubeletConfiguration (v1beta1 field names).
	Config map[string]any `json:"config,omitempty"`
	// HealthTimeoutSeconds bounds the proof that the kubelet is healthy and that the API server hears of it; 0: 60.
	HealthTimeoutSeconds int `json:"healthTimeoutSeconds,omitempty"`
}

// Runtime is the container runtime that is there already.
type Runtime struct {
	// Service is the Windows service that the kubelet depends on; empty: containerd.
	Service string `json:"service,omitempty"`
	// Endpoint is the CRI endpoint; empty: npipe://./pipe/containerd-containerd.
	Endpoint string `json:"endpoint,omitempty"`
}

// Network is what the node must know of the cluster's network.
type Network struct {
	// ServiceCIDRs are the cluster's service networks.
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// ClusterDNS are the addresses of the cluster's DNS service.
	ClusterDNS []string `json:"clusterDNS,omitempty"`
	// ClusterDomain is usually cluster.local.
	ClusterDomain string `json:"clusterDomain,omitempty"`
}

// Proxy is the cluster-wide egress proxy; it becomes the services' environment.
type Proxy struct {
	HTTP    string `json:"http,omitempty"`
	HTTPS   string `json:"https,omitempty"`
	NoProxy string `json:"noProxy,omitempty"`
}

// Paths are where things lie on the node. Default fills the empty ones. Drive letter, no spaces.
type Paths struct {
	// Install holds wmcb.exe, kubeconfigs, the store, releases and state.json; C:\k.
	Install string `json:"install,omitempty"`
	// Logs holds a folder per service; C:\var\log.
	Logs string `json:"logs,omitempty"`
	// KubeletData is the kubelet's root directory; C:\var\lib\kubelet.
	KubeletData string `json:"kubeletData,omitempty"`
}
