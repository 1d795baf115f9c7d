package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/release"
)

var content = bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB

func fileOf(raw []byte, url string) release.File {
	sum := sha256.Sum256(raw)
	return release.File{Name: "kubelet.exe", Component: "kubelet", Version: "v1.36.3", URL: url, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
}

// mirror serves over TLS with an authority of its own, whose file it gives.
func mirror(t *testing.T, handler http.HandlerFunc) (url, authority string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	authority = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return server.URL, authority
}

func whole(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func cache(t *testing.T, dir, base, authority string) *Cache {
	t.Helper()
	c, err := New(dir, base, authority, nil)
	require.NoError(t, err)
	c.pause = time.Millisecond
	return c
}

func have(t *testing.T, c *Cache, file release.File) (int64, error) {
	t.Helper()
	paths, fetched, err := c.Have(t.Context(), []release.File{file})
	if err == nil {
		got, readErr := os.ReadFile(paths[0])
		require.NoError(t, readErr)
		require.True(t, bytes.Equal(content, got))
	}
	return fetched, err
}

func TestAFileIsFetchedOnceAndVerifiedEachTime(t *testing.T) {
	url, authority := mirror(t, whole)
	dir := t.TempDir()
	c := cache(t, dir, url, authority)
	fetched, err := have(t, c, fileOf(content, "kubelet.exe"))
	require.NoError(t, err)
	assert.EqualValues(t, len(content), fetched)
	fetched, err = have(t, c, fileOf(content, "kubelet.exe"))
	require.NoError(t, err)
	assert.Zero(t, fetched)

	path := filepath.Join(dir, "payload", fileOf(content, "").SHA256)
	require.NoError(t, os.WriteFile(path, []byte("rotten"), 0o600))
	_, err = have(t, c, fileOf(content, "kubelet.exe"))
	require.NoError(t, err)
}

func TestAFolderAndAFileURLServeTheSame(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kubelet.exe"), content, 0o600))
	for _, base := range []string{folder, "file://" + folder} {
		_, err := have(t, cache(t, t.TempDir(), base, ""), fileOf(content, "kubelet.exe"))
		require.NoError(t, err)
	}
}

func TestABrokenDownloadGoesOnWhereItBroke(t *testing.T) {
	var sent atomic.Int64
	url, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		if r.Header.Get("Range") == "" { // the first time, half of it
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:len(content)/2])
			panic(http.ErrAbortHandler)
		}
		whole(w, r)
	})
	fetched, err := have(t, cache(t, t.TempDir(), url, authority), fileOf(content, "kubelet.exe"))
	require.NoError(t, err)
	assert.EqualValues(t, len(content), fetched, "nothing twice")
	assert.EqualValues(t, 2, sent.Load())
}

func TestWhatAnEarlierRunLeft(t *testing.T) {
	var asked []string
	url, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Range"))
		whole(w, r)
	})
	for name, test := range map[string]struct {
		left    []byte
		fetched int
		ranges  []string
	}{
		"its beginning":            {content[:1000], len(content) - 1000, []string{"bytes=1000-"}},
		"all of it, not yet named": {content, 0, nil},
		"another file's beginning": {bytes.Repeat([]byte("x"), 1000), 2*len(content) - 1000, []string{"bytes=1000-", ""}},
		"more than there is":       {append(bytes.Clone(content), 'x'), len(content), []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			dir := t.TempDir()
			file := fileOf(content, "kubelet.exe")
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "payload"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "payload", file.SHA256+".partial"), test.left, 0o600))
			fetched, err := have(t, cache(t, dir, url, authority), file)
			require.NoError(t, err)
			assert.EqualValues(t, test.fetched, fetched)
			assert.Equal(t, test.ranges, asked)
		})
	}
}

func TestAServerThatIsBusyIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	url, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < attempts {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		whole(w, r)
	})
	_, err := have(t, cache(t, t.TempDir(), url, authority), fileOf(content, "kubelet.exe"))
	require.NoError(t, err)
}

func TestAWrongFileIsNamedWithBothSumsAndNotKept(t *testing.T) {
	url, authority := mirror(t, whole)
	for name, test := range map[string]struct {
		file release.File
		says []string
	}{
		"another content": {release.File{Name: "kubelet.exe", URL: "kubelet.exe", Size: int64(len(content)), SHA256: fileOf([]byte("x"), "").SHA256},
			[]string{fileOf(content, "").SHA256, fileOf([]byte("x"), "").SHA256, url}},
		"too long":  {fileOf(content[:100], "kubelet.exe"), []string{"1048576 bytes", "release.yml says 100", url}},
		"too short": {fileOf(append(bytes.Clone(content), 'x'), "kubelet.exe"), []string{"1048576 bytes", "release.yml says 1048577"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := have(t, cache(t, dir, url, authority), test.file)
			assert.True(t, reason.Is(err, reason.PayloadChecksum), err)
			for _, text := range test.says {
				assert.ErrorContains(t, err, text)
			}
			left, globErr := filepath.Glob(filepath.Join(dir, "payload", "*.partial"))
			require.NoError(t, globErr)
			assert.Empty(t, left)
		})
	}
}

func TestWhereAFileCannotBeHad(t *testing.T) {
	url, authority := mirror(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	for name, test := range map[string]struct {
		base, authority, url string
		code                 reason.Code
		says                 string
	}{
		"it is not there":     {url, authority, "kubelet.exe", reason.PayloadUnavailable, "404"},
		"nobody vouches":      {url, "", "kubelet.exe", reason.PayloadUnavailable, "wsu_payload_ca_file"},
		"nobody answers":      {"https://127.0.0.1:1", "", "kubelet.exe", reason.PayloadUnavailable, "refused"},
		"no place at all":     {"", "", "kubelet.exe", reason.PayloadUnavailable, "wsu_payload_url is not set"},
		"no URL":              {url, authority, "", reason.ReleaseInvalid, "it has no URL"},
		"a scheme of no use":  {url, authority, "ftp://x/kubelet.exe", reason.ReleaseInvalid, "ftp"},
		"a folder without it": {t.TempDir(), "", "kubelet.exe", reason.PayloadUnavailable, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := have(t, cache(t, t.TempDir(), test.base, test.authority), fileOf(content, test.url))
			assert.Equal(t, test.code, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, test.says)
		})
	}
	_, err := New(t.TempDir(), "gopher:x", "", nil)
	assert.True(t, reason.Is(err, reason.ArgumentInvalid))
}

func TestTwentyRunsAtOnceFetchOnce(t *testing.T) {
	var asked atomic.Int64
	url, authority := mirror(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); whole(w, r) })
	dir := t.TempDir()
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			_, _, err := cache(t, dir, url, authority).Have(t.Context(), []release.File{fileOf(content, "kubelet.exe")})
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	assert.EqualValues(t, 1, asked.Load())
}
