package apply_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/wmcbtest"
)

func TestAKubeletThatTheAPIServerDoesNotHearOfIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		deaf func() (time.Time, error)
		code reason.Code
		says string
	}{
		"there is no Node":              {func() (time.Time, error) { return time.Time{}, nil }, reason.NodeNotRegistered, "there is no Node win1"},
		"only the old one was heard of": {func() (time.Time, error) { return time.Now().Add(-time.Minute), nil }, reason.NodeNotRegistered, "was last heard of at"},
		"it is not let in":              {func() (time.Time, error) { return time.Time{}, reason.New(reason.CSRRefused, "x", "refused", "") }, reason.NodeNotRegistered, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			n := wmcbtest.New(t)
			_, err := n.Apply(n.Spec("1.0.0"))
			require.NoError(t, err)
			two := n.Spec("2.0.0")
			before := n.Files()
			two.Kubelet.HealthTimeoutSeconds = 1
			n.Deaf = c.deaf
			report, err := n.Apply(two)
			require.True(t, reason.Is(err, c.code), "%v", err)
			require.ErrorContains(t, err, c.says)
			require.True(t, report.RolledBack)
			require.False(t, report.Changed)
			require.Equal(t, before, n.Files())
			require.Contains(t, n.Machine.Running(apply.KubeletService).CommandLine, "1.0.0")
		})
	}
}

func TestAKubeletThatHangsIsUndone(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	n.Sick = "2.0.0"
	two := n.Spec("2.0.0")
	two.Kubelet.HealthTimeoutSeconds = 1
	report, err := n.Apply(two)
	require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
	require.ErrorContains(t, err, "not healthy within 1s")
	require.True(t, report.RolledBack)
	require.Contains(t, n.Machine.Running(apply.KubeletService).CommandLine, "1.0.0")
}

func TestAKubeletThatWorksIsNotStoppedWhereTheAPIServerCannotBeReached(t *testing.T) {
	n := wmcbtest.New(t)
	_, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	before, _ := n.Machine.Status(apply.KubeletService)
	n.Deaf = func() (time.Time, error) {
		return time.Time{}, reason.New(reason.APIUnreachable, "API server", "no answer", "")
	}
	report, err := n.Apply(n.Spec("2.0.0"))
	require.True(t, reason.Is(err, reason.APIUnreachable), "%v", err)
	require.True(t, report.RolledBack)
	after, _ := n.Machine.Status(apply.KubeletService)
	require.Equal(t, before, after)
}

func TestWhereTheNodeMayNotAskItsKubeletsHealthIsTheProof(t *testing.T) {
	n := wmcbtest.New(t)
	n.Deaf = func() (time.Time, error) { return time.Time{}, reason.New(reason.APIForbidden, "API server", "no", "") }
	report, err := n.Apply(n.Spec("1.0.0"))
	require.NoError(t, err)
	require.Contains(t, report.Warnings[len(report.Warnings)-1], "could not be found out")
}
