package transfer

import (
	"context"
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
	files, err := j.missing(&nodereport.Receive{Missing: []nodereport.Missing{{SHA256: "aa", Have: 3}}})
	require.NoError(t, err)
	require.Len(t, files, 1)
	assert.Zero(t, files[0].Offset, "an offset that cannot be is not believed")
	assert.True(t, reason.Is(j.checkReceived(files, &nodereport.Receive{}), reason.HostOutputInvalid))
}
