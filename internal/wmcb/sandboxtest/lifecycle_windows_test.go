//go:build sandbox

package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/enroll"
	"wsu.windows/internal/wmcb/remove"
	"wsu.windows/internal/wmcb/rollback"
	"wsu.windows/internal/wmcb/state"
	"wsu.windows/internal/wmcb/status"
)

const install = `C:\k`

func payload(t *testing.T, name string) string {
	folder := os.Getenv("WSU_TEST_PAYLOAD")
	if folder == "" {
		folder = `C:\payload`
	}
	path := filepath.Join(folder, name)
	_, err := os.Stat(path)
	require.NoError(t, err)
	return path
}

// stored puts content into the store, as `wmcb receive` does.
func stored(t *testing.T, path string) (digest string, size int64) {
	t.Helper()
	digest, err := securefile.Digest(path)
	require.NoError(t, err)
	store := filepath.Join(install, "store")
	require.NoError(t, securefile.MakeFolder(install))
	require.NoError(t, securefile.MakeFolder(store))
	require.NoError(t, securefile.Copy(path, filepath.Join(store, digest), digest))
	info, err := os.Stat(path)
	require.NoError(t, err)
	return digest, info.Size()
}

func newSpec(t *testing.T, release, kubelet string) *nodespec.NodeSpec {
	t.Helper()
	kubeletDigest, kubeletSize := stored(t, payload(t, kubelet))
	runnerDigest, runnerSize := stored(t, payload(t, "kube-log-runner.exe"))
	ignitionDigest, _ := stored(t, payload(t, "worker.ign"))
	spec := &nodespec.NodeSpec{
		APIVersion: nodespec.APIVersion, Kind: nodespec.Kind, Release: release, Flavour: nodespec.FlavourOpenShift,
		Node:      nodespec.Node{Name: "winhost1", Addresses: []string{os.Getenv("WSU_TEST_NODE_IP")}},
		Bootstrap: nodespec.Bootstrap{IgnitionSHA256: ignitionDigest},
		Kubelet:   nodespec.Kubelet{Version: "v1.36.3", HealthTimeoutSeconds: 60},
		Files: []nodespec.File{
			{Name: "kubelet.exe", SHA256: kubeletDigest, Size: kubeletSize, Version: "v1.36.3"},
			{Name: "kube-log-runner.exe", SHA256: runnerDigest, Size: runnerSize, Version: "v1.36.3"},
		},
		Network: nodespec.Network{ServiceCIDRs: []string{"172.30.0.0/16"}},
	}
	nodespec.Default(spec)
	require.NoError(t, nodespec.Validate(spec))
	return spec
}

func run(t *testing.T, spec *nodespec.NodeSpec) (nodereport.Apply, error) {
	t.Helper()
	begin := time.Now()
	report, err := apply.Run(t.Context(), apply.Options{Spec: spec, Enroll: enroll.For(nil), EnrollWait: time.Minute, Host: apply.ThisHost()})
	var changed []string
	for _, step := range report.Steps {
		if step.Changed {
			changed = append(changed, fmt.Sprintf("%s %v (%d ms)", step.Name, step.Drift, step.Millis))
		}
	}
	t.Logf("apply %s took %v, changed=%v: %s; warnings %v; err %v\n%s", spec.Release, time.Since(begin).Round(time.Millisecond), report.Changed,
		strings.Join(changed, "; "), report.Warnings, err, strings.Join(report.KubeletLog, "\n"))
	return report, err
}

func changedSteps(report nodereport.Apply) []string {
	var names []string
	for _, step := range report.Steps {
		if step.Changed {
			names = append(names, step.Name)
		}
	}
	return names
}

func kubeletPID(t *testing.T) uint32 {
	t.Helper()
	found, err := winservice.OpenProcesses().Under(filepath.Join(install, "releases"))
	require.NoError(t, err)
	for _, process := range found {
		if strings.HasSuffix(process.Path, "kubelet.exe") {
			return process.PID
		}
	}
	return 0
}

func removeNode(t *testing.T) nodereport.Apply {
	t.Helper()
	report, err := remove.Run(t.Context(), remove.Options{Host: apply.ThisHost()})
	require.NoError(t, err)
	return report
}

// TestLife takes one machine through its whole life. The parts build upon each other.
func TestLife(t *testing.T) {
	services := winservice.Open()
	removeNode(t)
	one := newSpec(t, "1.0.0", "kubelet.exe")
	part := func(name string, f func(t *testing.T)) {
		if !t.Run(name, f) {
			t.Fatal("what comes next builds upon it")
		}
	}

	part("a plan changes nothing", func(t *testing.T) {
		report, err := apply.Run(t.Context(), apply.Options{Spec: one, DryRun: true, Host: apply.ThisHost()})
		require.NoError(t, err)
		require.Contains(t, changedSteps(report), "kubelet-service")
		require.NoDirExists(t, filepath.Join(install, "releases"))
		require.NoFileExists(t, filepath.Join(install, state.FileName))
	})
	part("the first apply joins", func(t *testing.T) {
		report, err := run(t, one)
		require.NoError(t, err)
		require.True(t, report.Changed)
		config, err := services.Config(apply.KubeletService)
		require.NoError(t, err)
		require.Equal(t, winservice.StartAuto, config.StartType)
		require.Equal(t, []string{"containerd"}, config.Dependencies)
		require.Len(t, config.Recovery.Restarts, 3)
		require.True(t, strings.HasPrefix(config.CommandLine, `C:\k\releases\1.0.0\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log`), config.CommandLine)
		require.NotZero(t, kubeletPID(t))
		require.NoFileExists(t, filepath.Join(install, state.JournalName))
		require.NoDirExists(t, filepath.Join(install, state.UndoName))
	})
	part("the second apply changes nothing and restarts nothing", func(t *testing.T) {
		pid := kubeletPID(t)
		before, err := os.ReadFile(filepath.Join(install, state.FileName))
		require.NoError(t, err)
		report, err := run(t, one)
		require.NoError(t, err)
		require.False(t, report.Changed)
		require.Empty(t, changedSteps(report))
		require.Equal(t, pid, kubeletPID(t))
		after, err := os.ReadFile(filepath.Join(install, state.FileName))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
	part("status knows no drift", func(t *testing.T) {
		report, err := status.Run(t.Context(), status.Options{Host: apply.ThisHost(), LogLines: 5})
		require.NoError(t, err)
		require.Empty(t, report.Drift)
		require.Equal(t, "1.0.0", report.Joined.Release)
		require.NotEmpty(t, report.ClientCertificateNotAfter)
		require.NotEmpty(t, report.KubeletLog)
		require.Equal(t, winservice.Running, report.Services[0].State)
	})
	part("drift that the kubelet does not read is put right without a restart", func(t *testing.T) {
		pid := kubeletPID(t)
		config, err := services.Config(apply.KubeletService)
		require.NoError(t, err)
		config.StartType, config.Recovery = winservice.StartManual, winservice.Recovery{}
		require.NoError(t, services.Update(apply.KubeletService, *config))
		require.NoError(t, os.WriteFile(filepath.Join(install, "kubelet-ca.crt"), []byte("x"), 0o600))
		drifted, err := status.Run(t.Context(), status.Options{Host: apply.ThisHost()})
		require.NoError(t, err)
		require.Contains(t, drifted.Drift, "kubelet-service: start type: 'manual', not 'auto'")
		report, err := run(t, one)
		require.NoError(t, err)
		require.Equal(t, []string{"kubelet-ca", "kubelet-service"}, changedSteps(report))
		require.Equal(t, pid, kubeletPID(t))
	})
	part("drift that the kubelet reads is put right with a restart", func(t *testing.T) {
		pid := kubeletPID(t)
		path := filepath.Join(install, "releases", "1.0.0", "kubelet.conf")
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(content), "maxPods: 250", "maxPods: 7", 1)), 0o600))
		report, err := run(t, one)
		require.NoError(t, err)
		require.Equal(t, []string{"kubelet-stop", "kubelet-config", "kubelet-running"}, changedSteps(report))
		i := slices.IndexFunc(report.Steps, func(s nodereport.Step) bool { return s.Name == "kubelet-config" })
		require.Equal(t, []string{"maxPods: 7, not 250"}, report.Steps[i].Drift)
		require.NotEqual(t, pid, kubeletPID(t))
	})
	part("a stopped kubelet is started", func(t *testing.T) {
		_, err := services.Stop(t.Context(), apply.KubeletService)
		require.NoError(t, err)
		report, err := run(t, one)
		require.NoError(t, err)
		require.Equal(t, []string{"kubelet-running"}, changedSteps(report))
	})
	part("a kubelet that exits at once is rolled back to the old one", func(t *testing.T) {
		broken := newSpec(t, "2.0.0", "kube-log-runner.exe")
		report, err := run(t, broken)
		require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
		require.True(t, report.RolledBack)
		require.False(t, report.Changed)
		require.NotEmpty(t, report.KubeletLog)
		require.NoDirExists(t, filepath.Join(install, "releases", "2.0.0"))
		requireRuns(t, "1.0.0")
		again, err := run(t, one)
		require.NoError(t, err)
		require.Empty(t, changedSteps(again))
	})
	part("a configuration that the kubelet refuses is rolled back", func(t *testing.T) {
		broken := newSpec(t, "2.0.0", "kubelet.exe")
		broken.Kubelet.Config = map[string]any{"featureGates": map[string]any{"NoSuchGate": true}}
		report, err := run(t, broken)
		require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
		require.True(t, report.RolledBack)
		require.Contains(t, strings.Join(report.KubeletLog, "\n"), "NoSuchGate")
		requireRuns(t, "1.0.0")
	})
	part("an upgrade runs the new release and keeps the old one", func(t *testing.T) {
		two := newSpec(t, "2.0.0", "kubelet.exe")
		report, err := run(t, two)
		require.NoError(t, err)
		require.True(t, report.Changed)
		requireRuns(t, "2.0.0")
		found, err := state.Load(install)
		require.NoError(t, err)
		require.Equal(t, "1.0.0", found.Previous.Release)
		require.DirExists(t, filepath.Join(install, "releases", "1.0.0"))
	})
	part("a downgrade is the same", func(t *testing.T) {
		_, err := run(t, one)
		require.NoError(t, err)
		requireRuns(t, "1.0.0")
	})
	part("a rollback goes back, once", func(t *testing.T) {
		_, err := run(t, newSpec(t, "2.0.0", "kubelet.exe"))
		require.NoError(t, err)
		_, err = services.Stop(t.Context(), apply.KubeletService) // it does not matter whether the present release runs
		require.NoError(t, err)
		report, err := rollback.Run(t.Context(), rollback.Options{Host: apply.ThisHost()})
		require.NoError(t, err, "%v", report.KubeletLog)
		require.Equal(t, "1.0.0", report.Release)
		requireRuns(t, "1.0.0")
		_, err = rollback.Run(t.Context(), rollback.Options{Host: apply.ThisHost()})
		require.True(t, reason.Is(err, reason.RollbackUnavailable), "%v", err)
		drifted, err := status.Run(t.Context(), status.Options{Host: apply.ThisHost()})
		require.NoError(t, err)
		require.Empty(t, drifted.Drift)
		require.Equal(t, "2.0.0", drifted.RolledBackFrom)
		again, err := run(t, one)
		require.NoError(t, err)
		require.Empty(t, changedSteps(again))
	})
	part("a kubelet that is healthy and that the API server never hears of is rolled back", func(t *testing.T) {
		deaf := newSpec(t, "2.0.0", "kubelet.exe")
		deaf.Kubelet.ExtraArgs = map[string]string{"hostname-override": "somebody-else"} // NodeRestriction refuses what it says
		deaf.Kubelet.HealthTimeoutSeconds = 30
		report, err := run(t, deaf)
		require.True(t, reason.Is(err, reason.NodeNotRegistered), "%v", err)
		require.True(t, report.RolledBack)
		require.Contains(t, strings.Join(report.KubeletLog, "\n"), "somebody-else")
		requireRuns(t, "1.0.0")
	})
	part("old releases and what only they needed are collected", func(t *testing.T) {
		for _, release := range []string{"2.0.0", "3.0.0"} {
			_, err := run(t, newSpec(t, release, "kubelet.exe"))
			require.NoError(t, err)
		}
		require.NoDirExists(t, filepath.Join(install, "releases", "1.0.0"))
		require.DirExists(t, filepath.Join(install, "releases", "2.0.0"))
		_, err := run(t, one)
		require.NoError(t, err)
		require.NoDirExists(t, filepath.Join(install, "releases", "2.0.0"))
	})
	part("remove leaves only what was not ours, and works twice", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(install, "somebodys.txt"), nil, 0o600))
		report := removeNode(t)
		require.True(t, report.Changed)
		require.Zero(t, kubeletPID(t))
		config, err := services.Config(apply.KubeletService)
		require.NoError(t, err)
		require.Nil(t, config)
		entries, err := os.ReadDir(install)
		require.NoError(t, err)
		require.Len(t, entries, 1, "%v", entries)
		require.NoDirExists(t, `C:\var\lib\kubelet`)
		require.False(t, removeNode(t).Changed)
		require.NoError(t, os.Remove(filepath.Join(install, "somebodys.txt")))
	})
}

func requireRuns(t *testing.T, release string) {
	t.Helper()
	found, err := winservice.OpenProcesses().Under(filepath.Join(install, "releases"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, process := range found {
		require.True(t, strings.HasPrefix(process.Path, filepath.Join(install, "releases", release)), process.Path)
	}
	loaded, err := state.Load(install)
	require.NoError(t, err)
	require.Equal(t, release, loaded.Current.Release)
	require.NoFileExists(t, filepath.Join(install, state.JournalName))
}
