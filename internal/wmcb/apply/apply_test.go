package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
	"wsu.windows/internal/wmcb/wmcbtest"
)

func TestTheFirstApplyJoinsAndTheSecondChangesNothing(t *testing.T) {
	n := wmcbtest.New(t)
	require.NoError(t, os.MkdirAll(n.Path("var", "lib", "cni", "networks"), 0o755))
	spec := n.Spec("1.0.0")
	report, err := n.Apply(spec)
	require.NoError(t, err)
	require.True(t, report.OK && report.Changed)
	require.NoDirExists(t, n.Path("var", "lib", "cni"))
	require.NoDirExists(t, n.Path("var", "lib", "cni.before-wsu"))
	require.Contains(t, n.Firewall.Rules, "wsu-kubelet")
	before := n.Files()
	pid, _ := n.Machine.Status(apply.KubeletService)
	again, err := n.Apply(spec)
	require.NoError(t, err)
	require.False(t, again.Changed)
	require.Empty(t, wmcbtest.Changed(again))
	after, _ := n.Machine.Status(apply.KubeletService)
	require.Equal(t, pid, after)
	require.Equal(t, before, n.Files())
	require.Equal(t, 1, n.Enrolled)
}

func TestNoSecretIsInTheReport(t *testing.T) {
	n := wmcbtest.New(t)
	spec := n.Spec("1.0.0")
	spec.Proxy = &nodespec.Proxy{HTTPS: "http://user:hunter2@proxy:3128"}
	report, err := n.Apply(spec)
	require.NoError(t, err)
	raw, err := json.Marshal(report)
	require.NoError(t, err)
	worker, err := ignition.Parse(n.Ignition)
	require.NoError(t, err)
	for line := range strings.Lines(string(worker.BootstrapKubeconfig)) {
		if _, token, found := strings.Cut(line, "token: "); found {
			require.NotContains(t, string(raw), strings.TrimSpace(token))
		}
	}
	require.NotContains(t, string(raw), "hunter2")
	config, _ := n.Machine.Config(apply.KubeletService)
	require.Equal(t, []string{"HTTPS_PROXY=http://user:hunter2@proxy:3128"}, config.Environment)
}

func texts(steps []apply.Step) string {
	var lines []string
	for _, step := range steps {
		for _, text := range drift.Texts(step.Drift) {
			lines = append(lines, step.Name+": "+text)
		}
	}
	return strings.Join(lines, "\n")
}

func TestDriftIsNamedAndPutRight(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(n *wmcbtest.Node)
		step    string
		drift   string
		restart bool
	}{
		"a configuration field": {func(n *wmcbtest.Node) {
			path := n.Path("k", "releases", "1.0.0", "kubelet.conf")
			raw, _ := os.ReadFile(path)
			_ = os.WriteFile(path, []byte(strings.Replace(string(raw), "kubeAPIQPS: 50", "kubeAPIQPS: 5", 1)), 0o600)
		}, "kubelet-config", "kubeAPIQPS: 5, not 50", true},
		"a program": {func(n *wmcbtest.Node) {
			_ = os.Remove(n.Path("k", "releases", "1.0.0", "kubelet.exe"))
			_ = os.WriteFile(n.Path("k", "releases", "1.0.0", "kubelet.exe"), []byte("x"), 0o600)
		}, "release-file kubelet.exe", "content: SHA-256 2d711642b726", true},
		"an access right":  {func(n *wmcbtest.Node) { _ = os.Chmod(n.Path("k", "bootstrap-kubeconfig"), 0o644) }, "bootstrap-kubeconfig", "access: it is open to others", false},
		"a folder's right": {func(n *wmcbtest.Node) { _ = os.Chmod(n.Path("var", "log", "kubelet"), 0o755) }, "", "access: it is open to others", false},
		"a start type": {func(n *wmcbtest.Node) {
			config, _ := n.Machine.Config(apply.KubeletService)
			config.StartType = winservice.StartManual
			_ = n.Machine.Update(apply.KubeletService, *config)
		}, "kubelet-service", "start type: 'manual', not 'auto'", false},
		"an argument": {func(n *wmcbtest.Node) {
			config, _ := n.Machine.Config(apply.KubeletService)
			config.CommandLine += " --v=9"
			_ = n.Machine.Update(apply.KubeletService, *config)
		}, "kubelet-service", "argument --v: '2, 9', not '2'", true},
		"a firewall rule": {func(n *wmcbtest.Node) { delete(n.Firewall.Rules, "wsu-kubelet") }, "firewall-rule", drift.Missing, false},
		"a stopped kubelet": {func(n *wmcbtest.Node) { _, _ = n.Machine.Stop(context.Background(), apply.KubeletService) },
			"kubelet-running", "it is stopped, not running", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := wmcbtest.New(t)
			spec := n.Spec("1.0.0")
			_, err := n.Apply(spec)
			require.NoError(t, err)
			want, _ := n.Machine.Status(apply.KubeletService)
			c.spoil(n)
			found, err := state.Load(spec.Paths.Install)
			require.NoError(t, err)
			steps, err := apply.Drift(t.Context(), spec, found, n.Host())
			require.NoError(t, err)
			require.Contains(t, texts(steps), c.drift)
			report, err := n.Apply(spec)
			require.NoError(t, err)
			if c.step != "" {
				require.Contains(t, strings.Join(wmcbtest.Changed(report)[c.step], "\n"), c.drift)
			}
			have, _ := n.Machine.Status(apply.KubeletService)
			require.Equal(t, c.restart, want.PID != have.PID, "restarted: %v", wmcbtest.Changed(report))
			again, err := n.Apply(spec)
			require.NoError(t, err)
			require.Empty(t, wmcbtest.Changed(again))
		})
	}
}

func TestAFailedUpgradeLeavesTheOldReleaseRunning(t *testing.T) {
	n := wmcbtest.New(t)
	one := n.Spec("1.0.0")
	_, err := n.Apply(one)
	require.NoError(t, err)
	before := n.Files()
	two := n.Spec("2.0.0")
	two.Kubelet.Config["maxPods"] = 7 // a kubelet of release 2.0.0 does not come up with it
	report, err := n.Apply(two)
	require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
	require.True(t, report.RolledBack)
	require.False(t, report.OK)
	require.Equal(t, before, n.Files())
	require.Contains(t, n.Machine.Running(apply.KubeletService).CommandLine, "1.0.0")
	require.NoDirExists(t, n.Path("k", "releases", "2.0.0"))
}

func TestAFailedJoinLeavesNoServiceAndNoRule(t *testing.T) {
	n := wmcbtest.New(t)
	spec := n.Spec("1.0.0")
	spec.Kubelet.Config["maxPods"] = 7
	report, err := n.Apply(spec)
	require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
	require.True(t, report.RolledBack)
	require.Empty(t, n.Machine.Names())
	require.Empty(t, n.Firewall.Rules)
	require.NoFileExists(t, n.Path("k", "bootstrap-kubeconfig"))
}

func TestAMissingFileIsNamedAndADryRunOfAFreshHostGoesOn(t *testing.T) {
	n := wmcbtest.New(t)
	spec := n.Spec("1.0.0")
	require.NoError(t, os.RemoveAll(n.Path("k", "store")))
	_, err := n.Apply(spec)
	require.True(t, reason.Is(err, reason.FileMissing), "%v", err)
	report, err := apply.Run(t.Context(), apply.Options{Spec: spec, DryRun: true, Host: n.Host()})
	require.NoError(t, err)
	require.Contains(t, wmcbtest.Changed(report), "kubelet-config")
	require.Contains(t, wmcbtest.Changed(report), "release-file kubelet.exe")
}

func TestAForeignKubeletIsRefused(t *testing.T) {
	n := wmcbtest.New(t)
	require.NoError(t, n.Machine.Create(t.Context(), "kubelet", winservice.Config{CommandLine: `C:\rke2\kubelet.exe`, StartType: winservice.StartAuto}))
	_, err := n.Apply(n.Spec("1.0.0"))
	require.True(t, reason.Is(err, reason.ForeignKubelet), "%v", err)
	config, _ := n.Machine.Config("kubelet")
	require.Equal(t, `C:\rke2\kubelet.exe`, config.CommandLine)
}

func TestAPendingCertificateFailsWithTheRequestsName(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := apply.Run(t.Context(), apply.Options{Spec: n.Spec("1.0.0"), Host: n.Host(),
		Enroll: func(context.Context, *nodespec.NodeSpec, time.Duration) (nodereport.Enroll, error) {
			return nodereport.Enroll{State: nodereport.CertificatePending, CSR: "node-csr-x"}, nil
		}})
	require.True(t, reason.Is(err, reason.CertificateNotIssued), "%v", err)
	require.Equal(t, "CSR node-csr-x", reason.Of(err).Object)
}

func TestAnOldStateOfANewerFormatIsRefused(t *testing.T) {
	n := wmcbtest.New(t)
	spec := n.Spec("1.0.0")
	require.NoError(t, os.WriteFile(n.Path("k", state.FileName), []byte(`{"format":99}`), 0o600))
	_, err := n.Apply(spec)
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
}

// TestAPowerCutAtEveryBoundaryLeavesTheOldOrTheNewRelease cuts the power at every boundary of join and upgrade: at each the machine boots
// into a whole release or none, and applying again converges. A second cut hits the recovery itself.
func TestAPowerCutAtEveryBoundaryLeavesTheOldOrTheNewRelease(t *testing.T) {
	cuts, runs := 0, map[string]int{}
	for _, old := range []string{"", "1.0.0"} {
		for at := 1; ; at++ {
			n := wmcbtest.New(t)
			if old != "" {
				_, err := n.Apply(n.Spec(old))
				require.NoError(t, err)
			}
			two := n.Spec("2.0.0")
			run := func() error {
				_, err := n.Apply(two)
				return err
			}
			alive, err := n.MayCrash(at, run)
			if alive {
				require.NoError(t, err)
				break
			}
			cuts++
			runs[n.RequireWholeAfterBoot(old)]++
			alive, err = n.MayCrash(1+at%7, run) // and again, in the recovery
			require.NoError(t, err)
			if !alive {
				cuts++
				n.RequireWholeAfterBoot(old)
			}
			require.NoError(t, run())
			require.Equal(t, "2.0.0", n.RequireWholeAfterBoot(old))
			require.NoFileExists(t, n.Path("k", state.JournalName))
			require.NoDirExists(t, n.Path("k", state.UndoName))
			again, err := n.Apply(two)
			require.NoError(t, err)
			require.Empty(t, wmcbtest.Changed(again))
		}
	}
	t.Logf("%d power cuts; after the first one the machine booted into %v", cuts, runs)
	require.Greater(t, cuts, 60)
}

func TestAnInterruptedApplyIsUndoneAndSaysSo(t *testing.T) {
	n := wmcbtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	report, err := apply.Run(ctx, apply.Options{Spec: n.Spec("1.0.0"), Host: n.Host(),
		Enroll: func(context.Context, *nodespec.NodeSpec, time.Duration) (nodereport.Enroll, error) {
			cancel()
			return nodereport.Enroll{}, errors.New("cut off: " + context.Canceled.Error())
		}})
	require.Error(t, err)
	require.True(t, report.RolledBack)
	require.Empty(t, n.Machine.Names())
}
