package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/reason"
)

// Recognise finds the cluster's flavour: the wanted one, or with "auto" the first that recognises it.
func Recognise(ctx context.Context, c *Client, want string, flavours []Flavour) (Flavour, string, error) {
	names := make([]string, 0, len(flavours))
	for _, flavour := range flavours {
		names = append(names, flavour.Name())
		if want == flavour.Name() {
			return flavour, "it was asked for", nil
		}
		if want != "auto" {
			continue
		}
		yes, why, err := flavour.Recognise(ctx, c)
		if err != nil {
			return nil, "", err
		}
		if yes {
			return flavour, why, nil
		}
	}
	return nil, "", reason.New(reason.ClusterUnsupported, "cluster "+c.Server, "it is of no flavour that this release can join hosts to ("+strings.Join(names, ", ")+")",
		"Use the kubeconfig of an OpenShift cluster.")
}

// Read reads the cluster's facts, all at once. Whatever order the answers come in, equal clusters give equal facts.
func Read(ctx context.Context, c *Client, flavour Flavour, why, pool string) (*Facts, error) {
	facts := &Facts{Flavour: flavour.Name(), FlavourWhy: why, APIServer: c.Server, MachineConfigPool: pool, Problems: []Problem{}}
	var nodes map[string]NodeFacts
	var kubernetes string
	var now time.Time
	err := Parallel(ctx,
		func(ctx context.Context) error { return flavour.Read(ctx, c, pool, facts) },
		func(ctx context.Context) (err error) { kubernetes, err = c.KubernetesVersion(ctx); return },
		func(ctx context.Context) (err error) { nodes, err = c.NodeFacts(ctx); return },
		func(ctx context.Context) (err error) { now, err = c.Now(ctx); return },
	)
	if err != nil {
		return nil, err
	}
	facts.KubernetesVersion, facts.Nodes, facts.APITime = kubernetes, nodes, now.UTC().Format(time.RFC3339)
	slices.SortStableFunc(facts.Problems, func(a, b Problem) int { return strings.Compare(string(a.Code)+a.Object, string(b.Code)+b.Object) })
	return facts, nil
}

// Parallel runs the functions at once, waits for all, and gives the error of the first of them in their order.
func Parallel(ctx context.Context, functions ...func(context.Context) error) error {
	errs := make([]error, len(functions))
	var group sync.WaitGroup
	for i, function := range functions {
		group.Go(func() { errs[i] = function(ctx) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// KubernetesVersion is the API server's, as v1.36.3: without what a distribution adds behind a plus sign.
func (c *Client) KubernetesVersion(ctx context.Context) (string, error) {
	content, err := c.Read(ctx, "/version")
	if err != nil {
		return "", err
	}
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(content, &info); err != nil || !strings.HasPrefix(info.GitVersion, "v") {
		return "", reason.New(reason.APIUnreachable, "API server "+c.Server, "what answers there is no Kubernetes API server: it tells no version", "")
	}
	core, _, _ := strings.Cut(info.GitVersion, "+")
	return core, nil
}

// NodeFacts gives the facts of all nodes by name.
func (c *Client) NodeFacts(ctx context.Context) (map[string]NodeFacts, error) {
	nodes := map[string]NodeFacts{}
	err := c.EachNode(ctx, func(node *corev1.Node) { nodes[node.Name] = factsOf(node) })
	return nodes, err
}

func factsOf(node *corev1.Node) NodeFacts {
	ready, _ := Ready(node)
	addresses := []string{}
	for _, address := range node.Status.Addresses {
		addresses = append(addresses, address.Address)
	}
	slices.Sort(addresses)
	return NodeFacts{
		UID: string(node.UID), OS: node.Status.NodeInfo.OperatingSystem,
		SystemUUID: node.Status.NodeInfo.SystemUUID, MachineID: node.Status.NodeInfo.MachineID,
		Addresses: slices.Compact(addresses), Ready: ready, Unschedulable: node.Spec.Unschedulable,
		Version: node.Status.NodeInfo.KubeletVersion, WSUVersion: node.Annotations[VersionAnnotation], WMCO: OwnedByWMCO(node),
	}
}
