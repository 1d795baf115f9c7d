package ignition

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// dataDir is the folder with real worker Ignitions; a test that needs it skips loudly where it is absent.
func dataDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("WSU_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "ignition")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: no real Ignitions in %s; set WSU_SHARED_DATA", dir)
	}
	return dir
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dataDir(t), pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
	return found
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return raw
}
