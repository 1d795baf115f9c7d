package kubeletconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"wsu.windows/internal/ignition"
	"wsu.windows/internal/nodespec"
)

func sharedData(t *testing.T) string {
	folder := os.Getenv("WSU_SHARED_DATA")
	if folder == "" {
		folder = "../../../shared/data"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("SKIPPED: no real inputs: %v (set WSU_SHARED_DATA)", err)
	}
	return folder
}

func input(version string, linux []byte) Input {
	return Input{
		Version: version, Linux: linux, ClientCAFile: `C:\k\kubelet-ca.crt`, Endpoint: nodespec.DefaultRuntimeEndpoint,
		Network: nodespec.Network{ServiceCIDRs: []string{"172.30.0.0/16"}}, Taints: []string{nodespec.DefaultTaint},
	}
}

// strict decodes as the kubelet does: unknown and repeated fields are errors.
func strict(t *testing.T, raw []byte) kubelet.KubeletConfiguration {
	t.Helper()
	var config kubelet.KubeletConfiguration
	require.NoError(t, yaml.UnmarshalStrict(raw, &config), "%s", raw)
	return config
}

func ignitions(t *testing.T) map[string]*ignition.Worker {
	paths, err := filepath.Glob(filepath.Join(sharedData(t), "ignition/*/worker.served.*.ign"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	workers := map[string]*ignition.Worker{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		worker, err := ignition.Parse(raw)
		require.NoError(t, err, path)
		workers[filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)] = worker
	}
	return workers
}

func TestEveryRealIgnitionGivesAConfigurationThatTheKubeletTakes(t *testing.T) {
	for name, worker := range ignitions(t) {
		t.Run(name, func(t *testing.T) {
			for _, version := range []string{"v1.33.1", "v1.34.0", "v1.35.2", "v1.36.3"} {
				raw, err := Config(input(version, worker.KubeletConfig))
				require.NoError(t, err)
				config := strict(t, raw)
				require.Equal(t, []string{"172.30.0.10"}, config.ClusterDNS)
				require.NotContains(t, string(raw), "/etc/", "a Linux path")
				require.NotContains(t, string(raw), "slice", "a cgroup")
				require.NotContains(t, string(raw), "memorySwap")
			}
		})
	}
}

func TestTheConfigurationHasAllThatTheOperatorGivesItsNodes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(sharedData(t), "openshift/kubelet.conf.172.30.0.0_16.json"))
	require.NoError(t, err)
	var operator map[string]any
	require.NoError(t, json.Unmarshal(raw, &operator))
	for name, worker := range ignitions(t) {
		if !strings.HasPrefix(name, "release-5.0-none/") {
			continue
		}
		made, err := Config(input("v1.35.0", worker.KubeletConfig))
		require.NoError(t, err)
		var ours map[string]any
		require.NoError(t, yaml.Unmarshal(made, &ours))
		requireCovers(t, "", operator, ours)
		added := sets.KeySet(ours).Difference(sets.KeySet(operator))
		require.ElementsMatch(t, []string{"tlsCipherSuites", "tlsMinVersion"}, added.UnsortedList(), "what comes from the cluster besides")
	}
}

// requireCovers wants every value of want in have, but for the zeros that Go writes out and what the cluster's own choice replaces.
func requireCovers(t *testing.T, path string, want, have map[string]any) {
	t.Helper()
	fromCluster := sets.New("nodeStatusUpdateFrequency", "nodeStatusReportFrequency")
	for name, value := range want {
		field := path + "." + name
		if fromCluster.Has(name) || name == "logging" {
			continue
		}
		if object, ok := value.(map[string]any); ok {
			below, _ := have[name].(map[string]any)
			requireCovers(t, field, object, below)
			continue
		}
		if isZero(value) && name != "resolvConf" {
			continue
		}
		require.Equal(t, value, have[name], field)
	}
}

func TestTheClustersChoicesAreTakenAndLinuxsAreNot(t *testing.T) {
	raw, err := Config(input("v1.36.3", []byte(`
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
maxPods: 500
cgroupRoot: /
featureGates: {OpenShiftOnlyGate: true}
systemReserved: {cpu: "4"}
imageMinimumGCAge: 0s
staticPodPath: /etc/kubernetes/manifests
`)))
	require.NoError(t, err)
	config := strict(t, raw)
	require.EqualValues(t, 500, config.MaxPods)
	require.Empty(t, config.CgroupRoot)
	require.Empty(t, config.StaticPodPath)
	require.NotContains(t, config.FeatureGates, "OpenShiftOnlyGate")
	require.Equal(t, "500m", config.SystemReserved["cpu"])
	require.NotContains(t, string(raw), "imageMinimumGCAge")
}

func TestOverrideIsMergedOverAndNullRemoves(t *testing.T) {
	in := input("v1.36.3", nil)
	in.Override = map[string]any{
		"maxPods": 10, "evictionHard": map[string]any{"memory.available": "500Mi"}, "systemReserved": nil,
		"clusterDNS": []any{"10.0.0.10"},
	}
	raw, err := Config(in)
	require.NoError(t, err)
	config := strict(t, raw)
	require.EqualValues(t, 10, config.MaxPods)
	require.Equal(t, map[string]string{"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%"}, config.EvictionHard)
	require.Empty(t, config.SystemReserved)
	require.Equal(t, []string{"10.0.0.10"}, config.ClusterDNS)
	again, err := Config(in)
	require.NoError(t, err)
	require.Equal(t, string(raw), string(again))
}

func TestFieldsAndGatesFollowTheVersion(t *testing.T) {
	for version, c := range map[string]struct {
		endpoint bool
		gates    []string
	}{
		"v1.26.0": {false, []string{"RotateKubeletServerCertificate"}},
		"v1.35.0": {true, []string{"NodeLogQuery", "RotateKubeletServerCertificate"}},
		"v1.36.3": {true, []string{"RotateKubeletServerCertificate"}},
		"v1.40.0": {true, []string{}},
	} {
		raw, err := Config(input(version, nil))
		require.NoError(t, err)
		require.Equal(t, c.endpoint, strings.Contains(string(raw), "containerRuntimeEndpoint"), version)
		config := strict(t, raw)
		require.ElementsMatch(t, c.gates, sets.KeySet(config.FeatureGates).UnsortedList(), version)
	}
	_, err := Config(input("v1.23.0", nil))
	require.ErrorContains(t, err, "too old")
}

func TestAServiceNetworkOfIPv6HasATenthAddressAndATinyOneHasNone(t *testing.T) {
	address, err := tenth("fd02::/112")
	require.NoError(t, err)
	require.Equal(t, "fd02::a", address)
	_, err = tenth("172.30.0.0/30")
	require.ErrorContains(t, err, "no tenth address")
}

func command(version string) Command {
	return Command{
		Spec: &nodespec.NodeSpec{
			Flavour: nodespec.FlavourOpenShift, Kubelet: nodespec.Kubelet{Version: version},
			Node:    nodespec.Node{Name: "win1", Labels: map[string]string{"pool": "windows"}},
			Runtime: nodespec.Runtime{Endpoint: nodespec.DefaultRuntimeEndpoint},
		},
		LinuxFlags: map[string]string{"cloud-provider": "external", "v": "3", "node-labels": "node-role.kubernetes.io/worker"},
		NodeIP:     "10.0.0.5", Program: `C:\k\releases\1\kubelet.exe`, Config: `C:\k\releases\1\kubelet.conf`, CloudConfig: `C:\k\releases\1\cloud.conf`,
	}
}

func TestTheCommandLineFollowsTheVersion(t *testing.T) {
	args, err := Args(command("v1.36.3"))
	require.NoError(t, err)
	require.Equal(t, `C:\k\releases\1\kubelet.exe`, args[0])
	for _, want := range []string{"--v=3", "--node-ip=10.0.0.5", "--cloud-provider=external",
		"--node-labels=node.openshift.io/os_id=Windows,pool=windows", "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS"} {
		require.Contains(t, args, want)
	}
	require.NotContains(t, strings.Join(args, " "), "cloud-config")
	require.NotContains(t, strings.Join(args, " "), "container-runtime")
	require.NotContains(t, strings.Join(args, " "), "hostname-override")

	old, err := Args(command("v1.26.1"))
	require.NoError(t, err)
	require.Contains(t, old, `--cloud-config=C:\k\releases\1\cloud.conf`)
	require.Contains(t, old, "--container-runtime=remote")
	require.Contains(t, old, "--container-runtime-endpoint="+nodespec.DefaultRuntimeEndpoint)
}

func TestAnExtraArgumentWinsAndAnUnknownOneIsNamed(t *testing.T) {
	c := command("v1.36.3")
	c.Spec.Kubelet.ExtraArgs = map[string]string{"v": "6", "node-ip": "10.0.0.9"}
	args, err := Args(c)
	require.NoError(t, err)
	require.Contains(t, args, "--v=6")
	require.NotContains(t, args, "--v=3")
	c.Spec.Kubelet.ExtraArgs = map[string]string{"pod-infra-container-image": "x"}
	_, err = Args(c)
	require.ErrorContains(t, err, "kubelet.extraArgs.pod-infra-container-image")
}

func TestTheLogRunnerRotatesWhereItCan(t *testing.T) {
	args, err := LogRunner("r.exe", "v1.36.3", `C:\var\log\kubelet\kubelet.log`, []string{"kubelet.exe", "--v=2"})
	require.NoError(t, err)
	require.Equal(t, []string{"r.exe", `-log-file=C:\var\log\kubelet\kubelet.log`, "-log-file-size=100Mi", "-log-file-age=168h", "-flush-interval=5s", "kubelet.exe", "--v=2"}, args)
	args, err = LogRunner("r.exe", "v1.32.0", "x.log", []string{"kubelet.exe"})
	require.NoError(t, err)
	require.Equal(t, []string{"r.exe", "-log-file=x.log", "kubelet.exe"}, args)
}
