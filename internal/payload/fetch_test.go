package payload

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/release"
)

func TestAnotherPartThanTheOneAskedForIsThrownAway(t *testing.T) {
	var ranges []string
	url, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		if r.Header.Get("Range") != "" { // a cache on the way that serves some other part
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(content)-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[5:])
			return
		}
		whole(w, r)
	})
	dir := t.TempDir()
	file := fileOf(content, "kubelet.exe")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "payload"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "payload", file.SHA256+".partial"), content[:1000], 0o600))
	fetched, err := have(t, cache(t, dir, url, authority), file)
	require.NoError(t, err)
	assert.EqualValues(t, len(content), fetched)
	assert.Equal(t, []string{"bytes=1000-", ""}, ranges)
}

func TestAServerThatStaysBusyIsGivenUp(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusInsufficientStorage} {
		var asked atomic.Int64
		url, authority := mirror(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
		})
		_, err := have(t, cache(t, t.TempDir(), url, authority), fileOf(content, "kubelet.exe"))
		assert.True(t, reason.Is(err, reason.PayloadUnavailable), err)
		assert.ErrorContains(t, err, fmt.Sprint(status))
		assert.EqualValues(t, attempts, asked.Load(), status)
	}
}

func TestThePausesDouble(t *testing.T) {
	c := &Cache{pause: time.Second}
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, []time.Duration{c.backoff(1), c.backoff(2), c.backoff(3)})
}

func TestAFileThatTheServerMovedIsFollowed(t *testing.T) {
	url, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/kubelet.exe" {
			http.Redirect(w, r, "/moved/kubelet.exe", http.StatusFound)
			return
		}
		whole(w, r)
	})
	_, err := have(t, cache(t, t.TempDir(), url, authority), fileOf(content, "kubelet.exe"))
	require.NoError(t, err)
	loop, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
	_, err = have(t, cache(t, t.TempDir(), loop, authority), fileOf(content, "kubelet.exe"))
	assert.True(t, reason.Is(err, reason.PayloadUnavailable), err)
	assert.ErrorContains(t, err, "redirects")
}

func TestAWaitForAnotherRunEndsWithTheTask(t *testing.T) {
	dir := t.TempDir()
	file := fileOf(content, "kubelet.exe")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "payload"), 0o700))
	other, err := os.Create(filepath.Join(dir, "payload", file.SHA256+".lock"))
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	_, _, err = cache(t, dir, "https://127.0.0.1:1", "").Have(ctx, []release.File{file})
	assert.True(t, reason.Is(err, reason.Interrupted), err)
}

func TestTheSizesOfATooLongFileAreBothNamed(t *testing.T) {
	url, authority := mirror(t, whole)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kubelet.exe"), content, 0o600))
	for _, base := range []string{url, folder} {
		_, err := have(t, cache(t, t.TempDir(), base, authority), fileOf(content[:100], "kubelet.exe"))
		assert.True(t, reason.Is(err, reason.PayloadChecksum), err)
		for _, text := range []string{"kubelet.exe", base, fmt.Sprintf("has %d bytes", len(content)), "release.yml says 100"} {
			assert.ErrorContains(t, err, text)
		}
	}
}

func TestATooLongFileOfAServerThatDoesNotSayItsSize(t *testing.T) {
	url, authority := mirror(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = w.Write(content)
	})
	_, err := have(t, cache(t, t.TempDir(), url, authority), fileOf(content[:100], "kubelet.exe"))
	assert.True(t, reason.Is(err, reason.PayloadChecksum), err)
	assert.ErrorContains(t, err, "has more than 100 bytes, and release.yml says 100")
}

func TestAMissingURLSaysWhereToGiveIt(t *testing.T) {
	_, err := have(t, cache(t, t.TempDir(), t.TempDir(), ""), fileOf(content, ""))
	assert.True(t, reason.Is(err, reason.ReleaseInvalid), err)
	for _, text := range []string{"kubelet.exe: it has no URL", "release.yml", "wsu_payload_url"} {
		assert.ErrorContains(t, err, text)
	}
}

func TestAFolderAndAServerHaveTheSameSubPathsAndNothingAboveThem(t *testing.T) {
	top := t.TempDir()
	base := filepath.Join(top, "release")
	require.NoError(t, os.MkdirAll(filepath.Join(base, "v1", "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(base, "v1", "bin", "kubelet.exe"), content, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(top, "above.exe"), content, 0o600))
	files := http.FileServer(http.Dir(top))
	url, authority := mirror(t, files.ServeHTTP)
	for _, from := range []string{base, "file://" + base, url + "/release", url + "/release/"} {
		for path, there := range map[string]bool{
			"v1/bin/kubelet.exe": true, "./v1//x/../bin/kubelet.exe": true, "/v1/bin/kubelet.exe": true, "../v1/bin/kubelet.exe": true,
			"kubelet.exe": false, "../above.exe": false, "/../above.exe": false, "%2e%2e/above.exe": false, "v1/../../above.exe": false,
		} {
			_, err := have(t, cache(t, t.TempDir(), from, authority), fileOf(content, path))
			assert.Equal(t, there, err == nil, "%s from %s: %v", path, from, err)
		}
		_, err := have(t, cache(t, t.TempDir(), from, authority), fileOf(content, "//other.example/kubelet.exe"))
		assert.True(t, reason.Is(err, reason.ReleaseInvalid), "%s: %v", from, err)
	}
}
