package transfer

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

func TestABusyHostIsWaitedForAlsoAfterALongTransferThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		changed, err := retry(t.Context(), func(string) {}, func(context.Context) (bool, error) {
			calls++
			switch {
			case calls == 1:
				time.Sleep(10 * time.Minute)
				return true, reason.New(reason.ConnectionLost, "host", "it was lost", "")
			case calls < 10:
				return false, reason.New(reason.TransferBusy, "host", "busy", "")
			}
			return false, nil
		})
		require.NoError(t, err)
		assert.True(t, changed)
		assert.Equal(t, 10, calls)
	})
}

func TestAHostThatStaysBusyOrLostIsGivenUp(t *testing.T) {
	for _, code := range []reason.Code{reason.TransferBusy, reason.ConnectionLost, reason.TransferChecksum, reason.DiskFull} {
		synctest.Test(t, func(t *testing.T) {
			started, calls := time.Now(), 0
			_, err := retry(t.Context(), func(string) {}, func(context.Context) (bool, error) {
				calls++
				return false, reason.New(code, "host", "it fails", "")
			})
			assert.True(t, reason.Is(err, code), err)
			assert.LessOrEqual(t, time.Since(started), busyWithin+pause)
			want := map[reason.Code]int{reason.ConnectionLost: attempts, reason.TransferChecksum: 2, reason.DiskFull: 1}[code]
			if want > 0 {
				assert.Equal(t, want, calls, code)
			}
		})
	}
}

func TestAHostHasToSayOfEachFileOnceWhetherItHasIt(t *testing.T) {
	j := &job{args: &Args{Files: []File{{Name: "a", SHA256: "aa", Size: 5}}}, env: &ansible.Env{Host: "host"}}
	missing := nodereport.Missing{SHA256: "aa"}
	for _, plan := range []nodereport.Receive{
		{}, {Present: []string{"aa"}, Missing: []nodereport.Missing{missing}}, {Missing: []nodereport.Missing{missing, missing}}, {Present: []string{"aa", "aa"}},
	} {
		_, err := j.missing(&plan)
		assert.True(t, reason.Is(err, reason.HostOutputInvalid), "%+v: %v", plan, err)
	}
	files, err := j.missing(&nodereport.Receive{Missing: []nodereport.Missing{{SHA256: "aa", Have: [][2]int{{-5, 0}, {1, 1 << 40}, {9, 3}}}}})
	require.NoError(t, err)
	require.Len(t, files, 1)
	assert.Equal(t, []int{0}, files[0].Only, "ranges that cannot be are not believed")
	assert.True(t, reason.Is(j.checkReceived(files, &nodereport.Receive{}), reason.HostOutputInvalid))
}

func TestTheContentThatIsMostLikeTheFileAndHereTooIsItsBase(t *testing.T) {
	cache := t.TempDir()
	f := File{Path: filepath.Join(cache, "new"), Size: 1000}
	var others []nodereport.Other
	for i, size := range []int64{2000, 1100, 990, 1001} {
		sha := strings.Repeat(string(rune('a'+i)), 64)
		others = append(others, nodereport.Other{SHA256: sha, Size: size})
		if size != 1001 { // that one is only on the host
			require.NoError(t, os.WriteFile(filepath.Join(cache, sha), make([]byte, size), 0o600))
		}
	}
	others = append(others, nodereport.Other{SHA256: "../" + strings.Repeat("a", 64), Size: 1000})
	sha, path := base(f, others)
	assert.Equal(t, strings.Repeat("c", 64), sha)
	assert.Equal(t, filepath.Join(cache, sha), path)
	sha, _ = base(f, others[:1])
	assert.Empty(t, sha, "one of twice the size is another program")
}
