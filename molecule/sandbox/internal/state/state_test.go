package state

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sleeper(t *testing.T) Process {
	t.Helper()
	process, err := Start("sleeper", filepath.Join(t.TempDir(), "logs", "sleeper.log"), exec.Command("sleep", "1000"))
	require.NoError(t, err)
	// The test's own context has ended when the clean-up runs.
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { assert.NoError(t, process.End(ctx, 10*time.Second)) })
	return process
}

func TestAProcessRunsUntilItIsEnded(t *testing.T) {
	process := sleeper(t)
	assert.True(t, process.Running())
	require.NoError(t, process.End(t.Context(), 10*time.Second))
	assert.False(t, process.Running())
	assert.NoError(t, process.End(t.Context(), time.Second), "ending what has ended is no error")
}

func TestAPidThatWasGivenToAnotherProcessIsNotOurs(t *testing.T) {
	process := sleeper(t)
	other := process
	other.Started--
	assert.False(t, other.Running())
	require.NoError(t, other.End(t.Context(), time.Second))
	assert.True(t, process.Running(), "it was ended though it is somebody else's")

	before := process
	before.Boot = "a boot before this one"
	assert.False(t, before.Running())
}

func TestAProcessThatIgnoresTheRequestIsKilled(t *testing.T) {
	process, err := Start("stubborn", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 1; done"))
	require.NoError(t, err)
	require.NoError(t, process.End(t.Context(), 300*time.Millisecond))
	assert.False(t, process.Running())
}

func TestTheStartTimeIsReadWhateverTheCommandIsCalled(t *testing.T) {
	fields := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	for _, name := range []string{"(etcd)", "(a b)", "(a) (b)", "(x) Z 1)"} {
		started, err := parseStartTime([]byte("42 " + name + fields))
		require.NoError(t, err, name)
		assert.EqualValues(t, 4711, started, name)
	}
	_, err := parseStartTime([]byte("42 (etcd) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"))
	assert.Error(t, err, "a zombie has ended")
	_, err = parseStartTime([]byte("42 etcd"))
	assert.Error(t, err)
}

func TestTheRecordSurvivesTheLossOfEitherCopy(t *testing.T) {
	dir := t.TempDir()
	store := Store{files: []string{filepath.Join(dir, "a", "state.json"), filepath.Join(dir, "b", "state.json")}}
	require.NoError(t, store.Save(&State{ID: "wsu-1", Ready: true}))
	for _, break_ := range []func() error{
		func() error { return os.WriteFile(store.files[0], []byte("{ half"), 0o600) },
		func() error { return os.RemoveAll(filepath.Join(dir, "a")) },
	} {
		require.NoError(t, break_())
		loaded, err := store.Load()
		require.NoError(t, err)
		require.NotNil(t, loaded)
		assert.Equal(t, "wsu-1", loaded.ID)
	}
	require.NoError(t, store.Remove())
	loaded, err := store.Load()
	require.NoError(t, err)
	assert.Nil(t, loaded)
}
