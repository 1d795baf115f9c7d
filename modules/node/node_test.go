package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/testcluster"
)

type outcome struct {
	Result
	Changed, Failed     bool
	Msg, Reason, Object string
	Diff                []ansible.Diff
}

// run runs the module as Ansible does.
func run(t *testing.T, arguments map[string]any) outcome {
	t.Helper()
	content, err := json.Marshal(arguments)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "arguments")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	var stdout, stderr bytes.Buffer
	ansible.Run(t.Context(), Module, []string{file}, &stdout, &stderr)
	var result outcome
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &result), stdout.String())
	return result
}

// node is a Node as a kubelet registers it.
func node(name, uuid string, ready string, message string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %[1]s}, status: {
conditions: [{type: Ready, status: %[3]q, reason: KubeletTest, message: %[4]q, lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}],
nodeInfo: {systemUUID: %[2]q, machineID: %[1]q, bootID: "", kernelVersion: "", osImage: Windows Server 2022, containerRuntimeVersion: "", kubeletVersion: v1.36.3, kubeProxyVersion: "", operatingSystem: windows, architecture: amd64}}}`,
		name, uuid, ready, message)
}

func get(t *testing.T, c *testcluster.Cluster, name string) corev1.Node {
	t.Helper()
	var n corev1.Node
	c.Get(t, "/api/v1/nodes/"+name, &n)
	return n
}

func TestAgainstARealAPIServer(t *testing.T) {
	c := testcluster.Start(t)
	admin := c.Kubeconfig(t, testcluster.AdminToken)
	arguments := func(name string, more ...map[string]any) map[string]any {
		all := map[string]any{"kubeconfig": admin, "name": name, "timeout": 60}
		for _, m := range more {
			for key, value := range m {
				all[key] = value
			}
		}
		return all
	}
	labels := map[string]any{
		"labels": map[string]string{"node-role.kubernetes.io/worker": ""}, "annotations": map[string]string{cluster.VersionAnnotation: "0.1.0"}, "taints": []string{"os=Windows:NoSchedule"},
	}

	t.Run("waits for a node that registers and becomes Ready, and labels it once", func(t *testing.T) {
		go func() {
			time.Sleep(500 * time.Millisecond)
			c.Apply(t, node("w1", "UUID-1", "False", "cni plugin not initialized"))
			time.Sleep(500 * time.Millisecond)
			c.Apply(t, node("w1", "UUID-1", "True", "kubelet is posting ready status"))
		}()
		wanted := arguments("w1", labels, map[string]any{"system_uuid": "uuid-1", "_ansible_diff": true})
		result := run(t, wanted)
		require.False(t, result.Failed, result.Msg)
		assert.True(t, result.Changed)
		assert.NotEmpty(t, result.Diff)
		assert.True(t, result.Node.Ready)
		assert.Equal(t, "v1.36.3", result.Node.Version)
		seen := get(t, c, "w1")
		assert.Contains(t, seen.Labels, "node-role.kubernetes.io/worker")
		assert.Equal(t, "0.1.0", seen.Annotations[cluster.VersionAnnotation])
		assert.Contains(t, seen.Spec.Taints, corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule})

		again := run(t, wanted)
		assert.False(t, again.Changed, "the second time nothing is written")
		assert.Equal(t, seen.ResourceVersion, get(t, c, "w1").ResourceVersion)
	})

	t.Run("puts its own labels right and leaves the user's alone", func(t *testing.T) {
		c.Request(t, testcluster.AdminToken, http.MethodPatch, "/api/v1/nodes/w1", "application/merge-patch+json",
			[]byte(`{"metadata": {"labels": {"mine": "yes", "node-role.kubernetes.io/worker": null}}, "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}}`))
		check := run(t, arguments("w1", labels, map[string]any{"state": "labelled", "_ansible_check_mode": true, "_ansible_diff": true}))
		require.False(t, check.Failed, check.Msg)
		assert.True(t, check.Changed)
		assert.NotContains(t, get(t, c, "w1").Labels, "node-role.kubernetes.io/worker", "check mode changes nothing")

		result := run(t, arguments("w1", labels, map[string]any{"state": "labelled"}))
		assert.True(t, result.Changed)
		seen := get(t, c, "w1")
		assert.Equal(t, "yes", seen.Labels["mine"])
		assert.Contains(t, seen.Labels, "node-role.kubernetes.io/worker")
		assert.Len(t, seen.Spec.Taints, 2)

		other := map[string]any{"state": "labelled", "labels": map[string]string{"zone": "a"}, "annotations": map[string]string{cluster.VersionAnnotation: "0.1.0"}}
		assert.True(t, run(t, arguments("w1", other)).Changed)
		seen = get(t, c, "w1")
		assert.NotContains(t, seen.Labels, "node-role.kubernetes.io/worker", "what WSU put there and does not name any more goes away")
		assert.Equal(t, "yes", seen.Labels["mine"])
		assert.False(t, run(t, arguments("w1", other)).Changed)
	})

	t.Run("refuses a node of that name that is another machine, in every state", func(t *testing.T) {
		for _, state := range []string{"ready", "absent", "cordoned", "drained", "labelled"} {
			result := run(t, arguments("w1", labels, map[string]any{"state": state, "system_uuid": "UUID-2"}))
			assert.Equal(t, "foreign_node", result.Reason, state)
			assert.Contains(t, result.Msg, "UUID-2")
			assert.False(t, result.Changed, state)
		}
		assert.NotContains(t, get(t, c, "w1").Labels, "node-role.kubernetes.io/worker")
	})

	t.Run("cordons and uncordons only where that changes something", func(t *testing.T) {
		for _, step := range []struct {
			state            string
			changed, cordons bool
		}{{"cordoned", true, true}, {"cordoned", false, true}, {"uncordoned", true, false}, {"uncordoned", false, false}} {
			result := run(t, arguments("w1", map[string]any{"state": step.state}))
			require.False(t, result.Failed, result.Msg)
			assert.Equal(t, step.changed, result.Changed, step.state)
			assert.Equal(t, step.cordons, get(t, c, "w1").Spec.Unschedulable)
		}
		result := run(t, arguments("w1", map[string]any{"state": "cordoned", "_ansible_check_mode": true}))
		assert.True(t, result.Changed)
		assert.False(t, get(t, c, "w1").Spec.Unschedulable)
	})

	t.Run("somebody else's cordon stays, ours goes, in one write with the release that was asked for", func(t *testing.T) {
		unschedulable := func(value string) {
			c.Request(t, testcluster.AdminToken, http.MethodPatch, "/api/v1/nodes/w1", "application/merge-patch+json", []byte(`{"spec": {"unschedulable": `+value+`}}`))
		}
		unschedulable("true")
		release := map[string]any{"release": "0.2.0"}
		result := run(t, arguments("w1", release, map[string]any{"state": "cordoned"}))
		assert.False(t, result.Node.CordonedByUs)
		assert.Equal(t, "0.2.0", get(t, c, "w1").Annotations[cluster.DesiredVersionAnnotation])
		assert.Equal(t, "0.1.0", get(t, c, "w1").Annotations[cluster.VersionAnnotation], "what runs is still the old one")
		result = run(t, arguments("w1", map[string]any{"state": "uncordoned"}))
		assert.False(t, result.Changed)
		assert.Contains(t, result.Msg, "somebody else")
		assert.True(t, get(t, c, "w1").Spec.Unschedulable)

		unschedulable("null")
		assert.True(t, run(t, arguments("w1", map[string]any{"state": "cordoned"})).Node.CordonedByUs)
		assert.True(t, run(t, arguments("w1", map[string]any{"state": "drained"})).Node.CordonedByUs, "an interrupted run is taken up")
		assert.True(t, run(t, arguments("w1", map[string]any{"state": "uncordoned"})).Changed)
		assert.NotContains(t, get(t, c, "w1").Annotations, cluster.CordonedAnnotation)

		assert.True(t, run(t, arguments("w1", release, map[string]any{"state": "labelled"})).Changed)
		assert.Equal(t, "0.2.0", get(t, c, "w1").Annotations[cluster.VersionAnnotation])
		assert.Contains(t, get(t, c, "w1").Labels, "zone", "labels that the task does not speak of stay")
	})

	t.Run("waits for nodes that are out of service, whoever took them out", func(t *testing.T) { slots(t, c, arguments) })
	t.Run("names the differences without changing anything", func(t *testing.T) { inspects(t, c, arguments) })

	t.Run("names the gate where a node stopped", func(t *testing.T) { gates(t, c, arguments) })
	t.Run("drains", func(t *testing.T) { drains(t, c, arguments) })

	t.Run("deletes the node once, and only this machine's", func(t *testing.T) {
		assert.Equal(t, "argument_invalid", run(t, arguments("w1", map[string]any{"state": "absent"})).Reason)
		result := run(t, arguments("w1", map[string]any{"state": "absent", "system_uuid": "UUID-1", "_ansible_check_mode": true}))
		assert.True(t, result.Changed)
		get(t, c, "w1")
		submit(t, c, "w1")
		submit(t, c, "w10")
		result = run(t, arguments("w1", map[string]any{"state": "absent", "system_uuid": "UUID-1"}))
		assert.True(t, result.Changed, result.Msg)
		var left struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		c.Get(t, csrs[:len(csrs)-1], &left)
		assert.NotContains(t, fmt.Sprint(left), "{{w1}}", "its requests are gone, too")
		assert.Contains(t, fmt.Sprint(left), "{{w10}}")
		result = run(t, arguments("w1", map[string]any{"state": "absent", "system_uuid": "UUID-1"}))
		assert.False(t, result.Changed)
		assert.False(t, result.Failed)
	})
}

func gates(t *testing.T, c *testcluster.Cluster, arguments func(string, ...map[string]any) map[string]any) {
	short := map[string]any{"timeout": 1}
	t.Run("no CSR", func(t *testing.T) {
		result := run(t, arguments("g1", short))
		assert.Equal(t, "node_not_registered", result.Reason)
		assert.Equal(t, "no_csr", result.Gate)
	})
	t.Run("a CSR that nobody approved", func(t *testing.T) {
		submit(t, c, "g2")
		result := run(t, arguments("g2", short))
		assert.Equal(t, "csr_refused", result.Gate)
		assert.Contains(t, result.Msg, "csr g2: it is pending")
	})
	t.Run("a certificate, but no node", func(t *testing.T) {
		submit(t, c, "g3")
		approve(t, c, "g3")
		result := run(t, arguments("g3", short))
		assert.Equal(t, "not_registered", result.Gate)
		assert.Contains(t, result.Msg, "its certificate is issued")
	})
	t.Run("a node that is not Ready, with the condition's message and what to do", func(t *testing.T) {
		c.Apply(t, node("g4", "U", "False", "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"))
		result := run(t, arguments("g4", short))
		assert.Equal(t, "node_not_ready", result.Reason)
		assert.Equal(t, "not_ready", result.Gate)
		assert.Contains(t, result.Msg, "NetworkPluginNotReady")
		assert.Contains(t, result.Msg, "CNI configuration")
		assert.False(t, result.Node.Ready)
	})
	t.Run("a node that still runs the old kubelet", func(t *testing.T) {
		c.Apply(t, node("g5", "U", "True", ""))
		result := run(t, arguments("g5", short, map[string]any{"kubelet_version": "v1.36.4"}))
		assert.Equal(t, "not_ready", result.Gate)
		assert.Contains(t, result.Msg, "v1.36.4")
	})
	t.Run("a name that only begins like another's is no match", func(t *testing.T) {
		assert.Equal(t, "no_csr", run(t, arguments("g", short)).Gate)
	})
}

const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests/"

func submit(t *testing.T, c *testcluster.Cluster, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}}, key)
	require.NoError(t, err)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": []string{"digital signature", "client auth"}},
	})
	require.NoError(t, err)
	c.Request(t, testcluster.BootstrapToken, http.MethodPost, csrs[:len(csrs)-1], "application/json", body)
}

func approve(t *testing.T, c *testcluster.Cluster, name string) {
	t.Helper()
	var csr map[string]any
	c.Get(t, csrs+name, &csr)
	csr["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "True", "reason": "Test"}}}
	body, err := json.Marshal(csr)
	require.NoError(t, err)
	c.Request(t, testcluster.AdminToken, http.MethodPut, csrs+name+"/approval", "application/json", body)
	require.Eventually(t, func() bool {
		var signed struct{ Status struct{ Certificate []byte } }
		c.Get(t, csrs+name, &signed)
		return len(signed.Status.Certificate) > 0
	}, time.Minute, 50*time.Millisecond)
}

func pod(name, owner, volumes string) string {
	owners := ""
	if owner != "" {
		owners = fmt.Sprintf(`, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: x, uid: "1", controller: true}]`, owner)
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default, labels: {app: %s}%s},
spec: {nodeName: d1, automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, containers: [{name: c, image: x}], volumes: [%s]},
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, name, name, owners, volumes)
}

func drains(t *testing.T, c *testcluster.Cluster, arguments func(string, ...map[string]any) map[string]any) {
	c.Apply(t, node("d1", "U", "True", ""))
	c.Apply(t, pod("managed", "ReplicaSet", ""))
	c.Apply(t, pod("daemon", "DaemonSet", ""))
	c.Apply(t, pod("lonely", "", ""))
	c.Apply(t, pod("scratch", "ReplicaSet", "{name: s, emptyDir: {}}"))
	drained := map[string]any{"state": "drained", "timeout": 3}
	losses := map[string]any{"delete_unmanaged": true, "delete_emptydir_data": true}

	t.Run("nothing is evicted before the user allows what would be lost", func(t *testing.T) {
		result := run(t, arguments("d1", drained))
		assert.Equal(t, "drain_blocked", result.Reason)
		assert.Contains(t, result.Msg, "default/lonely has no controller")
		assert.Contains(t, result.Msg, "default/scratch has data in an emptyDir")
		assert.Empty(t, result.Evicted)
		get(t, c, "d1")
	})

	t.Run("check mode counts the pods", func(t *testing.T) {
		result := run(t, arguments("d1", drained, losses, map[string]any{"_ansible_check_mode": true}))
		assert.Contains(t, result.Msg, "drained of 3 pods")
	})

	t.Run("a PodDisruptionBudget is respected, and the message names it and the pod", func(t *testing.T) {
		c.Apply(t, `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: keep, namespace: default}, spec: {minAvailable: 1, selector: {matchLabels: {app: managed}}}}`)
		result := run(t, arguments("d1", drained, losses))
		assert.Equal(t, "drain_blocked", result.Reason, result.Msg)
		assert.Contains(t, result.Msg, "default/managed")
		assert.ElementsMatch(t, []string{"default/lonely", "default/scratch"}, result.Evicted)
		assert.Equal(t, []string{"default/daemon"}, result.Skipped)
		c.Delete(t, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep")
	})

	t.Run("evicts the rest, leaves DaemonSets, and the second time does nothing", func(t *testing.T) {
		result := run(t, arguments("d1", drained, losses, map[string]any{"timeout": 60}))
		require.False(t, result.Failed, result.Msg)
		assert.Equal(t, []string{"default/managed"}, result.Evicted)
		assert.True(t, get(t, c, "d1").Spec.Unschedulable)
		again := run(t, arguments("d1", drained))
		assert.False(t, again.Changed)
		assert.False(t, again.Failed)
	})
}

type fixedLog []string

func (l fixedLog) KubeletLog(context.Context, int) ([]string, error) { return l, nil }

func TestTheKubeletsLastLinesStandInTheMessage(t *testing.T) {
	client, err := cluster.NewClient((&testcluster.Cluster{URL: "https://127.0.0.1:1"}).Config(""))
	require.NoError(t, err)
	task := &task{client: client, env: &ansible.Env{}, args: &Args{Name: "w1", LogLines: 5, Timeout: 1}, log: fixedLog{"one", "two", "unknown flag"}}
	failure := task.stuck(t.Context(), &corev1.Node{}, nil)
	assert.ErrorContains(t, failure, "unknown flag")
	assert.Equal(t, []string{"one", "two", "unknown flag"}, task.result.KubeletLog)
}

func TestTaints(t *testing.T) {
	for _, wrong := range []string{"os=Windows", "os=Windows:Never", "=x:NoSchedule", ""} {
		_, err := parseTaints([]string{wrong})
		assert.Error(t, err, wrong)
	}
	wanted, err := parseTaints([]string{"os=Windows:NoSchedule", "dedicated:NoExecute"})
	require.NoError(t, err)
	merged, changed := mergeTaints([]corev1.Taint{{Key: "os", Value: "Linux", Effect: "NoSchedule"}, {Key: "os", Effect: "NoExecute"}}, wanted)
	assert.True(t, changed)
	assert.Len(t, merged, 3)
	_, changed = mergeTaints(merged, wanted)
	assert.False(t, changed)
}
