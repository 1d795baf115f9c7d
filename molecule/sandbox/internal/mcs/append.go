package mcs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// extraFiles are the files that no MachineConfig holds and that the server appends, in its order.
func (s *served) extraFiles(config map[string]any) ([]any, error) {
	annotations, err := s.nodeAnnotations()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := s.kubeconfig()
	if err != nil {
		return nil, err
	}
	whole, err := s.machineConfigJSON(config, "    ")
	if err != nil {
		return nil, err
	}
	version, _, _ := unstructured.NestedString(config, "ignition", "version")
	encapsulated, err := s.machineConfigJSON(map[string]any{"ignition": map[string]any{"version": version}}, "")
	if err != nil {
		return nil, err
	}
	var files []any
	for _, file := range []struct {
		path     string
		contents []byte
	}{
		{"/etc/kubernetes/kubelet-ca.crt", s.kubeletCA},
		{"/etc/machine-config-daemon/node-annotations.json", annotations},
		{"/etc/kubernetes/kubeconfig", kubeconfig},
		{"/etc/mcs-machine-config-content.json", whole},
		{"/etc/ignition-machine-config-encapsulated.json", encapsulated},
	} {
		source := "data:," + strings.ReplaceAll(url.QueryEscape(string(file.contents)), "+", "%20")
		files = append(files, map[string]any{
			"path": file.path, "mode": int64(0o644), "overwrite": true, "contents": map[string]any{"source": source},
		})
	}
	return files, nil
}

func (s *served) name() string {
	name, _, _ := unstructured.NestedString(s.machineConfig, "metadata", "name")
	return name
}

func (s *served) nodeAnnotations() ([]byte, error) {
	const prefix = "machineconfiguration.openshift.io/"
	return json.Marshal(map[string]string{
		prefix + "currentConfig": s.name(), prefix + "desiredConfig": s.name(), prefix + "firstPivotConfig": s.name(), prefix + "state": "Done",
	})
}

// kubeconfig is the bootstrap kubeconfig, with the names that the server gives its parts.
func (s *served) kubeconfig() ([]byte, error) {
	content, err := yaml.Marshal(map[string]any{
		"clusters": []any{map[string]any{"name": "local", "cluster": map[string]any{
			"certificate-authority-data": base64.StdEncoding.EncodeToString(s.apiCA), "server": s.apiURL}}},
		"contexts":        []any{map[string]any{"name": "kubelet", "context": map[string]any{"cluster": "local", "user": "kubelet"}}},
		"current-context": "kubelet",
		"users":           []any{map[string]any{"name": "kubelet", "user": map[string]any{"token": s.token}}},
	})
	if err != nil {
		return nil, fmt.Errorf("bootstrap kubeconfig: %w", err)
	}
	return content, nil
}

// machineConfigJSON is the MachineConfig, with another config in it, without what the API server keeps for itself.
func (s *served) machineConfigJSON(config map[string]any, indent string) ([]byte, error) {
	spec, _ := s.machineConfig["spec"].(map[string]any)
	spec = maps.Clone(spec)
	spec["config"] = config
	annotations, _, _ := unstructured.NestedMap(s.machineConfig, "metadata", "annotations")
	document := map[string]any{
		"kind": "MachineConfig", "apiVersion": "machineconfiguration.openshift.io/v1",
		"metadata": map[string]any{"name": s.name(), "annotations": annotations}, "spec": spec,
	}
	if indent == "" {
		return json.Marshal(document)
	}
	return json.MarshalIndent(document, "", indent)
}
