package mcs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Cluster reads, at each request, what the Machine Config Server serves.
type Cluster struct{ Client dynamic.Interface }

// served is a pool's configuration and what belongs to it.
type served struct {
	machineConfig map[string]any
	kubeletCA     []byte
	apiCA         []byte // PEM
	apiURL        string
	token         string
}

func machineConfiguration(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: resource}
}

// read collects what a pool's machines get. A pool that does not exist is an error like any other, as in the real server.
func (c Cluster) read(ctx context.Context, pool string) (*served, error) {
	name, err := c.configurationName(ctx, pool)
	if err != nil {
		return nil, err
	}
	config, err := c.Client.Resource(machineConfiguration("machineconfigs")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("machine config %s: %w", name, err)
	}
	controller, err := c.Client.Resource(machineConfiguration("controllerconfigs")).Get(ctx, "machine-config-controller", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("controller config: %w", err)
	}
	s := &served{machineConfig: config.Object}
	if s.kubeletCA, err = decode(controller, "spec", "kubeAPIServerServingCAData"); err != nil {
		return nil, err
	}
	return s, c.readBootstrap(ctx, s)
}

// configurationName follows the server's rule: the new configuration once one machine has it, the old one before.
func (c Cluster) configurationName(ctx context.Context, pool string) (string, error) {
	object, err := c.Client.Resource(machineConfiguration("machineconfigpools")).Get(ctx, pool, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("machine config pool %s: %w", pool, err)
	}
	updated, _, _ := unstructured.NestedInt64(object.Object, "status", "updatedMachineCount")
	from := "status"
	if updated > 0 {
		from = "spec"
	}
	name, _, _ := unstructured.NestedString(object.Object, from, "configuration", "name")
	if name == "" {
		return "", fmt.Errorf("machine config pool %s: %s.configuration.name is empty", pool, from)
	}
	return name, nil
}

func (c Cluster) readBootstrap(ctx context.Context, s *served) error {
	secrets := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("openshift-machine-config-operator")
	secret, err := secrets.Get(ctx, "node-bootstrapper-token", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("secret node-bootstrapper-token: %w", err)
	}
	if s.apiCA, err = decode(secret, "data", "ca.crt"); err != nil {
		return err
	}
	token, err := decode(secret, "data", "token")
	if err != nil {
		return err
	}
	s.token = string(token)
	infrastructure, err := c.Client.Resource(schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "infrastructures"}).
		Get(ctx, "cluster", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("infrastructure: %w", err)
	}
	s.apiURL, _, _ = unstructured.NestedString(infrastructure.Object, "status", "apiServerInternalURI")
	if s.apiURL == "" {
		return fmt.Errorf("infrastructure: status.apiServerInternalURI is empty")
	}
	return nil
}

func decode(object *unstructured.Unstructured, path ...string) ([]byte, error) {
	text, _, _ := unstructured.NestedString(object.Object, path...)
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(value) == 0 {
		return nil, fmt.Errorf("%s %s: %v is empty or not base64", object.GetKind(), object.GetName(), path)
	}
	return value, nil
}

// ignition returns the configuration as it is served, in the native version.
func (s *served) ignition() ([]byte, error) {
	spec, _ := s.machineConfig["spec"].(map[string]any)
	config, ok := spec["config"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("machine config: spec.config is no Ignition")
	}
	extra, err := s.extraFiles(config)
	if err != nil {
		return nil, err
	}
	document := unstructured.Unstructured{Object: config}
	document = *document.DeepCopy()
	files, _, err := unstructured.NestedSlice(document.Object, "storage", "files")
	if err != nil {
		return nil, fmt.Errorf("machine config: %w", err)
	}
	if err := unstructured.SetNestedSlice(document.Object, append(files, extra...), "storage", "files"); err != nil {
		return nil, fmt.Errorf("machine config: %w", err)
	}
	return json.Marshal(document.Object)
}
