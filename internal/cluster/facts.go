package cluster

import (
	"context"
	"net/url"
	"strings"

	"wsu.windows/internal/reason"
)

// Facts are what WSU needs to know of a cluster before it touches a host. The field names are those of the module's result.
type Facts struct {
	Flavour           string               `json:"flavour"`
	FlavourWhy        string               `json:"flavour_why"`
	APIServer         string               `json:"api_server"`
	APIServerInternal string               `json:"api_server_internal"`
	APITime           string               `json:"api_time"`
	KubernetesVersion string               `json:"kubernetes_version"`
	ClusterVersion    string               `json:"cluster_version"`
	ClusterID         string               `json:"cluster_id"`
	NetworkType       string               `json:"network_type"`
	HybridOverlay     HybridOverlay        `json:"hybrid_overlay"`
	ServiceCIDRs      []string             `json:"service_cidrs"`
	ClusterDNS        []string             `json:"cluster_dns"`
	ClusterDomain     string               `json:"cluster_domain"`
	Platform          string               `json:"platform"`
	Proxy             Proxy                `json:"proxy"`
	MachineConfigPool string               `json:"machine_config_pool"`
	BootstrapUsers    []string             `json:"bootstrap_users"`
	Nodes             map[string]NodeFacts `json:"nodes"`
	Problems          []Problem            `json:"problems"`
}

// HybridOverlay is OVN-Kubernetes' network towards Windows nodes.
type HybridOverlay struct {
	Enabled bool `json:"enabled"`
	// VXLANPort is UDP; 0 where the overlay is off.
	VXLANPort int `json:"vxlan_port"`
}

// Proxy is the cluster-wide egress proxy.
type Proxy struct {
	HTTP    string `json:"http"`
	HTTPS   string `json:"https"`
	NoProxy string `json:"no_proxy"`
	// Credentials is true where the cluster's own proxy addresses hold a user or password, which are left out here: results
	// are shown and kept.
	Credentials bool `json:"credentials"`
}

// NewProxy takes the addresses without their credentials.
func NewProxy(httpProxy, httpsProxy, noProxy string) Proxy {
	p := Proxy{NoProxy: noProxy}
	var a, b bool
	p.HTTP, a = withoutCredentials(httpProxy)
	p.HTTPS, b = withoutCredentials(httpsProxy)
	p.Credentials = a || b
	return p
}

func withoutCredentials(address string) (clean string, had bool) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", strings.Contains(address, "@")
	}
	had = parsed.User != nil
	parsed.User = nil
	return parsed.String(), had
}

// NodeFacts are what tells a node's machine apart from another.
type NodeFacts struct {
	UID           string   `json:"uid"`
	OS            string   `json:"os"`
	SystemUUID    string   `json:"system_uuid"`
	MachineID     string   `json:"machine_id"`
	Addresses     []string `json:"addresses"`
	Ready         bool     `json:"ready"`
	Unschedulable bool     `json:"unschedulable"`
	// Version is the kubelet's.
	Version string `json:"version"`
	// WSUVersion is the release that WSU wrote down, or empty.
	WSUVersion string `json:"wsu_version"`
	// WMCO is true where the Windows Machine Config Operator manages the node.
	WMCO bool `json:"wmco"`
}

// Problem is something that keeps Windows nodes from working, and what to do.
type Problem struct {
	Code    reason.Code `json:"code"`
	Object  string      `json:"object"`
	Problem string      `json:"problem"`
	Remedy  string      `json:"remedy"`
}

// Flavour is a kind of cluster. Nothing above the flavours' own packages knows what tells them apart.
type Flavour interface {
	// Name is openshift or kubernetes.
	Name() string
	// Recognise says whether the cluster is of this flavour, and by what.
	Recognise(ctx context.Context, c *Client) (yes bool, why string, err error)
	// Read fills what only the flavour knows of the facts, problems included; pool is the MachineConfigPool.
	Read(ctx context.Context, c *Client, pool string, facts *Facts) error
}
