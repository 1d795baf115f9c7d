package status_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
	"wsu.windows/internal/wmcb/status"
	"wsu.windows/internal/wmcb/wmcbtest"
)

func look(t *testing.T, n *wmcbtest.Node) nodereport.Status {
	t.Helper()
	report, err := status.Run(t.Context(), status.Options{Install: n.Path("k"), Host: n.Host()})
	require.NoError(t, err)
	return report
}

func TestEveryDifferenceIsNamedWithWhatIsSeenAndWhatShallBeAndNothingIsChanged(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	require.Empty(t, look(t, n).Differences)

	config, err := n.Machine.Config(apply.KubeletService)
	require.NoError(t, err)
	config.StartType, config.Dependencies, config.Recovery, config.CommandLine = winservice.StartManual, nil, winservice.Recovery{}, config.CommandLine+" --v=9"
	require.NoError(t, n.Machine.Update(apply.KubeletService, *config))
	release := n.Path("k", "releases", "1.0.0")
	require.NoError(t, os.Remove(release+"/kubelet.exe"))
	require.NoError(t, os.WriteFile(release+"/kubelet.exe", []byte("x"), 0o600))
	require.NoError(t, os.Remove(release+"/kube-log-runner.exe"))
	raw, err := os.ReadFile(release + "/kubelet.conf")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(release+"/kubelet.conf", []byte(strings.Replace(string(raw), "enabled: false", "enabled: true", 1)), 0o600))
	require.NoError(t, os.Chmod(n.Path("k", "bootstrap-kubeconfig"), 0o644)) //nolint:gosec // that is the point
	delete(n.Firewall.Rules, "wsu-kubelet")
	before := n.Files()

	report := look(t, n)
	find := func(step, field string) nodereport.Difference {
		for _, d := range report.Differences {
			if d.Step == step && d.Field == field {
				return d
			}
		}
		t.Errorf("no difference of %s in %q: %v", step, field, report.Drift)
		return nodereport.Difference{}
	}
	require.Equal(t, "'manual'", find("kubelet-service", "start type").Seen)
	require.Equal(t, "'auto'", find("kubelet-service", "start type").Desired)
	require.Equal(t, "[]", find("kubelet-service", "dependencies").Seen)
	require.Equal(t, "[containerd]", find("kubelet-service", "dependencies").Desired)
	require.Equal(t, "[5s 15s 1m0s]", find("kubelet-service", "recovery actions").Desired)
	require.Equal(t, "'2, 9'", find("kubelet-service", "argument --v").Seen)
	require.Equal(t, "'2'", find("kubelet-service", "argument --v").Desired)
	require.Contains(t, find("release-file kubelet.exe", "content").Seen, "SHA-256 2d711642b726")
	require.Len(t, find("release-file kubelet.exe", "content").Desired, 64)
	require.Equal(t, drift.Missing, find("release-file kube-log-runner.exe", "").Seen)
	require.Equal(t, drift.Difference{Field: "authentication.anonymous.enabled", Seen: "true", Desired: "false"}, find("kubelet-config", "authentication.anonymous.enabled").Difference)
	require.Contains(t, find("bootstrap-kubeconfig", "access").Seen, "open to others")
	require.Equal(t, n.Path("k", "bootstrap-kubeconfig"), find("bootstrap-kubeconfig", "access").Object)
	require.Equal(t, drift.Missing, find("firewall-rule", "").Seen)
	require.Len(t, report.Drift, len(report.Differences))
	require.Equal(t, before, n.Files(), "status changed something")

	_, err = n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	require.Empty(t, look(t, n).Differences, "apply repairs all of it")
}

func TestAMachineThatWasNeverANodeHasNoDrift(t *testing.T) {
	n := wmcbtest.New(t)
	report := look(t, n)
	require.Nil(t, report.Joined)
	require.Empty(t, report.Drift)
}

func TestOfANewerReleasesNodeOnlyWhatIsCertainIsSaid(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	found.Current.Spec = []byte(`{"futureField": 1, ` + string(found.Current.Spec[1:]))
	require.NoError(t, found.Save(n.Path("k")))
	report := look(t, n)
	require.Equal(t, "1.0.0", report.Joined.Release)
	require.Equal(t, winservice.Running, report.Services[0].State)
	require.Len(t, report.Drift, 1)
	require.Contains(t, report.Drift[0], "futureField")
}
