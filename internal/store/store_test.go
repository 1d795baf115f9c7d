//go:build unix

package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
)

func TestAFolderThatSomebodyElseMadeIsClosedToOthers(t *testing.T) {
	install := filepath.Join(t.TempDir(), "k")
	require.NoError(t, os.MkdirAll(filepath.Join(install, "store"), 0o777)) //nolint:gosec // on purpose
	for _, folder := range []string{install, filepath.Join(install, "store")} {
		require.NoError(t, os.Chmod(folder, 0o777)) //nolint:gosec // on purpose
	}
	require.NoError(t, At(install).Make())
	for _, folder := range []string{install, filepath.Join(install, "store")} {
		info, err := os.Stat(folder)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), folder)
	}
}

func TestALinkInTheStoresPlaceIsRefused(t *testing.T) {
	install := filepath.Join(t.TempDir(), "k")
	require.NoError(t, os.Mkdir(install, 0o700))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(install, "store")))
	assert.True(t, reason.Is(At(install).Make(), reason.AccessDenied))
}
