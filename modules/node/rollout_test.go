package node

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/testcluster"
)

type argumentsOf = func(string, ...map[string]any) map[string]any

func patch(t *testing.T, c *testcluster.Cluster, name, change string) {
	t.Helper()
	c.Request(t, testcluster.AdminToken, http.MethodPatch, "/api/v1/nodes/"+name, "application/merge-patch+json", []byte(change))
}

func slots(t *testing.T, c *testcluster.Cluster, arguments argumentsOf) {
	managed := `{"metadata": {"annotations": {"` + cluster.VersionAnnotation + `": "0.1.0"}}}`
	for name, ready := range map[string]string{"s1": "True", "s2": "True", "s3": "False", "s4": "False"} {
		c.Apply(t, node(name, "U-"+name, ready, ""))
		if name != "s4" { // nobody of ours
			patch(t, c, name, managed)
		}
	}
	one := map[string]any{"state": "cordoned", "max_unavailable": 1, "timeout": 1}
	result := run(t, arguments("s1", one))
	assert.Equal(t, "timeout", result.Reason)
	assert.Contains(t, result.Msg, "s3 (not Ready)")
	assert.NotContains(t, result.Msg, "s4")
	assert.False(t, get(t, c, "s1").Spec.Unschedulable)
	assert.NotContains(t, get(t, c, "s1").Annotations, cluster.DesiredVersionAnnotation)

	assert.False(t, run(t, arguments("s3", one)).Failed, "a node that is out of service anyway is not waited for")
	require.False(t, run(t, arguments("s1", one, map[string]any{"max_unavailable": 2})).Failed)
	result = run(t, arguments("s2", one, map[string]any{"max_unavailable": 2}))
	assert.Contains(t, result.Msg, "s1 (cordoned), s3 (not Ready)")

	go func() {
		time.Sleep(500 * time.Millisecond)
		patch(t, c, "s1", `{"spec": {"unschedulable": null}}`)
	}()
	assert.False(t, run(t, arguments("s2", one, map[string]any{"max_unavailable": 2, "timeout": 60})).Failed, "it goes on as soon as one is back")
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		c.Delete(t, "/api/v1/nodes/"+name)
	}
}

func inspects(t *testing.T, c *testcluster.Cluster, arguments argumentsOf) {
	wanted := map[string]any{
		"state": "inspected", "labels": map[string]string{"node-role.kubernetes.io/worker": ""}, "release": "0.1.0", "kubelet_version": "v1.36.3",
		"taints": []string{"os=Windows:NoSchedule"},
	}
	assert.Equal(t, []string{"there is no such node in the cluster"}, run(t, arguments("i1", wanted)).Differences)
	c.Apply(t, node("i1", "U", "True", ""))
	require.False(t, run(t, arguments("i1", wanted, map[string]any{"state": "labelled"})).Failed)
	result := run(t, arguments("i1", wanted))
	assert.Empty(t, result.Differences)
	assert.False(t, result.Changed)

	run(t, arguments("i1", map[string]any{"state": "cordoned", "release": "0.2.0"}))
	patch(t, c, "i1", `{"metadata": {"labels": {"node-role.kubernetes.io/worker": null, "mine": "x"}}, "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}`)
	before := get(t, c, "i1")
	result = run(t, arguments("i1", wanted, map[string]any{"kubelet_version": "v1.36.2"}))
	require.Len(t, result.Differences, 5, result.Differences)
	assert.Equal(t, `label node-role.kubernetes.io/worker is missing`, result.Differences[0])
	assert.Equal(t, `annotation wsu.windows/desired-version is "0.2.0", not "0.1.0"`, result.Differences[1])
	assert.Equal(t, `taint os=Windows:NoSchedule is missing`, result.Differences[2])
	assert.Equal(t, `its kubelet is v1.36.3, not v1.36.2`, result.Differences[3])
	assert.Contains(t, result.Differences[4], "cordoned by a run that did not end")
	assert.Equal(t, before.ResourceVersion, get(t, c, "i1").ResourceVersion)
	assert.Contains(t, run(t, arguments("i1", wanted, map[string]any{"system_uuid": "V"})).Differences[0], "another machine")
	c.Delete(t, "/api/v1/nodes/i1")
}
