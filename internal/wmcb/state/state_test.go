package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
)

func TestNoStateIsNoError(t *testing.T) {
	s, err := Load(t.TempDir())
	require.NoError(t, err)
	require.Nil(t, s)
	require.False(t, s.Owns(Owned{OwnedFile, "x"}))
}

func TestFieldsOfANewerReleaseAreKept(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, FileName)
	require.NoError(t, os.WriteFile(path, []byte(`{"format":1,"transaction":"x","owned":[{"kind":"file","name":"C:\\K\\a"}],"future":{"a":[1,2]}}`), 0o600))
	s, err := Load(folder)
	require.NoError(t, err)
	require.True(t, s.Owns(Owned{OwnedFile, `c:\k\A`}))
	s.Transaction = "y"
	require.NoError(t, s.Save(folder))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.JSONEq(t, `{"format":1,"transaction":"y","appliedAt":"","owned":[{"kind":"file","name":"C:\\K\\a"}],"future":{"a":[1,2]}}`, string(raw))
}

func TestANewerFormatAndDamageAreRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"a newer format": `{"format":2}`, "no format": `{}`, "half a file": `{"format":1,"tra`, "nothing": ``, "a wrong type": `{"format":1,"owned":3}`,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(folder, FileName), []byte(raw), 0o600))
			_, err := Load(folder)
			require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
		})
	}
}

// newer is what a release of the future wrote, with fields and kinds that this one does not know, everywhere.
const newer = `{
  "format": 1, "transaction": "x", "appliedAt": "2027-01-01T00:00:00Z", "futureTop": [1],
  "current": {"release": "9.0.0", "nodeName": "win1", "kubeletVersion": "v1.40.0", "futureApplied": {"a": 1},
              "spec": {"apiVersion": "wsu.windows/v1", "kind": "NodeSpec", "release": "9.0.0", "futureSpec": true, "paths": {"logs": "D:\\log"}}},
  "previous": {"release": "8.0.0", "nodeName": "win1", "kubeletVersion": "v1.39.0", "spec": {}, "futureApplied": "b"},
  "owned": [{"kind": "hns-network", "name": "overlay"}]
}`

func TestWhatANewerReleaseWroteIsKeptWordForWordEvenWhereItMoves(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, FileName), []byte(newer), 0o600))
	s, err := Load(folder)
	require.NoError(t, err)
	s.Previous, s.Current = s.Current, &Applied{Release: "1.0.0", Spec: []byte(`{}`)} // as an older release's apply does
	require.NoError(t, s.Save(folder))
	raw, err := os.ReadFile(filepath.Join(folder, FileName))
	require.NoError(t, err)
	var have, want map[string]any
	require.NoError(t, json.Unmarshal(raw, &have))
	require.NoError(t, json.Unmarshal([]byte(newer), &want))
	require.Equal(t, want["current"].(map[string]any)["spec"], have["previous"].(map[string]any)["spec"])
	require.Equal(t, map[string]any{"a": 1.0}, have["previous"].(map[string]any)["futureApplied"])
	require.Equal(t, want["futureTop"], have["futureTop"])
	require.Equal(t, want["owned"], have["owned"])
}

func TestASpecificationOfANewerReleaseIsNotObeyedButItsPathsAreKnown(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, FileName), []byte(newer), 0o600))
	s, err := Load(folder)
	require.NoError(t, err)
	_, err = s.Current.NodeSpec()
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
	require.ErrorContains(t, err, "futureSpec")
	require.Equal(t, `D:\log`, s.Current.Paths().Logs)
}

// TestEveryPrefixOfAStateIsRefused: a torn state, were there one, would never be taken for a whole one.
func TestEveryPrefixOfAStateIsRefused(t *testing.T) {
	folder := t.TempDir()
	for cut := range len(newer) - 1 {
		require.NoError(t, os.WriteFile(filepath.Join(folder, FileName), []byte(newer[:cut]), 0o600))
		_, err := Load(folder)
		require.True(t, reason.Is(err, reason.StateUnreadable), "the first %d bytes: %v", cut, err)
	}
}

// TestAReaderNeverSeesHalfAState reads all the time while the state is replaced.
func TestAReaderNeverSeesHalfAState(t *testing.T) {
	folder := t.TempDir()
	s := &State{Transaction: strings.Repeat("a", 100)}
	require.NoError(t, s.Save(folder))
	done := make(chan error, 1)
	go func() {
		for i := range 200 {
			next := &State{Transaction: strings.Repeat(string(rune('a'+i%26)), 100*(i%50+1))}
			if err := next.Save(folder); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		found, err := Load(folder)
		require.NoError(t, err)
		require.Empty(t, strings.Trim(found.Transaction, found.Transaction[:1]), "two states in one")
		select {
		case err := <-done:
			require.NoError(t, err)
			t.Logf("%d reads", reads)
			return
		default:
		}
	}
}
