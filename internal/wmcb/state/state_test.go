package state

import (
	"os"
	"path/filepath"
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
