package openshift

import (
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func testCluster() Cluster {
	return Cluster{
		Domain: "sandbox.test", API: "api.sandbox.test", APIInt: "api-int.sandbox.test", ServiceNetwork: "172.30.0.0/16",
		MachineConfigURL: "https://10.99.0.1:22623", KubeletClientCAs: []byte("kubelet CAs\n"), RootCA: []byte("root CA\n"), MachineConfigCA: []byte("MCS CA\n"),
	}
}

func TestTheObjectsFitOpenShiftsOwnTypes(t *testing.T) {
	types := map[string]func() any{
		"config.openshift.io/v1 ClusterVersion":                  func() any { return &configv1.ClusterVersion{} },
		"config.openshift.io/v1 ClusterOperator":                 func() any { return &configv1.ClusterOperator{} },
		"config.openshift.io/v1 Infrastructure":                  func() any { return &configv1.Infrastructure{} },
		"config.openshift.io/v1 DNS":                             func() any { return &configv1.DNS{} },
		"config.openshift.io/v1 Network":                         func() any { return &configv1.Network{} },
		"config.openshift.io/v1 Proxy":                           func() any { return &configv1.Proxy{} },
		"config.openshift.io/v1 FeatureGate":                     func() any { return &configv1.FeatureGate{} },
		"operator.openshift.io/v1 Network":                       func() any { return &operatorv1.Network{} },
		"machineconfiguration.openshift.io/v1 ControllerConfig":  func() any { return &mcfgv1.ControllerConfig{} },
		"machineconfiguration.openshift.io/v1 MachineConfig":     func() any { return &mcfgv1.MachineConfig{} },
		"machineconfiguration.openshift.io/v1 MachineConfigPool": func() any { return &mcfgv1.MachineConfigPool{} },
	}
	objects, err := testCluster().Objects(time.Now())
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, one := range objects {
		kind := one["apiVersion"].(string) + " " + one["kind"].(string)
		make, known := types[kind]
		if !known {
			continue
		}
		seen[kind] = true
		text, err := yaml.Marshal(one)
		require.NoError(t, err)
		assert.NoError(t, yaml.UnmarshalStrict(text, make()), kind)
	}
	assert.Len(t, seen, len(types), "a kind has no object")
}

func TestThePoolsCurrentConfigurationIsNotTheNewestOne(t *testing.T) {
	objects, err := testCluster().Objects(time.Now())
	require.NoError(t, err)
	var configs []string
	var current string
	for _, one := range objects {
		metadata := one["metadata"].(map[string]any)
		switch one["kind"] {
		case "MachineConfig":
			configs = append(configs, metadata["name"].(string))
		case "MachineConfigPool":
			current = one["spec"].(map[string]any)["configuration"].(map[string]any)["name"].(string)
		}
	}
	require.Len(t, configs, 2)
	assert.Equal(t, current, configs[0])
	assert.NotEqual(t, current, configs[1])
}
