package winrm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestASystemErrorIsKnownAloneAndAsAnHResult(t *testing.T) {
	for written, code := range map[string]uint32{
		"232": faultNoData, "2147942632": faultNoData, "-2147024664": faultNoData, "109": faultBrokenPipe, "2147942509": faultBrokenPipe,
		"2150858793": faultTimedOut, "995": faultAborted, "5": faultAccessDenied, "2147942405": faultAccessDenied, "nonsense": 0,
	} {
		f := &fault{}
		f.Detail.WSMan.Code = written
		assert.Equal(t, code, f.code(), written)
	}
}
