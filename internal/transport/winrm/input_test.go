package winrm

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsThereIsSentThoughMoreMayCome(t *testing.T) {
	reader, writer := io.Pipe()
	in := newInput(t.Context(), reader)
	defer in.close()
	data := make([]byte, sendSize)
	_, err := writer.Write([]byte("a question"))
	require.NoError(t, err)
	n, err := in.take(data)
	require.NoError(t, err)
	assert.Equal(t, "a question", string(data[:n]))
	require.NoError(t, writer.Close())
	n, err = in.take(data)
	assert.Zero(t, n)
	assert.ErrorIs(t, err, io.EOF)
}

func TestAllOfALongInputArrivesInMessagesThatAreNotTooLong(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), sendSize/3)
	in := newInput(t.Context(), bytes.NewReader(want))
	defer in.close()
	var got []byte
	for data := make([]byte, sendSize); ; {
		n, err := in.take(data)
		got = append(got, data[:n]...)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	assert.True(t, bytes.Equal(want, got))
}

func TestACancelledCommandDoesNotWaitForItsInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, _ := io.Pipe()
	in := newInput(ctx, reader)
	defer in.close()
	cancel()
	_, err := in.take(make([]byte, 1))
	assert.ErrorIs(t, err, context.Canceled)
}
