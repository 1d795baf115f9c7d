package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible"
)

func run(t *testing.T, arguments map[string]any) (result map[string]any, stderr string) {
	t.Helper()
	content, err := json.Marshal(arguments)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "arguments")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	var out, errs bytes.Buffer
	ansible.Run(t.Context(), Module, []string{file}, &out, &errs)
	require.NoError(t, json.Unmarshal(out.Bytes(), &result), out.String())
	return result, errs.String()
}

var twoHosts = []map[string]any{
	{"host": "winhost1", "node": "winhost1", "release": "0.1.0", "kubelet_version": "v1.36.3", "result": "joined", "phases": map[string]float64{"preflight": 0.42, "transfer": 3.14, "ready": 1}},
	{"host": "winhost2", "result": "failed", "failed_phase": "preflight", "reason": "runtime_missing", "msg": "winhost2: no container runtime was found.\nInstall containerd \x1b[31mnow\x1b[0m.",
		"archive": "/tmp/reports/wmcb-collect-winhost2.zip", "phases": map[string]float64{"preflight": 0.5}},
}

func TestTableAndFileSayTheSame(t *testing.T) {
	dir := t.TempDir()
	result, stderr := run(t, map[string]any{"hosts": twoHosts, "dest": dir, "phase_order": []string{"preflight", "transfer", "ready"}})
	require.Equal(t, false, result["failed"], result["msg"])
	assert.Equal(t, false, result["changed"])
	want := `Windows nodes: 2 hosts: 1 failed, 1 joined
HOST      NODE      RELEASE  KUBELET  RESULT  SECONDS
winhost1  winhost1  0.1.0    v1.36.3  joined  4.6
winhost2  -         -        -        failed  0.5

Seconds by phase
HOST      preflight  transfer  ready
winhost1  0.4        3.1       1.0
winhost2  0.5        -         -

winhost2 failed in phase preflight (runtime_missing)
    winhost2: no container runtime was found. Install containerd ?[31mnow?[0m.
    support archive: /tmp/reports/wmcb-collect-winhost2.zip
`
	assert.Equal(t, want, result["table"])
	assert.Contains(t, stderr, "wsu-progress ")

	path := result["path"].(string)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var written document
	require.NoError(t, json.Unmarshal(content, &written))
	assert.Equal(t, "Report", written.Kind)
	assert.Equal(t, map[string]int{"joined": 1, "failed": 1}, written.Totals)
	assert.InDelta(t, 3.14, written.Hosts[0].Phases["transfer"], 0)
	left, err := filepath.Glob(filepath.Join(dir, ".wsu-report-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWhatBecameOfARollOutIsSaidHostByHost(t *testing.T) {
	text := table("Roll-out", []Host{
		{Host: "a", Result: "rolled back", FailedPhase: "apply", Reason: "kubelet_unhealthy", Msg: "a: it exits.", Note: "it runs 0.1.0 as before"},
		{Host: "b", Result: "not reached", Note: "it runs 0.1.0; the roll-out stopped before it"},
		{Host: "c", Result: "unchanged"},
		{Host: "d", Result: "drifted", Differences: []string{"label x is missing", "kubelet.conf: maxPods is 5, not 250"}},
	}, nil)
	assert.Contains(t, text, `
a rolled back, failed in phase apply (kubelet_unhealthy)
    a: it exits.
    it runs 0.1.0 as before

b
    it runs 0.1.0; the roll-out stopped before it

d
    - label x is missing
    - kubelet.conf: maxPods is 5, not 250
`)
}

func TestTheTableFitsWhateverTheNames(t *testing.T) {
	long := strings.Repeat("windows-server-", 8)
	phases := map[string]float64{}
	var order []string
	for _, name := range strings.Fields("preflight transfer enroll client_csr apply serving_csr ready labels report clean_up something_else") {
		phases[name] = 123456.7
		order = append(order, name)
	}
	hosts := []Host{
		{Host: long, Node: long, Release: long, KubeletVersion: long, Result: "would change", Phases: phases, Note: strings.Repeat("x", 400)},
		{Host: "b", Result: "failed", Msg: strings.Repeat("word ", 60), Archive: "/" + long + long},
	}
	for line := range strings.SplitSeq(table("a title", hosts, order), "\n") {
		assert.LessOrEqual(t, len(line), width, line)
		for _, r := range line {
			assert.True(t, r >= ' ' && r <= '~')
		}
	}
}

func TestAFileThatCannotBeWrittenIsNamed(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	result, _ := run(t, map[string]any{"hosts": twoHosts, "dest": filepath.Join(blocked, "report.json")})
	assert.Equal(t, "access_denied", result["reason"])
	assert.Contains(t, result["msg"], blocked)
	assert.NotEmpty(t, result["table"], "the table is there all the same")
}
