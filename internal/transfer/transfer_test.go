//go:build unix

package transfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
)

func file(t testing.TB, content []byte) File {
	t.Helper()
	sum := sha256.Sum256(content)
	path := filepath.Join(t.TempDir(), "content")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return File{Content: Content{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}, Path: path}
}

// program is as compressible as an executable.
func program(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same bytes in every run
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(random.Uint32N(12))
	}
	return content
}

// received unpacks a stream of one content.
func received(t testing.TB, stream []byte) []byte {
	t.Helper()
	in := bytes.NewReader(stream)
	m, err := ReadManifest(in)
	require.NoError(t, err)
	r, err := NewReader(in, m)
	require.NoError(t, err)
	defer r.Close()
	var all []byte
	for {
		_, chunk, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, chunk...)
	}
}

func send(t testing.TB, f File) []byte {
	t.Helper()
	var stream bytes.Buffer
	require.NoError(t, Send(&stream, []File{f}, nil))
	return stream.Bytes()
}

func TestWhatIsSentArrivesFromAnyOffset(t *testing.T) {
	content := program(2*ChunkSize + 5)
	f := file(t, content)
	for _, offset := range []int64{0, ChunkSize, 2 * ChunkSize} {
		f.Offset = offset
		assert.True(t, bytes.Equal(content[offset:], received(t, send(t, f))))
	}
	assert.FileExists(t, f.Path+framesSuffix, "five hundred hosts need one compression")
	f.Offset, f.Secret, f.Path = 0, true, file(t, content).Path
	assert.True(t, bytes.Equal(content, received(t, send(t, f))))
	assert.NoFileExists(t, f.Path+framesSuffix, "nothing of a secret is kept")
}

func TestDamagedKeptFramesAreMadeAnew(t *testing.T) {
	content := program(2*ChunkSize + 5)
	f := file(t, content)
	whole := send(t, f)
	kept, err := os.ReadFile(f.Path + framesSuffix)
	require.NoError(t, err)
	for _, length := range []int{0, 10, headerLength, 5000, len(kept) - 1} {
		require.NoError(t, os.WriteFile(f.Path+framesSuffix, kept[:length], 0o600))
		assert.True(t, bytes.Equal(content, received(t, send(t, f))), "cut at %d", length)
		assert.True(t, bytes.Equal(whole, send(t, f)), "and the next time they are whole")
	}
	require.NoError(t, os.WriteFile(f.Path+framesSuffix, make([]byte, 100), 0o600))
	assert.True(t, bytes.Equal(content, received(t, send(t, f))))
}

func TestTwentySendersAtOnceMakeTheFramesOnce(t *testing.T) {
	content := program(ChunkSize + 100)
	f := file(t, content)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { assert.True(t, bytes.Equal(content, received(t, send(t, f)))) })
	}
	wait.Wait()
	left, err := filepath.Glob(f.Path + framesSuffix + ".*")
	require.NoError(t, err)
	assert.Equal(t, []string{f.Path + framesSuffix + ".lock"}, left)
}

func TestAChunkThatUnpacksToMoreThanItSaysIsRefused(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := encoder.EncodeAll(make([]byte, 256<<20), nil)
	require.Less(t, len(bomb), ChunkSize)
	var stream bytes.Buffer
	m := &Manifest{Version: Version, Contents: []Content{{SHA256: hex.EncodeToString(make([]byte, 32)), Size: ChunkSize}}}
	require.NoError(t, WriteManifest(&stream, m))
	stream.Write(frame{raw: ChunkSize, wire: uint32(len(bomb)), sum: crc32.Checksum(make([]byte, ChunkSize), castagnoli)}.encode())
	stream.Write(bomb)
	in := bytes.NewReader(stream.Bytes())
	m, err = ReadManifest(in)
	require.NoError(t, err)
	r, err := NewReader(in, m)
	require.NoError(t, err)
	_, _, err = r.Next()
	assert.True(t, reason.Is(err, reason.TransferChecksum), err)
}

func TestAManifestThatCannotBeIsRefused(t *testing.T) {
	good := Content{SHA256: hex.EncodeToString(make([]byte, 32)), Size: 10}
	for says, m := range map[string]Manifest{
		"speaks version":     {Version: 2},
		"has no SHA-256":     {Version: 1, Contents: []Content{{SHA256: "../../etc/passwd"}}},
		"is there twice":     {Version: 1, Contents: []Content{good, good}},
		"has the size -1":    {Version: 1, Contents: []Content{{SHA256: good.SHA256, Size: -1}}},
		"begins at 5":        {Version: 1, Contents: []Content{{SHA256: good.SHA256, Size: 10, Offset: 5}}},
		"more than 1000":     {Version: 1, Contents: make([]Content, 1001)},
		"begins at 4194304":  {Version: 1, Contents: []Content{{SHA256: good.SHA256, Size: 10, Offset: ChunkSize}}},
		"has the size 42949": {Version: 1, Contents: []Content{{SHA256: good.SHA256, Size: 42949672960}}},
	} {
		assert.ErrorContains(t, m.Check(), says)
	}
}

func FuzzReader(f *testing.F) {
	var stream bytes.Buffer
	sum := sha256.Sum256([]byte("hello"))
	_ = WriteManifest(&stream, &Manifest{Version: Version, Contents: []Content{{SHA256: hex.EncodeToString(sum[:]), Size: 5}}})
	stream.Write(frame{raw: 5, wire: 5, sum: crc32.Checksum([]byte("hello"), castagnoli)}.encode())
	stream.WriteString("hello")
	stream.Write(frame{index: endIndex}.encode())
	f.Add(stream.Bytes())
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := bytes.NewReader(stream)
		m, err := ReadManifest(in)
		if err != nil {
			return
		}
		r, err := NewReader(in, m)
		require.NoError(t, err)
		defer r.Close()
		for {
			index, chunk, err := r.Next()
			if err != nil {
				return
			}
			require.Less(t, index, len(m.Contents))
			require.LessOrEqual(t, len(chunk), ChunkSize)
		}
	})
}

func BenchmarkSend(b *testing.B) {
	f := file(b, program(64<<20))
	f.Secret = true // compress each time
	b.SetBytes(f.Size)
	for b.Loop() {
		require.NoError(b, Send(io.Discard, []File{f}, nil))
	}
}

func BenchmarkSendKept(b *testing.B) {
	f := file(b, program(64<<20))
	require.NoError(b, Send(io.Discard, []File{f}, nil))
	b.SetBytes(f.Size)
	for b.Loop() {
		require.NoError(b, Send(io.Discard, []File{f}, nil))
	}
}

func TestDamagedKeptFramesOfAFileThatIsGoneAreAnError(t *testing.T) {
	f := file(t, program(ChunkSize+5))
	send(t, f)
	require.NoError(t, os.WriteFile(f.Path+framesSuffix, make([]byte, 100), 0o600))
	require.NoError(t, os.Remove(f.Path))
	assert.ErrorIs(t, Send(io.Discard, []File{f}, nil), os.ErrNotExist)
}
