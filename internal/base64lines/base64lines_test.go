package base64lines

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachLineCanBeDecodedOnItsOwn(t *testing.T) {
	for _, size := range []int{0, 1, 2, 3, width, width * 3 / 4, width*3/4 + 1, 200_000} {
		content := bytes.Repeat([]byte{0, 1, 0xfe, 0xff, '\n'}, size/5+1)[:size]
		var text bytes.Buffer
		w := NewWriter(&text)
		for rest := content; len(rest) > 0; {
			n := min(7001, len(rest))
			_, err := w.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.NoError(t, w.Close())
		var got []byte
		for line := range bytes.Lines(text.Bytes()) {
			require.LessOrEqual(t, len(line), width+1)
			part, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
			require.NoError(t, err)
			got = append(got, part...)
		}
		assert.True(t, bytes.Equal(content, got), size)
	}
}
