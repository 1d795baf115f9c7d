package rollback_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/rollback"
	"wsu.windows/internal/wmcb/state"
	"wsu.windows/internal/wmcb/status"
	"wsu.windows/internal/wmcb/wmcbtest"
)

func back(n *wmcbtest.Node, t *testing.T) (nodereport.Apply, error) {
	return rollback.Run(t.Context(), rollback.Options{Install: n.Path("k"), Host: n.Host()})
}

// upgraded is a machine that went from 1.0.0 to 2.0.0.
func upgraded(t *testing.T) *wmcbtest.Node {
	n := wmcbtest.New(t)
	for _, release := range []string{"1.0.0", "2.0.0"} {
		_, err := n.Apply(n.Spec(release))
		require.NoError(t, err)
	}
	return n
}

func TestARollbackBringsTheReleaseBeforeBackExactlyAndOnce(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	service, _ := n.Machine.Config(apply.KubeletService)
	report, err := n.Apply(n.Spec("2.0.0"))
	require.NoError(t, err)
	require.Equal(t, "1.0.0", report.PreviousRelease)
	require.Equal(t, "1.0.0", report.RollbackTo)

	report, err = back(n, t)
	require.NoError(t, err)
	require.Equal(t, "Rollback", report.Kind)
	require.True(t, report.OK && report.Changed)
	require.Equal(t, "1.0.0", report.Release)
	require.Equal(t, "2.0.0", report.PreviousRelease)
	require.Empty(t, report.RollbackTo)
	require.Equal(t, "1.0.0", n.RequireWholeAfterBoot("2.0.0"))
	have, _ := n.Machine.Config(apply.KubeletService)
	require.Equal(t, service, have)

	before := n.Files()
	_, err = back(n, t)
	require.True(t, reason.Is(err, reason.RollbackUnavailable), "%v", err)
	require.ErrorContains(t, err, "from release 2.0.0")
	require.Equal(t, before, n.Files(), "a refused roll-back changes nothing")

	again, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	require.Empty(t, wmcbtest.Changed(again))
	_, err = n.Apply(n.Spec("2.0.0"))
	require.NoError(t, err)
	_, err = back(n, t)
	require.NoError(t, err, "an apply makes another one possible")
}

func TestWhatTheNodeTrustsOutlivesARollback(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	n.Ignition = append(n.Ignition, '\n') // the cluster has rendered another one meanwhile
	two := n.Spec("2.0.0")
	_, err = n.Apply(two)
	require.NoError(t, err)
	_, err = back(n, t)
	require.NoError(t, err)
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	spec, err := found.Current.NodeSpec()
	require.NoError(t, err)
	require.Equal(t, "1.0.0", spec.Release)
	require.Equal(t, two.Bootstrap, spec.Bootstrap)
	report, err := status.Run(t.Context(), status.Options{Install: n.Path("k"), Host: n.Host()})
	require.NoError(t, err)
	require.Empty(t, report.Drift)
}

func TestWhereNothingIsKeptARollbackSaysWhyAndChangesNothing(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := rollback.Run(t.Context(), rollback.Options{Install: n.Path("nowhere"), Host: n.Host()})
	require.True(t, reason.Is(err, reason.RollbackUnavailable), "%v", err)
	require.NoDirExists(t, n.Path("nowhere"))
	report, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	require.Empty(t, report.PreviousRelease+report.RollbackTo)
	before := n.Files()
	_, err = back(n, t)
	require.True(t, reason.Is(err, reason.RollbackUnavailable), "%v", err)
	require.ErrorContains(t, err, "first one")
	require.Equal(t, before, n.Files())
}

func TestADryRunOfARollbackShowsThePlanAndChangesNothing(t *testing.T) {
	n := upgraded(t)
	before := n.Files()
	report, err := rollback.Run(t.Context(), rollback.Options{Install: n.Path("k"), Host: n.Host(), DryRun: true})
	require.NoError(t, err)
	require.True(t, report.DryRun)
	require.Contains(t, wmcbtest.Changed(report), "kubelet-service")
	require.Equal(t, before, n.Files())
	require.Contains(t, n.Machine.Running(apply.KubeletService).CommandLine, "2.0.0")
}

func TestARollbackWorksWhateverIsWrongWithThePresentRelease(t *testing.T) {
	for name, spoil := range map[string]func(n *wmcbtest.Node){
		"its kubelet does not run": func(n *wmcbtest.Node) { _, _ = n.Machine.Stop(t.Context(), apply.KubeletService) },
		"its files are gone":       func(n *wmcbtest.Node) { _ = os.RemoveAll(n.Path("k", "releases", "2.0.0")) },
		"its service is gone": func(n *wmcbtest.Node) {
			_, _ = n.Machine.Stop(t.Context(), apply.KubeletService)
			_ = n.Machine.Delete(t.Context(), apply.KubeletService)
		},
		"the store is gone": func(n *wmcbtest.Node) { _ = os.RemoveAll(n.Path("k", "store")) },
		"the old configuration was edited": func(n *wmcbtest.Node) {
			_ = os.WriteFile(n.Path("k", "releases", "1.0.0", "kubelet.conf"), []byte("maxPods: 1\n"), 0o600)
		},
		"the API server cannot be reached": func(n *wmcbtest.Node) {
			n.Deaf = func() (time.Time, error) {
				return time.Time{}, reason.New(reason.APIUnreachable, "API server", "no answer", "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := upgraded(t)
			spoil(n)
			_, err := back(n, t)
			require.NoError(t, err)
			require.Equal(t, "1.0.0", n.RequireWholeAfterBoot("2.0.0"))
		})
	}
}

func TestARollbackThatFailsLeavesThePresentRelease(t *testing.T) {
	n := upgraded(t)
	n.Deaf = func() (time.Time, error) { return time.Time{}, nil }
	shorten(t, n)
	report, err := back(n, t)
	require.True(t, reason.Is(err, reason.NodeNotRegistered), "%v", err)
	require.True(t, report.RolledBack)
	require.Contains(t, n.Machine.Running(apply.KubeletService).CommandLine, "2.0.0")
	n.Deaf = nil
	_, err = back(n, t)
	require.NoError(t, err, "it was not used up")
}

// shorten makes the previous specification's proof fail sooner.
func shorten(t *testing.T, n *wmcbtest.Node) {
	t.Helper()
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	spec, err := found.Previous.NodeSpec()
	require.NoError(t, err)
	spec.Kubelet.HealthTimeoutSeconds = 1
	found.Previous.Spec, err = json.Marshal(spec)
	require.NoError(t, err)
	require.NoError(t, found.Save(n.Path("k")))
}

func TestAPowerCutAtEveryBoundaryOfARollbackLeavesOneOfTheTwoReleases(t *testing.T) {
	cuts, runs := 0, map[string]int{}
	for at := 1; ; at++ {
		n := upgraded(t)
		run := func() error {
			_, err := back(n, t)
			return err
		}
		alive, err := n.MayCrash(at, run)
		if alive {
			require.NoError(t, err)
			break
		}
		cuts++
		runs[n.RequireWholeAfterBoot("2.0.0")]++
		alive, err = n.MayCrash(1+at%5, run)
		if !alive {
			cuts++
			n.RequireWholeAfterBoot("2.0.0")
			err = run()
		}
		// It was complete, but for its journal, where the second run has nothing to go back to.
		require.True(t, err == nil || reason.Is(err, reason.RollbackUnavailable), "%v", err)
		require.Equal(t, "1.0.0", n.RequireWholeAfterBoot("2.0.0"))
		require.NoFileExists(t, n.Path("k", state.JournalName))
		report, err := status.Run(t.Context(), status.Options{Install: n.Path("k"), Host: n.Host()})
		require.NoError(t, err)
		require.Empty(t, report.Drift)
		require.Equal(t, "2.0.0", report.RolledBackFrom)
	}
	t.Logf("%d power cuts; after the first one the machine booted into %v", cuts, runs)
	require.Greater(t, cuts, 20)
}

func TestAPreviousReleaseThatANewerWmcbWroteIsNotGuessedAt(t *testing.T) {
	n := upgraded(t)
	path := n.Path("k", state.FileName)
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	found.Previous.Spec = []byte(`{"futureField": {"a": 1}, ` + string(found.Previous.Spec[1:]))
	require.NoError(t, found.Save(n.Path("k")))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = back(n, t)
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
	require.ErrorContains(t, err, "futureField")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestAServiceThatDependsOnTheKubeletRunsAgainAfterwards(t *testing.T) {
	n := upgraded(t)
	require.NoError(t, n.Machine.Create(t.Context(), "overlay", winservice.Config{
		CommandLine: `C:\overlay.exe`, StartType: winservice.StartManual, Dependencies: []string{"kubelet"},
	}))
	require.NoError(t, n.Machine.Start(t.Context(), "overlay"))
	_, err := back(n, t)
	require.NoError(t, err)
	require.NotNil(t, n.Machine.Running("overlay"))

	n.Deaf = func() (time.Time, error) { return time.Time{}, errors.New("it is deaf") }
	three := n.Spec("2.0.0")
	three.Kubelet.HealthTimeoutSeconds = 1
	report, err := n.Apply(three)
	require.True(t, reason.Is(err, reason.NodeNotRegistered), "%v", err)
	require.True(t, report.RolledBack)
	require.NotNil(t, n.Machine.Running("overlay"), "and after an upgrade that was undone")
}
