// Package openshift gives the API server the face of a small OpenShift 5.0 cluster: the real CustomResourceDefinitions, and
// objects as a joining Windows node meets them.
package openshift

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// APIModule is where the CustomResourceDefinitions come from; go.mod pins its version.
const APIModule = "github.com/openshift/api"

// Version is the OpenShift release that the sandbox shows; it goes with Kubernetes 1.36.
const Version = "5.0.3"

// ClusterDNS is the tenth address of the service network, as in every OpenShift cluster.
const ClusterDNS = "172.30.0.10"

//go:embed objects/*.yaml
var objectFiles embed.FS

// namespaces that OpenShift has and that the product, the Windows operator and people's tools look into.
var namespaces = []string{
	"openshift-config", "openshift-config-managed", "openshift-machine-api", "openshift-machine-config-operator",
	"openshift-network-operator", "openshift-ovn-kubernetes",
}

// Cluster is what the objects say about this cluster. Certificates are PEM.
type Cluster struct {
	Domain, API, APIInt string
	ServiceNetwork      string
	MachineConfigURL    string // of the Machine Config Server, by address
	KubeletClientCAs    []byte
	RootCA              []byte
	MachineConfigCA     []byte
}

type values struct {
	Cluster
	ClusterDNS, OpenShift, Now string
	Namespaces                 []string
	Worker, WorkerRolledBack   []byte
	Rendered, RolledBack       string
	Pointer                    []byte
}

// Objects renders every object, in the order in which they have to be made.
func (c Cluster) Objects(now time.Time) ([]map[string]any, error) {
	v, err := c.values(now)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(objectFiles, "objects/*.yaml") // sorted
	if err != nil {
		return nil, fmt.Errorf("openshift objects: %w", err)
	}
	var all []map[string]any
	for _, name := range names {
		objects, err := renderFile(name, v)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

func (c Cluster) values(now time.Time) (values, error) {
	v := values{Cluster: c, ClusterDNS: ClusterDNS, OpenShift: Version, Now: now.UTC().Format(time.RFC3339), Namespaces: namespaces}
	names := workerNames{APIInt: c.APIInt, ClusterDNS: ClusterDNS}
	var err error
	if v.Worker, err = renderWorker(names); err != nil {
		return v, err
	}
	names.Extra = "this configuration was rolled back; nobody may serve it\n"
	if v.WorkerRolledBack, err = renderWorker(names); err != nil {
		return v, err
	}
	v.Rendered, v.RolledBack = renderedName(v.Worker), renderedName(v.WorkerRolledBack)
	v.Pointer, err = c.pointer()
	return v, err
}

// pointer is the Ignition of the user-data secret: it sends a new machine to the Machine Config Server.
func (c Cluster) pointer() ([]byte, error) {
	none := object{"verification": object{}}
	authority := object{"source": "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(c.MachineConfigCA), "verification": object{}}
	return json.Marshal(object{
		"ignition": object{
			"config":   object{"merge": []object{{"source": c.MachineConfigURL + "/config/worker", "verification": object{}}}, "replace": none},
			"proxy":    object{},
			"security": object{"tls": object{"certificateAuthorities": []object{authority}}},
			"timeouts": object{},
			"version":  "3.5.0",
		},
		"kernelArguments": object{}, "passwd": object{}, "storage": object{}, "systemd": object{},
	})
}

func renderFile(name string, v values) ([]map[string]any, error) {
	source, err := objectFiles.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("openshift objects: %w", err)
	}
	parsed, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"base64": toBase64, "quote": quote}).Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("openshift objects: %w", err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, v); err != nil {
		return nil, fmt.Errorf("openshift objects: %w", err)
	}
	var objects []map[string]any
	for _, document := range strings.Split(text.String(), "\n---\n") {
		var one map[string]any
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			return nil, fmt.Errorf("openshift objects: %s: %w", name, err)
		}
		if len(one) > 0 {
			objects = append(objects, one)
		}
	}
	return objects, nil
}

func toBase64(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return base64.StdEncoding.EncodeToString([]byte(value)), nil
	case []byte:
		return base64.StdEncoding.EncodeToString(value), nil
	}
	return "", fmt.Errorf("base64: unexpected %T", value)
}

// quote writes text as a JSON string, which is YAML too.
func quote(value []byte) (string, error) {
	text, err := json.Marshal(string(value))
	return string(text), err
}
