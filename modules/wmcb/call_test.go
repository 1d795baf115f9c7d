package wmcb

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"wsu.windows/internal/reason"
)

func TestALostConnectionIsMadeAgainAndAHostThatIsDownFromTheStartIsNot(t *testing.T) {
	lost, down := reason.New(reason.ConnectionLost, "host", "lost", ""), reason.New(reason.HostUnreachable, "host", "down", "")
	assert.False(t, (&trials{}).again(down))
	var tried trials
	for range attempts - 2 {
		assert.True(t, tried.again(lost))
	}
	assert.True(t, tried.again(down), "it may be about to come back")
	assert.False(t, tried.again(lost))
	assert.False(t, (&trials{}).again(reason.New(reason.ApplyFailed, "host", "failed", "")))
}

func TestARunThatIsAtWorkOnTheHostIsWaitedForButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := reason.New(reason.NodeBusy, "host", "busy", "")
		var tried trials
		for begun := time.Now(); time.Since(begun) < busyWithin; time.Sleep(pause) {
			assert.True(t, tried.again(busy))
		}
		assert.False(t, tried.again(busy))
	})
}
