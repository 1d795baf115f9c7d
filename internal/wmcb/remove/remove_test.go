package remove_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/remove"
	"wsu.windows/internal/wmcb/state"
	"wsu.windows/internal/wmcb/wmcbtest"
)

func removeFrom(t *testing.T, n *wmcbtest.Node, spec *nodespec.NodeSpec) (nodereport.Apply, error) {
	return remove.Run(t.Context(), remove.Options{Paths: nodespec.Paths{Install: spec.Paths.Install}, Host: n.Host()})
}

func TestANodeIsRemovedWholeAndTwiceAndCanJoinAgain(t *testing.T) {
	n := wmcbtest.New(t)
	spec := n.Spec("1.0.0")
	_, err := n.Apply(spec)
	require.NoError(t, err)
	_, err = removeFrom(t, n, spec)
	require.NoError(t, err)
	require.Empty(t, n.Machine.Names())
	require.Empty(t, n.Firewall.Rules)
	require.Empty(t, n.Files())
	again, err := removeFrom(t, n, spec)
	require.NoError(t, err)
	require.False(t, again.Changed)
	_, err = n.Apply(n.Spec("2.0.0"))
	require.NoError(t, err)
	require.Equal(t, "2.0.0", n.RequireWholeAfterBoot(""))
}

func TestAThingThatOnlyANewerReleaseCanRemoveKeepsTheNode(t *testing.T) {
	n := wmcbtest.New(t)
	spec := n.Spec("1.0.0")
	_, err := n.Apply(spec)
	require.NoError(t, err)
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	found.Own(state.Owned{Kind: "hns-network", Name: "overlay"})
	require.NoError(t, found.Save(n.Path("k")))
	_, err = removeFrom(t, n, spec)
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
	require.ErrorContains(t, err, "hns-network")
	require.NotNil(t, n.Machine.Running(apply.KubeletService), "nothing was removed by halves")
}

func TestAPowerCutAtEveryBoundaryOfARemovalEndsInARemovedNode(t *testing.T) {
	cuts := 0
	for at := 1; ; at++ {
		n := wmcbtest.New(t)
		spec := n.Spec("1.0.0")
		_, err := n.Apply(spec)
		require.NoError(t, err)
		run := func() error {
			_, err := removeFrom(t, n, spec)
			return err
		}
		alive, err := n.MayCrash(at, run)
		require.NoError(t, err)
		if alive {
			break
		}
		cuts++
		n.Machine.Boot()
		require.NoError(t, run())
		require.Empty(t, n.Machine.Names())
		require.Empty(t, n.Files())
	}
	t.Logf("%d power cuts", cuts)
	require.GreaterOrEqual(t, cuts, 4)
}
