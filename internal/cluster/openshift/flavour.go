package openshift

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
)

// Flavour is OpenShift.
type Flavour struct{}

// defaultVXLANPort is OVN-Kubernetes' own, UDP.
const defaultVXLANPort = 4789

// Name is openshift.
func (Flavour) Name() string { return nodespec.FlavourOpenShift }

// Recognise looks for the API group and the ClusterVersion: some tools install the group's CRDs on other clusters.
func (Flavour) Recognise(ctx context.Context, c *cluster.Client) (bool, string, error) {
	if _, err := c.Read(ctx, pathGroup); cluster.IsNotFound(err) {
		return false, "", nil
	} else if err != nil {
		return false, "", err
	}
	if _, err := c.Read(ctx, pathClusterVersion); cluster.IsNotFound(err) {
		return false, "", nil
	} else if err != nil {
		return false, "", err
	}
	return true, "it has the API group config.openshift.io and a ClusterVersion", nil
}

// state is everything that is read, all at once.
type state struct {
	version    *clusterVersion
	infra      *infrastructure
	network    *network
	operator   *operatorNetwork
	proxy      *proxy
	pool       *pool
	controller *controllerConfig
}

// Read fills the facts and names the problems.
func (Flavour) Read(ctx context.Context, c *cluster.Client, poolName string, facts *cluster.Facts) error {
	s, err := readState(ctx, c, poolName)
	if err != nil {
		return err
	}
	s.describe(facts)
	facts.BootstrapUsers = []string{BootstrapUser}
	facts.Problems = append(facts.Problems, s.problems(poolName)...)
	return nil
}

func readState(ctx context.Context, c *cluster.Client, poolName string) (*state, error) {
	s := &state{}
	err := cluster.Parallel(ctx,
		func(ctx context.Context) (err error) {
			s.version, err = readOptional[clusterVersion](ctx, c, pathClusterVersion)
			return
		},
		func(ctx context.Context) (err error) {
			s.infra, err = readOptional[infrastructure](ctx, c, pathInfrastructure)
			return
		},
		func(ctx context.Context) (err error) {
			s.network, err = readOptional[network](ctx, c, pathNetwork)
			return
		},
		func(ctx context.Context) (err error) {
			s.operator, err = readOptional[operatorNetwork](ctx, c, pathOperatorNet)
			return
		},
		func(ctx context.Context) (err error) { s.proxy, err = readOptional[proxy](ctx, c, pathProxy); return },
		func(ctx context.Context) (err error) {
			s.pool, err = readOptional[pool](ctx, c, pathPool+url.PathEscape(poolName))
			return
		},
		func(ctx context.Context) (err error) {
			s.controller, err = readOptional[controllerConfig](ctx, c, pathController)
			return
		},
	)
	return s, err
}

func (s *state) describe(facts *cluster.Facts) {
	if s.version != nil {
		facts.ClusterID, facts.ClusterVersion = s.version.Spec.ClusterID, s.version.completed()
	}
	if s.infra != nil {
		facts.APIServerInternal = s.infra.Status.APIServerInternalURI
		facts.Platform = s.infra.Status.PlatformStatus.Type
		if facts.Platform == "" { // before 4.3 of the API
			facts.Platform = s.infra.Status.Platform
		}
	}
	network := s.networkFields()
	facts.NetworkType = network.NetworkType
	facts.ServiceCIDRs = append([]string{}, network.ServiceNetwork...)
	facts.ClusterDNS = s.clusterDNS(network)
	facts.ClusterDomain = "cluster.local" // OpenShift has no other
	if s.proxy != nil {
		facts.Proxy = cluster.NewProxy(s.proxy.Status.HTTPProxy, s.proxy.Status.HTTPSProxy, s.proxy.Status.NoProxy)
	}
	if s.operator != nil && s.operator.Spec.DefaultNetwork.OVN.HybridOverlay != nil {
		overlay := s.operator.Spec.DefaultNetwork.OVN.HybridOverlay
		facts.HybridOverlay = cluster.HybridOverlay{Enabled: len(overlay.HybridClusterNetwork) > 0, VXLANPort: defaultVXLANPort}
		if overlay.VXLANPort != nil && *overlay.VXLANPort > 0 {
			facts.HybridOverlay.VXLANPort = *overlay.VXLANPort
		}
	}
}

// completed is the version that the cluster runs: during an upgrade the last one that was finished.
func (v *clusterVersion) completed() string {
	for _, entry := range v.Status.History {
		if entry.State == "Completed" {
			return entry.Version
		}
	}
	return v.Status.Desired.Version
}

// networkFields prefers the status, which is what is in effect.
func (s *state) networkFields() networkFields {
	if s.network == nil {
		return networkFields{}
	}
	fields := s.network.Status
	if fields.NetworkType == "" {
		fields.NetworkType = s.network.Spec.NetworkType
	}
	if len(fields.ServiceNetwork) == 0 {
		fields.ServiceNetwork = s.network.Spec.ServiceNetwork
	}
	if len(fields.ClusterNetwork) == 0 {
		fields.ClusterNetwork = s.network.Spec.ClusterNetwork
	}
	return fields
}

// clusterDNS is what the Machine Config Operator puts into the kubelets' configuration: the tenth address of the first service
// network.
func (s *state) clusterDNS(fields networkFields) []string {
	if s.controller != nil && s.controller.Spec.ClusterDNSIP != "" {
		return []string{s.controller.Spec.ClusterDNSIP}
	}
	if len(fields.ServiceNetwork) == 0 {
		return []string{}
	}
	prefix, err := netip.ParsePrefix(fields.ServiceNetwork[0])
	if err != nil {
		return []string{}
	}
	address := prefix.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	return []string{address.String()}
}

// problems names everything that keeps Windows nodes from working, not only the first.
func (s *state) problems(poolName string) []cluster.Problem {
	var problems []cluster.Problem
	add := func(code reason.Code, object, problem, remedy string) {
		problems = append(problems, cluster.Problem{Code: code, Object: object, Problem: problem, Remedy: remedy})
	}
	network := s.networkFields()
	switch {
	case network.NetworkType != "OVNKubernetes":
		add(reason.ClusterUnsupported, "network.config.openshift.io/cluster", fmt.Sprintf("the network type is %q; Windows nodes need OVNKubernetes", network.NetworkType),
			"Migrate the cluster to OVN-Kubernetes (OpenShift's documentation: Migrating to the OVN-Kubernetes network plugin).")
	case s.operator == nil || s.operator.Spec.DefaultNetwork.OVN.HybridOverlay == nil || len(s.operator.Spec.DefaultNetwork.OVN.HybridOverlay.HybridClusterNetwork) == 0:
		add(reason.HybridOverlayMissing, "network.operator.openshift.io/cluster", "the hybrid overlay network for Windows nodes is not enabled", "Run: "+overlayPatch(network))
	}
	if s.infra == nil || s.infra.Status.APIServerInternalURI == "" {
		add(reason.ClusterUnsupported, "infrastructure.config.openshift.io/cluster", "status.apiServerInternalURI is empty, so that nodes have no API server to talk to", "Repair the Infrastructure object.")
	}
	object := "machineconfigpool/" + poolName
	switch {
	case s.pool == nil:
		add(reason.IgnitionUnavailable, object, "there is no such pool", "Set wsu_machine_config_pool to a pool of workers (oc get machineconfigpools).")
	case s.pool.configurationName() == "":
		add(reason.IgnitionUnavailable, object, "it has no rendered configuration yet", "Wait until the Machine Config Operator has rendered it (oc get machineconfigpools).")
	}
	if s.controller == nil || len(s.controller.Spec.KubeletCA) == 0 {
		add(reason.IgnitionUnavailable, "controllerconfig/machine-config-controller", "spec.kubeAPIServerServingCAData is empty, so that kubelets could not tell the API server from a stranger", "Check the Machine Config Operator (oc get clusteroperator machine-config).")
	}
	return problems
}

// overlayPatch is a command that enables the hybrid overlay on a network that is free.
func overlayPatch(network networkFields) string {
	return `oc patch networks.operator.openshift.io cluster --type=merge -p '{"spec":{"defaultNetwork":{"ovnKubernetesConfig":{"hybridOverlayConfig":` +
		`{"hybridClusterNetwork":[{"cidr":"` + freeNetwork(network) + `","hostPrefix":23}]}}}}}'`
}

// freeNetwork gives OpenShift's usual network for the overlay, or the next /14 of 10.0.0.0/8 that does not overlap.
func freeNetwork(network networkFields) string {
	var taken []netip.Prefix
	for _, text := range network.ServiceNetwork {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			taken = append(taken, prefix)
		}
	}
	for _, entry := range network.ClusterNetwork {
		if prefix, err := netip.ParsePrefix(entry.CIDR); err == nil {
			taken = append(taken, prefix)
		}
	}
	for second := 132; second < 256; second += 4 {
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second), 0, 0}), 14)
		free := true
		for _, prefix := range taken {
			free = free && !prefix.Overlaps(candidate)
		}
		if free {
			return candidate.String()
		}
	}
	return "10.132.0.0/14"
}
