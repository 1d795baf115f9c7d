package mirror

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheMirrorHoldsWhatThePayloadHoldsAndNothingElse(t *testing.T) {
	payload, dir := t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	require.NoError(t, os.WriteFile(filepath.Join(payload, "release.yml"), []byte("one"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(payload, "gone.exe"), []byte("x"), 0o644))
	for range 2 { // a second time changes nothing
		names, err := Refresh(payload, dir)
		require.NoError(t, err)
		assert.Equal(t, []string{"gone.exe", "release.yml"}, names)
	}
	require.NoError(t, os.Remove(filepath.Join(payload, "gone.exe")))
	_, err := Refresh(payload, dir)
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestAPayloadThatWasNotBuiltLeavesTheMirrorEmpty(t *testing.T) {
	names, err := Refresh(filepath.Join(t.TempDir(), "absent"), t.TempDir())
	require.NoError(t, err)
	assert.Empty(t, names)
}

func TestAPartOfAFileCanBeAskedFor(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubelet.exe"), []byte("0123456789"), 0o644))
	request := httptest.NewRequest(http.MethodGet, "/kubelet.exe", nil)
	request.Header.Set("Range", "bytes=4-")
	answer := httptest.NewRecorder()
	NewServer("", dir).Handler.ServeHTTP(answer, request)
	assert.Equal(t, http.StatusPartialContent, answer.Code)
	assert.Equal(t, "456789", answer.Body.String())
}
