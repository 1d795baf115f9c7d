package openshift

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/reason"
)

// Ignition is a worker Ignition and where it came from.
type Ignition struct {
	Raw []byte
	// MachineConfig is the rendered MachineConfig's name; empty from a server, which does not tell.
	MachineConfig string
	// Token is the bootstrap token in it, a secret.
	Token string
}

// FromAPI reads the pool's current rendered MachineConfig and completes it to what the Machine Config Server would serve.
func FromAPI(ctx context.Context, c *cluster.Client, poolName string) (*Ignition, error) {
	var bootstrap *secret
	var infra *infrastructure
	var controller *controllerConfig
	var config *machineConfig
	var name string
	err := cluster.Parallel(ctx,
		func(ctx context.Context) (err error) {
			name, config, err = currentConfig(ctx, c, poolName)
			return err
		},
		func(ctx context.Context) (err error) {
			controller, err = read[controllerConfig](ctx, c, pathController)
			return
		},
		func(ctx context.Context) (err error) {
			infra, err = read[infrastructure](ctx, c, pathInfrastructure)
			return
		},
		func(ctx context.Context) (err error) {
			bootstrap, err = read[secret](ctx, c, pathBootstrapToken)
			return
		},
	)
	if err != nil {
		return nil, unavailable(err)
	}
	kubeconfig, err := bootstrapKubeconfig(bootstrap, infra)
	if err != nil {
		return nil, err
	}
	kubeletCA := controller.Spec.KubeletCA
	if len(kubeletCA) == 0 {
		kubeletCA = nil // before 4.14 the MachineConfig holds it
	}
	raw, err := ignition.Complete(config.Spec.Config, kubeconfig, kubeletCA)
	if err != nil {
		return nil, fmt.Errorf("machineconfig %s: %w", name, err)
	}
	return &Ignition{Raw: raw, MachineConfig: name, Token: string(bootstrap.Data["token"])}, nil
}

func currentConfig(ctx context.Context, c *cluster.Client, poolName string) (string, *machineConfig, error) {
	p, err := read[pool](ctx, c, pathPool+url.PathEscape(poolName))
	if err != nil {
		return "", nil, err
	}
	name := p.configurationName()
	if name == "" {
		return "", nil, reason.New(reason.IgnitionUnavailable, "machineconfigpool/"+poolName, "it has no rendered configuration yet", "Wait until the Machine Config Operator has rendered it.")
	}
	config, err := read[machineConfig](ctx, c, pathMachineConfig+url.PathEscape(name))
	if err != nil {
		return "", nil, err
	}
	if len(bytes.TrimSpace(config.Spec.Config)) == 0 {
		return "", nil, reason.New(reason.IgnitionInvalid, "machineconfig/"+name, "spec.config is empty", "")
	}
	return name, config, nil
}

// bootstrapKubeconfig is what the Machine Config Server appends, with the same names in it.
func bootstrapKubeconfig(bootstrap *secret, infra *infrastructure) ([]byte, error) {
	for _, key := range []string{"token", "ca.crt"} {
		if len(bootstrap.Data[key]) == 0 {
			return nil, reason.New(reason.IgnitionUnavailable, "secret openshift-machine-config-operator/node-bootstrapper-token", "it has no "+key,
				"Check the service account node-bootstrapper and its token secret.")
		}
	}
	if infra.Status.APIServerInternalURI == "" {
		return nil, reason.New(reason.IgnitionUnavailable, "infrastructure.config.openshift.io/cluster", "status.apiServerInternalURI is empty", "Repair the Infrastructure object.")
	}
	return yaml.Marshal(map[string]any{
		"clusters": []any{map[string]any{"name": "local", "cluster": map[string]any{
			"certificate-authority-data": base64.StdEncoding.EncodeToString(bootstrap.Data["ca.crt"]), "server": infra.Status.APIServerInternalURI,
		}}},
		"contexts":        []any{map[string]any{"name": "kubelet", "context": map[string]any{"cluster": "local", "user": "kubelet"}}},
		"current-context": "kubelet",
		"users":           []any{map[string]any{"name": "kubelet", "user": map[string]any{"token": string(bootstrap.Data["token"])}}},
	})
}

// unavailable makes of a missing object the reason that the caller's user understands; what is forbidden or unreachable stays.
func unavailable(err error) error {
	if cluster.IsNotFound(err) {
		e := reason.Of(err)
		return reason.New(reason.IgnitionUnavailable, e.Object, e.Problem, "")
	}
	return err
}
