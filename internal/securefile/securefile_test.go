package securefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

func TestWriteReplacesAndLeavesNothingElse(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	require.NoError(t, Write(path, []byte("one")))
	require.NoError(t, Write(path, []byte("two")))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(content))
	require.Equal(t, []string{"file"}, names(t, folder))
	extra, err := CheckAccess(path)
	require.NoError(t, err)
	require.Empty(t, extra)
}

func TestPlaceVerifiesTheDigestAndKeepsWhatIsThereOnFailure(t *testing.T) {
	folder := t.TempDir()
	source, path := filepath.Join(folder, "source"), filepath.Join(folder, "program")
	require.NoError(t, Write(source, []byte("program")))
	require.NoError(t, Write(path, []byte("old")))
	require.ErrorContains(t, Place(source, path, "00"), "SHA-256")
	content, _ := os.ReadFile(path)
	require.Equal(t, "old", string(content))
	sum, err := Digest(source)
	require.NoError(t, err)
	require.NoError(t, Place(source, path, sum))
	require.NoError(t, Place(source, path, sum))
	require.Equal(t, []string{"program", "source"}, names(t, folder))
}

func TestCheckAccessNamesOthersAndProtectShutsThemOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.NoError(t, openToEverybody(path))
	extra, err := CheckAccess(path)
	require.NoError(t, err)
	require.NotEmpty(t, extra)
	require.NoError(t, Protect(path))
	extra, err = CheckAccess(path)
	require.NoError(t, err)
	require.Empty(t, extra)
}

func TestRemoveIsNoErrorWhereThereIsNothing(t *testing.T) {
	require.NoError(t, Remove(filepath.Join(t.TempDir(), "nothing")))
}

func TestSweepAsideRemovesLeftovers(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a.wsu-old-1", "b.wsu-new-2", "c"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	SweepAside(folder)
	require.Equal(t, []string{"c"}, names(t, folder))
}
