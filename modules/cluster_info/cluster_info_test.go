package clusterinfo

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/testcluster"
)

type outcome struct {
	cluster.Facts
	Changed, Failed             bool
	Msg, Reason, Object, Remedy string
	Warnings                    []string
	raw                         string
}

func run(t *testing.T, arguments map[string]any) outcome {
	t.Helper()
	content, err := json.Marshal(arguments)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "arguments")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	var stdout, stderr bytes.Buffer
	ansible.Run(t.Context(), Module, []string{file}, &stdout, &stderr)
	result := outcome{raw: stdout.String()}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &result), stdout.String())
	return result
}

const good = `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, spec: {clusterID: id-1}, status: {desired: {version: 5.0.4}, history: [{state: Partial, version: 5.0.4}, {state: Completed, version: 5.0.3}]}}
---
{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster}, status: {apiServerInternalURI: "https://api-int.x:6443", platformStatus: {type: None}}}
---
{apiVersion: config.openshift.io/v1, kind: Network, metadata: {name: cluster}, status: {networkType: OVNKubernetes, serviceNetwork: [172.30.0.0/16], clusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}]}}
---
{apiVersion: config.openshift.io/v1, kind: Proxy, metadata: {name: cluster}, status: {httpProxy: "http://user:hunter2hunter2@proxy:3128", httpsProxy: "http://proxy:3128", noProxy: .cluster.local}}
---
{apiVersion: operator.openshift.io/v1, kind: Network, metadata: {name: cluster}, spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: {hybridClusterNetwork: [{cidr: 10.136.0.0/14, hostPrefix: 23}], hybridOverlayVXLANPort: 9898}}}}}
---
{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: worker}, spec: {configuration: {name: rendered-1}}, status: {configuration: {name: rendered-1}}}
---
{apiVersion: machineconfiguration.openshift.io/v1, kind: ControllerConfig, metadata: {name: machine-config-controller}, spec: {kubeAPIServerServingCAData: eA==, clusterDNSIP: 172.30.0.10}}
---
{apiVersion: v1, kind: Node, metadata: {name: w2, annotations: {wsu.windows/version: 0.1.0}}, status: {addresses: [{type: InternalIP, address: 10.0.0.2}], conditions: [{type: Ready, status: "True"}], nodeInfo: {systemUUID: UUID-2, machineID: w2, bootID: "", kernelVersion: "", osImage: "", containerRuntimeVersion: "", kubeletVersion: v1.36.3, kubeProxyVersion: "", operatingSystem: windows, architecture: amd64}}}
---
{apiVersion: v1, kind: Node, metadata: {name: w1, labels: {windowsmachineconfig.openshift.io/byoh: "true"}}}`

func TestAgainstARealAPIServer(t *testing.T) {
	c := testcluster.Start(t)
	arguments := map[string]any{"kubeconfig": c.Kubeconfig(t, testcluster.AdminToken)}

	t.Run("a cluster that is no OpenShift is refused", func(t *testing.T) {
		result := run(t, arguments)
		assert.Equal(t, "cluster_unsupported", result.Reason)
		assert.Contains(t, result.Msg, "openshift")
	})

	c.AddOpenShift(t)
	c.Apply(t, good)
	t.Run("reads everything, the same each time", func(t *testing.T) {
		result := run(t, arguments)
		require.False(t, result.Failed, result.Msg)
		assert.Equal(t, "openshift", result.Flavour)
		assert.Equal(t, "v1.36.3", result.KubernetesVersion)
		assert.Equal(t, "5.0.3", result.ClusterVersion, "the version that was completed")
		assert.Equal(t, "id-1", result.ClusterID)
		assert.Equal(t, cluster.HybridOverlay{Enabled: true, VXLANPort: 9898}, result.HybridOverlay)
		assert.Equal(t, []string{"172.30.0.10"}, result.ClusterDNS)
		assert.Equal(t, cluster.Proxy{HTTP: "http://proxy:3128", HTTPS: "http://proxy:3128", NoProxy: ".cluster.local", Credentials: true}, result.Proxy)
		assert.NotContains(t, result.raw, "hunter2hunter2")
		assert.NotEmpty(t, result.Warnings)
		assert.Equal(t, "UUID-2", result.Nodes["w2"].SystemUUID)
		assert.Equal(t, "0.1.0", result.Nodes["w2"].WSUVersion)
		assert.True(t, result.Nodes["w2"].Ready)
		assert.True(t, result.Nodes["w1"].WMCO)
		assert.False(t, result.Nodes["w2"].WMCO)
		assert.Empty(t, result.Problems)
		assert.NotEmpty(t, result.APITime)
		again := run(t, arguments)
		again.APITime, result.APITime, again.raw, result.raw = "", "", "", ""
		assert.Equal(t, result, again)
	})

	t.Run("the overlay that is off gets the command that enables it on a free network", func(t *testing.T) {
		patch(t, c, "/apis/operator.openshift.io/v1/networks/cluster", `{"spec": {"defaultNetwork": {"ovnKubernetesConfig": {"hybridOverlayConfig": null}}}}`)
		result := run(t, arguments)
		assert.Equal(t, "hybrid_overlay_missing", result.Reason)
		assert.Contains(t, result.Remedy, "oc patch networks.operator.openshift.io cluster --type=merge")
		assert.Contains(t, result.Remedy, "10.136.0.0/14", "10.132.0.0/14 is the cluster network")
		assert.False(t, result.HybridOverlay.Enabled)
		allowed := run(t, map[string]any{"kubeconfig": arguments["kubeconfig"], "allow_problems": true})
		assert.False(t, allowed.Failed)
		assert.Len(t, allowed.Problems, 1)
	})

	t.Run("all problems are named at once", func(t *testing.T) {
		patch(t, c, "/apis/config.openshift.io/v1/networks/cluster", `{"status": {"networkType": "OpenShiftSDN"}}`)
		patch(t, c, "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller", `{"spec": {"kubeAPIServerServingCAData": null}}`)
		patch(t, c, "/apis/machineconfiguration.openshift.io/v1/machineconfigpools/worker", `{"status": {"configuration": null}}`)
		result := run(t, arguments)
		assert.True(t, result.Failed)
		assert.Len(t, result.Problems, 3)
		for _, words := range []string{"OpenShiftSDN", "kubeAPIServerServingCAData", "no rendered configuration"} {
			assert.Contains(t, result.Msg, words)
		}
		other := run(t, map[string]any{"kubeconfig": arguments["kubeconfig"], "machine_config_pool": "windows"})
		assert.Contains(t, other.Msg, "machineconfigpool/windows: there is no such pool")
	})

	t.Run("missing rights are named", func(t *testing.T) {
		result := run(t, map[string]any{"kubeconfig": c.Kubeconfig(t, testcluster.NobodyToken), "flavour": "openshift"})
		assert.Equal(t, "api_forbidden", result.Reason)
		assert.Contains(t, result.Remedy, "the verb get on clusterversions.config.openshift.io version")
	})
}

func patch(t *testing.T, c *testcluster.Cluster, path, body string) {
	t.Helper()
	c.Request(t, testcluster.AdminToken, http.MethodPatch, path, "application/merge-patch+json", []byte(body))
}
