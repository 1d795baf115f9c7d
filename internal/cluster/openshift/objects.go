// Package openshift reads an OpenShift cluster: its facts, what is missing for Windows nodes, and the worker Ignition.
package openshift

import (
	"context"
	"encoding/json"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
)

// Paths of the objects that are read. Each is one rule of least privilege.
const (
	pathGroup          = "/apis/config.openshift.io"
	pathClusterVersion = "/apis/config.openshift.io/v1/clusterversions/version"
	pathInfrastructure = "/apis/config.openshift.io/v1/infrastructures/cluster"
	pathNetwork        = "/apis/config.openshift.io/v1/networks/cluster"
	pathProxy          = "/apis/config.openshift.io/v1/proxies/cluster"
	pathOperatorNet    = "/apis/operator.openshift.io/v1/networks/cluster"
	pathMachineConfig  = "/apis/machineconfiguration.openshift.io/v1/machineconfigs/"
	pathPool           = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools/"
	pathController     = "/apis/machineconfiguration.openshift.io/v1/controllerconfigs/machine-config-controller"
	pathBootstrapToken = "/api/v1/namespaces/openshift-machine-config-operator/secrets/node-bootstrapper-token"
	pathUserData       = "/api/v1/namespaces/openshift-machine-api/secrets/worker-user-data"
	pathServerCA       = "/api/v1/namespaces/openshift-machine-config-operator/configmaps/machine-config-server-ca"
	pathRootCA         = "/api/v1/namespaces/kube-system/configmaps/root-ca"
)

// BootstrapUser is the account whose token a joining machine has.
const BootstrapUser = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"

// The parts of OpenShift's types (github.com/openshift/api) that are used.
type (
	clusterVersion struct {
		Spec struct {
			ClusterID string `json:"clusterID"`
		} `json:"spec"`
		Status struct {
			Desired struct {
				Version string `json:"version"`
			} `json:"desired"`
			// History begins with the newest.
			History []struct {
				State   string `json:"state"`
				Version string `json:"version"`
			} `json:"history"`
		} `json:"status"`
	}
	infrastructure struct {
		Status struct {
			APIServerInternalURI string `json:"apiServerInternalURI"`
			APIServerURL         string `json:"apiServerURL"`
			PlatformStatus       struct {
				Type string `json:"type"`
			} `json:"platformStatus"`
			Platform string `json:"platform"`
		} `json:"status"`
	}
	networkFields struct {
		NetworkType    string           `json:"networkType"`
		ServiceNetwork []string         `json:"serviceNetwork"`
		ClusterNetwork []clusterNetwork `json:"clusterNetwork"`
	}
	clusterNetwork struct {
		CIDR       string `json:"cidr"`
		HostPrefix int    `json:"hostPrefix"`
	}
	network struct {
		Spec   networkFields `json:"spec"`
		Status networkFields `json:"status"`
	}
	proxyFields struct {
		HTTPProxy  string `json:"httpProxy"`
		HTTPSProxy string `json:"httpsProxy"`
		NoProxy    string `json:"noProxy"`
	}
	proxy struct {
		Status proxyFields `json:"status"`
	}
	operatorNetwork struct {
		Spec struct {
			DefaultNetwork struct {
				OVN struct {
					HybridOverlay *struct {
						HybridClusterNetwork []clusterNetwork `json:"hybridClusterNetwork"`
						VXLANPort            *int             `json:"hybridOverlayVXLANPort"`
					} `json:"hybridOverlayConfig"`
				} `json:"ovnKubernetesConfig"`
			} `json:"defaultNetwork"`
		} `json:"spec"`
	}
	poolConfiguration struct {
		Configuration struct {
			Name string `json:"name"`
		} `json:"configuration"`
		UpdatedMachineCount int `json:"updatedMachineCount"`
	}
	pool struct {
		Spec   poolConfiguration `json:"spec"`
		Status poolConfiguration `json:"status"`
	}
	machineConfig struct {
		Spec struct {
			Config json.RawMessage `json:"config"`
		} `json:"spec"`
	}
	controllerConfig struct {
		Spec struct {
			// KubeletCA is who may sign the certificates of the kubelet's clients (PEM), in spite of its name.
			KubeletCA    []byte `json:"kubeAPIServerServingCAData"`
			ClusterDNSIP string `json:"clusterDNSIP"`
		} `json:"spec"`
	}
	secret struct {
		Data map[string][]byte `json:"data"`
	}
	configMap struct {
		Data map[string]string `json:"data"`
	}
)

func read[T any](ctx context.Context, c *cluster.Client, path string) (*T, error) {
	content, err := c.Read(ctx, path)
	if err != nil {
		return nil, err
	}
	object := new(T)
	if err := json.Unmarshal(content, object); err != nil {
		// the decoder's words may quote a secret's content
		return nil, reason.New(reason.ClusterUnsupported, path, "it is not shaped as OpenShift's own objects are", "Use a cluster of OpenShift 4.8 or later.")
	}
	return object, nil
}

// readOptional gives nil where there is no such object.
func readOptional[T any](ctx context.Context, c *cluster.Client, path string) (*T, error) {
	object, err := read[T](ctx, c, path)
	if cluster.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// configurationName follows the Machine Config Server's rule: the new configuration once one machine has it, the one before
// until then.
func (p *pool) configurationName() string {
	if p.Status.UpdatedMachineCount > 0 {
		return p.Spec.Configuration.Name
	}
	return p.Status.Configuration.Name
}
