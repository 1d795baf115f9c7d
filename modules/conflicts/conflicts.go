// Package conflicts is the module conflicts: what no host can know alone. It compares the hosts of a run with each other and with the
// nodes that the cluster has, before anything is changed.
package conflicts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

// Module is the module.
var Module = ansible.New("conflicts", Run)

// Args are the module's arguments.
type Args struct {
	// Hosts maps the inventory's name of a host to what the task with wmcb preflight returned.
	Hosts     map[string]any  `json:"hosts" required:"true"`
	Nodes     map[string]Node `json:"nodes"`
	ClusterID string          `json:"cluster_id"`
}

// machine is a host as its preflight saw it.
type machine struct {
	host  string
	facts nodereport.Facts
}

// Node is a node as cluster_info returns it.
type Node struct {
	OS         string `json:"os"`
	SystemUUID string `json:"system_uuid"`
	WMCO       bool   `json:"wmco"`
	// The rest of cluster_info's facts is of no interest here, but may stand in the argument.
	UID           string   `json:"uid"`
	MachineID     string   `json:"machine_id"`
	Addresses     []string `json:"addresses"`
	Ready         bool     `json:"ready"`
	Unschedulable bool     `json:"unschedulable"`
	Version       string   `json:"version"`
	WSUVersion    string   `json:"wsu_version"`
}

// Conflict is why a host must not be joined.
type Conflict struct {
	Reason reason.Code `json:"reason"`
	Object string      `json:"object"`
	Msg    string      `json:"msg"`
	Remedy string      `json:"remedy"`
}

// Result is what the module returns.
type Result struct {
	// Conflicts has an entry for each host that must not be joined, by its inventory name.
	Conflicts map[string]Conflict `json:"conflicts"`
}

// Run compares and changes nothing. Conflicts are not the module's failure: the other hosts go on.
func Run(_ context.Context, _ *ansible.Env, args *Args) (ansible.Result, error) {
	machines, err := machinesOf(args.Hosts)
	if err != nil {
		return ansible.Result{}, err
	}
	conflicts := map[string]Conflict{}
	for _, m := range machines {
		if problem := firstProblem(m, machines, args); problem != nil {
			conflicts[m.host] = Conflict{
				Reason: problem.Code, Object: problem.Object, Msg: m.host + ": " + problem.Error(), Remedy: problem.Remedy,
			}
		}
	}
	return ansible.Result{Msg: summary(conflicts), Data: Result{Conflicts: conflicts}}, nil
}

// machinesOf leaves out the hosts whose preflight failed: they do not go on anyway.
func machinesOf(results map[string]any) ([]machine, error) {
	var machines []machine
	for _, host := range slices.Sorted(maps.Keys(results)) {
		encoded, err := json.Marshal(results[host])
		if err != nil {
			return nil, reason.Wrap(reason.ArgumentInvalid, "hosts."+host, err, "")
		}
		var result struct {
			Failed   bool                  `json:"failed"`
			Document *nodereport.Preflight `json:"document"`
		}
		if err := json.Unmarshal(encoded, &result); err != nil {
			return nil, reason.Wrap(reason.ArgumentInvalid, "hosts."+host, err, "Give what the task with wmcb preflight returned.")
		}
		if !result.Failed && result.Document != nil {
			machines = append(machines, machine{host, result.Document.Facts})
		}
	}
	return machines, nil
}

func firstProblem(m machine, machines []machine, args *Args) *reason.Error {
	name, object := m.facts.NodeName, "node "+m.facts.NodeName
	if joined := m.facts.Joined; joined != nil {
		if joined.Cluster != "" && args.ClusterID != "" && joined.Cluster != args.ClusterID {
			return reason.New(reason.ForeignNode, object,
				fmt.Sprintf("the machine is a node of another cluster, %s; this one is %s", joined.Cluster, args.ClusterID),
				"Remove it there first with playbooks/remove.yml.")
		}
		if joined.NodeName != "" && joined.NodeName != name {
			return reason.New(reason.ForeignNode, object,
				fmt.Sprintf("the machine is already node %s, and a node cannot be renamed", joined.NodeName),
				"Leave wsu_node_name as it was, or remove the host with playbooks/remove.yml and join it again.")
		}
	}
	if same := others(m, machines, sameName); len(same) > 0 {
		return reason.New(reason.NodeNameDuplicate, object, "the name is also that of "+strings.Join(same, ", "),
			"Give each machine a host name of its own, or list one machine once; nothing was changed on either.")
	}
	if same := others(m, machines, sameMachine); len(same) > 0 {
		return reason.New(reason.NodeNameDuplicate, object,
			fmt.Sprintf("the machine has the system UUID %s, and so has %s", m.facts.SystemUUID, strings.Join(same, ", ")),
			"List one machine once; if they are clones, give each a UUID of its own.")
	}
	return clusterProblem(m.facts, object, args.Nodes)
}

func sameName(a, b machine) bool { return a.facts.NodeName == b.facts.NodeName }

func sameMachine(a, b machine) bool {
	return a.facts.SystemUUID != "" && strings.EqualFold(a.facts.SystemUUID, b.facts.SystemUUID)
}

func others(m machine, machines []machine, same func(a, b machine) bool) []string {
	var names []string
	for _, other := range machines {
		if other.host != m.host && same(m, other) {
			names = append(names, other.host)
		}
	}
	return names
}

// clusterProblem looks at the node of exactly this name.
func clusterProblem(facts nodereport.Facts, object string, nodes map[string]Node) *reason.Error {
	node, exists := nodes[facts.NodeName]
	switch {
	case !exists:
		return nil
	case node.WMCO:
		return reason.New(reason.ForeignNode, object, "the Windows Machine Config Operator manages it",
			"Take it out of the operator's configuration first, or out of this inventory.")
	case node.OS != "" && node.OS != "windows":
		return reason.New(reason.ForeignNode, object, fmt.Sprintf("the cluster has a %s node of that name", node.OS),
			"Rename the machine, or set wsu_node_name.")
	case node.SystemUUID != "" && facts.SystemUUID != "" && !strings.EqualFold(node.SystemUUID, facts.SystemUUID):
		return reason.New(reason.ForeignNode, object,
			fmt.Sprintf("the cluster's node of that name is another machine: its system UUID is %s, this machine's is %s", node.SystemUUID, facts.SystemUUID),
			"Rename the machine or set wsu_node_name; if the other machine is gone for good, delete its node first: oc delete node "+facts.NodeName)
	}
	return nil
}

func summary(conflicts map[string]Conflict) string {
	if len(conflicts) == 0 {
		return "no host is in the way of another one or of a node"
	}
	return "hosts that must not be joined: " + strings.Join(slices.Sorted(maps.Keys(conflicts)), ", ")
}
