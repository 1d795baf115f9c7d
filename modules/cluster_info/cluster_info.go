// Package clusterinfo is the module cluster_info: one read of the cluster, and what is missing in it for Windows nodes.
package clusterinfo

import (
	"context"
	"fmt"
	"strings"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/cluster/openshift"
	"wsu.windows/internal/reason"
)

// Module is the module.
var Module = ansible.New("cluster_info", Run)

// Args are the module's arguments.
type Args struct {
	Kubeconfig        string `json:"kubeconfig" path:"true"`
	Flavour           string `json:"flavour" default:"auto" choices:"auto,openshift"`
	MachineConfigPool string `json:"machine_config_pool" default:"worker"`
	AllowProblems     bool   `json:"allow_problems"`
}

// flavours are the kinds of cluster that this release can join hosts to, in the order in which they are tried.
func flavours() []cluster.Flavour { return []cluster.Flavour{openshift.Flavour{}} }

// Run reads the cluster. It changes nothing, so check mode is no other.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	client, err := cluster.Connect(args.Kubeconfig)
	if err != nil {
		return ansible.Result{}, err
	}
	flavour, why, err := cluster.Recognise(ctx, client, args.Flavour, flavours())
	if err != nil {
		return ansible.Result{}, err
	}
	env.Progress.Say("cluster", "reading "+client.Server)
	facts, err := cluster.Read(ctx, client, flavour, why, args.MachineConfigPool)
	if err != nil {
		return ansible.Result{}, err
	}
	result := ansible.Result{Data: facts, Msg: summary(facts)}
	if facts.Proxy.Credentials {
		result.Warnings = append(result.Warnings, "the cluster's proxy needs a login, which is not handed to Windows nodes")
	}
	if len(facts.Problems) == 0 || args.AllowProblems {
		return result, nil
	}
	return result, failure(facts)
}

func summary(facts *cluster.Facts) string {
	windows := 0
	for _, node := range facts.Nodes {
		if node.OS == "windows" {
			windows++
		}
	}
	return fmt.Sprintf("%s %s, Kubernetes %s, %d nodes (%d Windows)", facts.Flavour, facts.ClusterVersion, facts.KubernetesVersion, len(facts.Nodes), windows)
}

// failure carries the first problem's code and all problems' words.
func failure(facts *cluster.Facts) error {
	first := facts.Problems[0]
	if len(facts.Problems) == 1 {
		return reason.New(first.Code, first.Object, first.Problem, first.Remedy)
	}
	var all []string
	for i, p := range facts.Problems {
		all = append(all, fmt.Sprintf("(%d) %s: %s. %s", i+1, p.Object, p.Problem, p.Remedy))
	}
	return reason.New(first.Code, "cluster "+facts.APIServer, fmt.Sprintf("%d things keep Windows nodes from working: %s", len(all), strings.Join(all, " ")),
		"Solve each of them.")
}
