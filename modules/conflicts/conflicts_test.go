package conflicts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

const uuid1, uuid2 = "4C4C4544-0042-3510-8052-B4C04F4E3632", "4C4C4544-0042-3510-8052-B4C04F4E3633"

// host is a line of the tests' tables.
type host struct{ Host, NodeName, SystemUUID, JoinedCluster, JoinedNode string }

// preflights makes of them what Ansible hands over: the results of tasks.
func preflights(hosts ...host) map[string]any {
	results := map[string]any{}
	for _, h := range hosts {
		document := nodereport.Preflight{Facts: nodereport.Facts{NodeName: h.NodeName, SystemUUID: h.SystemUUID}}
		if h.JoinedNode != "" {
			document.Facts.Joined = &nodereport.Joined{NodeName: h.JoinedNode, Cluster: h.JoinedCluster}
		}
		results[h.Host] = map[string]any{"failed": false, "changed": false, "document": document, "seconds": 0.4}
	}
	return results
}

func conflictsOf(t *testing.T, args Args) map[string]Conflict {
	t.Helper()
	result, err := Run(t.Context(), &ansible.Env{}, &args)
	require.NoError(t, err)
	assert.False(t, result.Changed)
	return result.Data.(Result).Conflicts
}

func TestFreshMachinesWithNamesOfTheirOwnMayJoin(t *testing.T) {
	assert.Empty(t, conflictsOf(t, Args{
		Hosts: preflights(host{Host: "a", NodeName: "win-1", SystemUUID: uuid1}, host{Host: "b", NodeName: "win-2", SystemUUID: uuid2}),
		// The names of these nodes only contain the hosts' names.
		Nodes: map[string]Node{"win-10": {OS: "windows", SystemUUID: "other"}, "my-win-1": {OS: "linux"}},
	}))
}

func TestAMachineThatIsThisNodeMayJoinAgain(t *testing.T) {
	assert.Empty(t, conflictsOf(t, Args{
		Hosts:     preflights(host{Host: "a", NodeName: "win-1", SystemUUID: uuid1, JoinedCluster: "c1", JoinedNode: "win-1"}),
		Nodes:     map[string]Node{"win-1": {OS: "windows", SystemUUID: "4c4c4544-0042-3510-8052-b4c04f4e3632"}},
		ClusterID: "c1",
	}))
}

func TestWhatMustNotJoin(t *testing.T) {
	this := host{Host: "a", NodeName: "win-1", SystemUUID: uuid1}
	for name, c := range map[string]struct {
		args   Args
		code   reason.Code
		says   string
		remedy string
	}{
		"the cluster's node of that name is another machine": {
			Args{Hosts: preflights(this), Nodes: map[string]Node{"win-1": {OS: "windows", SystemUUID: uuid2}}}, reason.ForeignNode, uuid2, "oc delete node win-1",
		},
		"the operator manages it": {
			Args{Hosts: preflights(this), Nodes: map[string]Node{"win-1": {OS: "windows", SystemUUID: uuid1, WMCO: true}}}, reason.ForeignNode, "Operator", "operator's configuration",
		},
		"a Linux node has the name": {
			Args{Hosts: preflights(this), Nodes: map[string]Node{"win-1": {OS: "linux", SystemUUID: uuid2}}}, reason.ForeignNode, "linux node", "Rename",
		},
		"it is a node of another cluster": {
			Args{Hosts: preflights(host{Host: "a", NodeName: "win-1", JoinedNode: "win-1", JoinedCluster: "c2"}), ClusterID: "c1"}, reason.ForeignNode, "another cluster, c2", "remove.yml",
		},
		"it is a node of another name": {
			Args{Hosts: preflights(host{Host: "a", NodeName: "win-1", JoinedNode: "win-9", JoinedCluster: "c1"}), ClusterID: "c1"}, reason.ForeignNode, "already node win-9", "remove.yml",
		},
		"another host has the name": {
			Args{Hosts: preflights(this, host{Host: "b", NodeName: "win-1", SystemUUID: uuid2})}, reason.NodeNameDuplicate, "also that of b", "host name of its own",
		},
		"one machine is listed twice": {
			Args{Hosts: preflights(this, host{Host: "b", NodeName: "win-2", SystemUUID: uuid1})}, reason.NodeNameDuplicate, "and so has b", "one machine once",
		},
	} {
		t.Run(name, func(t *testing.T) {
			conflict := conflictsOf(t, c.args)["a"]
			assert.Equal(t, c.code, conflict.Reason)
			assert.Contains(t, conflict.Msg, "a: node win-1: ")
			assert.Contains(t, conflict.Msg, c.says)
			assert.Contains(t, conflict.Remedy, c.remedy)
		})
	}
}

func TestBothHostsOfOneNameAreNamed(t *testing.T) {
	conflicts := conflictsOf(t, Args{Hosts: preflights(host{Host: "a", NodeName: "n"}, host{Host: "b", NodeName: "n"}, host{Host: "c", NodeName: "m"})})
	assert.Len(t, conflicts, 2)
	assert.NotContains(t, conflicts, "c")
}

func TestAHostWhosePreflightFailedIsLeftOut(t *testing.T) {
	hosts := preflights(host{Host: "a", NodeName: "n"}, host{Host: "b", NodeName: "n"})
	hosts["b"].(map[string]any)["failed"] = true
	hosts["c"] = map[string]any{"failed": true, "document": nil}
	assert.Empty(t, conflictsOf(t, Args{Hosts: hosts}))
}
