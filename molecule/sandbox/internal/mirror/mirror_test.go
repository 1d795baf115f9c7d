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
		names, err := Refresh(payload, t.TempDir(), dir)
		require.NoError(t, err)
		assert.Equal(t, []string{"gone.exe", "release.yml"}, names)
	}
	require.NoError(t, os.Remove(filepath.Join(payload, "gone.exe")))
	_, err := Refresh(payload, t.TempDir(), dir)
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestEveryReleaseHasAFolderOfItsOwn(t *testing.T) {
	payload, releases, dir := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	put := func(path, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	put(filepath.Join(payload, "kubelet.exe"), "today's")
	put(filepath.Join(payload, ".stamp"), "the build's own")
	put(filepath.Join(releases, "0.0.9", "kubelet.exe"), "old")
	put(filepath.Join(releases, "0.1.0", "kubelet.exe"), "new")
	put(filepath.Join(releases, "0.1.0", "gone.exe"), "x")
	for range 2 {
		names, err := Refresh(payload, releases, dir)
		require.NoError(t, err)
		assert.Equal(t, []string{"kubelet.exe", "0.0.9/", "0.1.0/"}, names)
	}
	for path, content := range map[string]string{"kubelet.exe": "today's", "0.0.9/kubelet.exe": "old", "0.1.0/kubelet.exe": "new"} {
		answer := httptest.NewRecorder()
		NewServer("", dir).Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+path, nil))
		assert.Equal(t, content, answer.Body.String(), path)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(releases, "0.0.9")))
	require.NoError(t, os.Remove(filepath.Join(releases, "0.1.0", "gone.exe")))
	_, err := Refresh(payload, releases, dir)
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Join(dir, "0.0.9"))
	assert.NoFileExists(t, filepath.Join(dir, "0.1.0", "gone.exe"))
	assert.NoFileExists(t, filepath.Join(dir, ".stamp"))
}

func TestAPayloadThatWasNotBuiltLeavesTheMirrorEmpty(t *testing.T) {
	names, err := Refresh(filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "absent"), t.TempDir())
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
