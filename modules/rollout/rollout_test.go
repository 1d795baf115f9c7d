package rollout

import (
	"fmt"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

// preflight is what the task of a host returns; release is empty where it has not joined.
func preflight(node, release string) any {
	document := nodereport.Preflight{Facts: nodereport.Facts{NodeName: node}}
	if release != "" {
		document.Facts.Joined = &nodereport.Joined{NodeName: node, Release: release, KubeletVersion: "v1.36.2"}
	}
	return map[string]any{"failed": false, "changed": false, "document": document, "seconds": 0.4}
}

func node(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{cluster.VersionAnnotation: "0.1.0"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func cordonedByUs(n *corev1.Node) {
	cordoned(n)
	n.Annotations[cluster.CordonedAnnotation] = "2026-01-01T00:00:00Z"
}
func nobodysOfOurs(n *corev1.Node) {
	delete(n.Annotations, cluster.VersionAnnotation)
}

func planOf(t *testing.T, release, maxUnavailable string, hosts map[string]any, order []string, nodes ...*corev1.Node) Result {
	t.Helper()
	b, err := parseBound(maxUnavailable)
	require.NoError(t, err)
	byName := map[string]*corev1.Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	result, err := plan(&Args{Hosts: hosts, Order: order}, semver.MustParse(release), b, byName)
	require.NoError(t, err)
	return result
}

func TestEveryHostHasItsAction(t *testing.T) {
	for name, c := range map[string]struct {
		release string
		node    *corev1.Node
		action  string
	}{
		"a fresh machine joins":                                         {"", nil, Join},
		"an older release is upgraded":                                  {"0.1.9", node("n"), Upgrade},
		"numbers are compared as numbers":                               {"0.10.0", node("n"), Downgrade},
		"a pre-release is older than its release":                       {"0.2.0-rc.1", node("n"), Upgrade},
		"the same release stays":                                        {"0.2.0", node("n"), Keep},
		"the same release that somebody else has cordoned stays":        {"0.2.0", node("n", cordoned), Keep},
		"the same release that an interrupted run has cordoned goes on": {"0.2.0", node("n", cordonedByUs), Resume},
		"a machine whose node was deleted registers again":              {"0.1.0", nil, Join},
		"a release that nobody can compare is replaced":                 {"unknown", node("n"), Upgrade},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			if c.node != nil {
				nodes = append(nodes, c.node)
			}
			result := planOf(t, "0.2.0", "1", map[string]any{"h": preflight("n", c.release)}, []string{"h"}, nodes...)
			assert.Equal(t, c.action, result.Hosts["h"].Action)
			assert.Equal(t, c.action == Upgrade || c.action == Downgrade || c.action == Resume, len(result.Rollout) == 1)
			assert.Equal(t, c.action == Downgrade, len(result.Downgrades) == 1)
			if c.release != "" {
				assert.Equal(t, Step{c.action, "n", c.release, "v1.36.2"}, result.Hosts["h"])
			}
		})
	}
}

func TestNodesThatAreOutOfServiceGoFirstAndCount(t *testing.T) {
	hosts := map[string]any{"failed": map[string]any{"failed": true, "document": nil}}
	for _, name := range []string{"a", "b", "c", "d"} {
		hosts[name] = preflight(name, "0.1.0")
	}
	order := []string{"a", "b", "failed", "c", "d"}
	result := planOf(t, "0.2.0", "3", hosts, order, node("a"), node("b", notReady), node("c"), node("d", cordoned),
		node("elsewhere", notReady), node("linux", notReady, nobodysOfOurs), node("fine"))
	assert.Equal(t, []string{"b", "d", "a", "c"}, result.Rollout)
	assert.Equal(t, []string{"elsewhere"}, result.Unavailable)
	assert.Equal(t, 3, result.MaxUnavailable)
	assert.Equal(t, 2, result.AtOnce)
	assert.NotContains(t, result.Hosts, "failed")

	result = planOf(t, "0.2.0", "1", hosts, order, node("a"), node("b"), node("c"), node("d"), node("elsewhere", notReady))
	assert.Equal(t, 1, result.AtOnce, "one at a time at least; the cordon waits for the other node")
}

func TestABoundIsNeverRoundedToNothingNorPastIt(t *testing.T) {
	for text, wants := range map[string]map[int]int{
		"1": {1: 1, 10: 1}, "2": {1: 2, 10: 2}, "25%": {1: 1, 3: 1, 7: 1, 8: 2, 11: 2, 12: 3}, "100%": {4: 4}, "1%": {50: 1, 199: 1, 200: 2}, " 30% ": {10: 3},
	} {
		b, err := parseBound(text)
		require.NoError(t, err, text)
		for nodes, want := range wants {
			assert.Equal(t, want, b.of(nodes), fmt.Sprint(text, " of ", nodes))
		}
	}
	for _, text := range []string{"0", "0%", "-1", "101%", "1.5", "half", "", "%", "1 %"} {
		_, err := parseBound(text)
		assert.True(t, reason.Is(err, reason.ArgumentInvalid), text)
	}
}
