// Package conflicts is the module conflicts: what no host can know alone. It compares the hosts of a run with each other and with the
// nodes that the cluster has, before anything is changed.
package conflicts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/reason"
)

// Module is the module.
var Module = ansible.New("conflicts", Run)

// Args are the module's arguments.
type Args struct {
	Hosts     []Host          `json:"hosts" required:"true"`
	Nodes     map[string]Node `json:"nodes"`
	ClusterID string          `json:"cluster_id"`
}

// Host is a machine as its preflight saw it.
type Host struct {
	Host       string `json:"host" required:"true"`
	NodeName   string `json:"node_name" required:"true"`
	SystemUUID string `json:"system_uuid"`
	// JoinedCluster is the cluster that wmcb's own state names, or empty.
	JoinedCluster string `json:"joined_cluster"`
	// JoinedNode is the node that wmcb's own state names, or empty.
	JoinedNode string `json:"joined_node"`
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
	conflicts := map[string]Conflict{}
	for _, host := range args.Hosts {
		if problem := firstProblem(host, args); problem != nil {
			conflicts[host.Host] = Conflict{
				Reason: problem.Code, Object: problem.Object, Msg: host.Host + ": " + problem.Error(), Remedy: problem.Remedy,
			}
		}
	}
	return ansible.Result{Msg: summary(conflicts), Data: Result{Conflicts: conflicts}}, nil
}

func firstProblem(host Host, args *Args) *reason.Error {
	object := "node " + host.NodeName
	if host.JoinedCluster != "" && args.ClusterID != "" && host.JoinedCluster != args.ClusterID {
		return reason.New(reason.ForeignNode, object,
			fmt.Sprintf("the machine is a node of another cluster, %s; this one is %s", host.JoinedCluster, args.ClusterID),
			"Remove it there first with playbooks/remove.yml.")
	}
	if host.JoinedNode != "" && host.JoinedNode != host.NodeName {
		return reason.New(reason.ForeignNode, object,
			fmt.Sprintf("the machine is already node %s, and a node cannot be renamed", host.JoinedNode),
			"Leave wsu_node_name as it was, or remove the host with playbooks/remove.yml and join it again.")
	}
	if same := others(host, args.Hosts, sameName); len(same) > 0 {
		return reason.New(reason.NodeNameDuplicate, object, "the name is also that of "+strings.Join(same, ", "),
			"Give each machine a host name of its own, or list one machine once; nothing was changed on either.")
	}
	if same := others(host, args.Hosts, sameMachine); len(same) > 0 {
		return reason.New(reason.NodeNameDuplicate, object,
			fmt.Sprintf("the machine has the system UUID %s, and so has %s", host.SystemUUID, strings.Join(same, ", ")),
			"List one machine once; if they are clones, give each a UUID of its own.")
	}
	return clusterProblem(host, object, args.Nodes)
}

func sameName(a, b Host) bool { return a.NodeName == b.NodeName }
func sameMachine(a, b Host) bool {
	return a.SystemUUID != "" && strings.EqualFold(a.SystemUUID, b.SystemUUID)
}

func others(host Host, hosts []Host, same func(a, b Host) bool) []string {
	var names []string
	for _, other := range hosts {
		if other.Host != host.Host && same(host, other) {
			names = append(names, other.Host)
		}
	}
	return names
}

// clusterProblem looks at the node of exactly this name.
func clusterProblem(host Host, object string, nodes map[string]Node) *reason.Error {
	node, exists := nodes[host.NodeName]
	switch {
	case !exists:
		return nil
	case node.WMCO:
		return reason.New(reason.ForeignNode, object, "the Windows Machine Config Operator manages it",
			"Take it out of the operator's configuration first, or out of this inventory.")
	case node.OS != "" && node.OS != "windows":
		return reason.New(reason.ForeignNode, object, fmt.Sprintf("the cluster has a %s node of that name", node.OS),
			"Rename the machine, or set wsu_node_name.")
	case node.SystemUUID != "" && host.SystemUUID != "" && !strings.EqualFold(node.SystemUUID, host.SystemUUID):
		return reason.New(reason.ForeignNode, object,
			fmt.Sprintf("the cluster's node of that name is another machine: its system UUID is %s, this machine's is %s", node.SystemUUID, host.SystemUUID),
			"Rename the machine or set wsu_node_name; if the other machine is gone for good, delete its node first: oc delete node "+host.NodeName)
	}
	return nil
}

func summary(conflicts map[string]Conflict) string {
	if len(conflicts) == 0 {
		return "no host is in the way of another one or of a node"
	}
	return "hosts that must not be joined: " + strings.Join(slices.Sorted(maps.Keys(conflicts)), ", ")
}
