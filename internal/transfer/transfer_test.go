//go:build unix

package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

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

// received unpacks a stream of one content; base is what its differences are made to.
func received(t testing.TB, stream, base []byte) map[int64][]byte {
	t.Helper()
	in := bytes.NewReader(stream)
	m, err := ReadManifest(in)
	require.NoError(t, err)
	r, err := NewReader(in, m, func(string) (Base, error) { return bytes.NewReader(base), nil })
	require.NoError(t, err)
	defer r.Close()
	all := map[int64][]byte{}
	for {
		chunk, err := r.Next(make([]byte, ChunkSize))
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[chunk.Offset] = bytes.Clone(chunk.Data)
	}
}

// requireContent puts chunks together.
func requireContent(t testing.TB, content []byte, chunks ...map[int64][]byte) {
	t.Helper()
	got := make([]byte, len(content))
	n := 0
	for _, part := range chunks {
		for offset, data := range part {
			n += copy(got[offset:], data)
		}
	}
	require.Equal(t, len(content), n, "each byte once")
	require.True(t, bytes.Equal(content, got))
}

func send(t testing.TB, f File) []byte {
	t.Helper()
	w, err := NewWork([]File{f}, "")
	require.NoError(t, err)
	defer w.Close()
	var stream bytes.Buffer
	require.NoError(t, w.Send(t.Context(), &stream, 0))
	return stream.Bytes()
}

func TestTheChunksThatAreAskedForArrive(t *testing.T) {
	content := program(2*ChunkSize + 5)
	f := file(t, content)
	requireContent(t, content, received(t, send(t, f), nil))
	f.Only = []int{2, 0}
	chunks := received(t, send(t, f), nil)
	assert.Len(t, chunks, 2)
	assert.Equal(t, content[2*ChunkSize:], chunks[2*ChunkSize])
	assert.FileExists(t, f.Path+keptSuffix+"zstd", "five hundred hosts need one compression")

	f.Only, f.Secret, f.Path = nil, true, file(t, content).Path
	requireContent(t, content, received(t, send(t, f), nil))
	kept, err := filepath.Glob(f.Path + ".*")
	require.NoError(t, err)
	assert.Empty(t, kept, "nothing of a secret is kept")
}

func TestSeveralLanesBringEachChunkOnce(t *testing.T) {
	content := program(9*ChunkSize + 77)
	w, err := NewWork([]File{file(t, content)}, "ABCDEFGHIJKLMNOPQRSTUVWXY2")
	require.NoError(t, err)
	defer w.Close()
	streams := make([]bytes.Buffer, MaxLanes)
	var lanes sync.WaitGroup
	for lane := 1; lane < MaxLanes; lane++ {
		w.AddLane()
		lanes.Go(func() { assert.NoError(t, w.Send(t.Context(), &streams[lane], lane)) })
	}
	require.NoError(t, w.Send(t.Context(), &streams[0], 0))
	parts := make([]map[int64][]byte, MaxLanes)
	for lane := range streams { // the main stream ended, so all have
		parts[lane] = received(t, streams[lane].Bytes(), nil)
	}
	lanes.Wait()
	requireContent(t, content, parts...)
}

func TestTheMainStreamHasNoEndWhereALaneBroke(t *testing.T) {
	w, err := NewWork([]File{file(t, program(ChunkSize))}, "ABCDEFGHIJKLMNOPQRSTUVWXY2")
	require.NoError(t, err)
	defer w.Close()
	w.AddLane()
	go func() { _ = w.Send(t.Context(), broken{}, 1) }()
	var stream bytes.Buffer
	require.ErrorIs(t, w.Send(t.Context(), &stream, 0), io.ErrClosedPipe)
	assert.False(t, bytes.HasSuffix(stream.Bytes(), frame{kind: kindEnd}.encode()))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWhatDiffersFromABaseIsSentAsADifference(t *testing.T) {
	old := program(8 * ChunkSize)
	content := slices.Concat(old[:3*ChunkSize], []byte("a new version"), old[3*ChunkSize:])
	for i := 0; i < len(content); i += 5000 {
		content[i]++
	}
	f, base := file(t, content), file(t, old)
	whole := send(t, f)
	f.Base, f.BasePath = base.SHA256, base.Path
	small := send(t, f)
	assert.Less(t, len(small), len(whole)/20)
	requireContent(t, content, received(t, small, old))

	f.Base, f.BasePath = base.SHA256, file(t, []byte("nothing in common")).Path
	assert.True(t, bytes.Equal(whole, send(t, file2(f))), "a base that is of no use is not named")
}

// file2 is the file without what was kept for it.
func file2(f File) File {
	Forget(f.Path)
	return f
}

func TestDamagedKeptFramesAreMadeAnew(t *testing.T) {
	content := program(2*ChunkSize + 5)
	f := file(t, content)
	whole := send(t, f)
	path := f.Path + keptSuffix + "zstd"
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, length := range []int{0, 10, headerLength, 5000, len(kept) - 1} {
		require.NoError(t, os.WriteFile(path, kept[:length], 0o600))
		assert.True(t, bytes.Equal(whole, send(t, f)), "cut at %d", length)
	}
	for _, wrong := range [][]byte{make([]byte, 100), append(bytes.Clone(kept), 0)} {
		require.NoError(t, os.WriteFile(path, wrong, 0o600))
		assert.True(t, bytes.Equal(whole, send(t, f)))
	}
}

func TestTwentySendersAtOnceMakeTheFramesOnce(t *testing.T) {
	content := program(ChunkSize + 100)
	f := file(t, content)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { requireContent(t, content, received(t, send(t, f), nil)) })
	}
	wait.Wait()
	left, err := filepath.Glob(f.Path + keptSuffix + "*")
	require.NoError(t, err)
	assert.Equal(t, []string{f.Path + keptSuffix + "zstd", f.Path + keptSuffix + "zstd.lock"}, left)
}

func TestAFileThatIsGoneIsAnError(t *testing.T) {
	f := file(t, program(ChunkSize+5))
	require.NoError(t, os.Remove(f.Path))
	_, err := NewWork([]File{f}, "")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// oneFrame gives what a reader makes of a stream with one frame.
func oneFrame(t *testing.T, content Content, header frame, data []byte) error {
	t.Helper()
	r, err := NewReader(bytes.NewReader(append(header.encode(), data...)), &Manifest{Version: Version, Contents: []Content{content}},
		func(string) (Base, error) { return bytes.NewReader(nil), nil })
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next(make([]byte, ChunkSize))
	return err
}

func TestAFrameThatCannotBeIsRefused(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := encoder.EncodeAll(make([]byte, 256<<20), nil)
	require.Less(t, len(bomb), ChunkSize)
	content := Content{SHA256: hex.EncodeToString(make([]byte, 32)), Size: ChunkSize + 10}
	for what, header := range map[string]frame{
		"more than it says":   {kind: kindZstd, raw: ChunkSize, wire: uint32(len(bomb))},
		"another content":     {index: 1, raw: 10, wire: 10},
		"a chunk too many":    {chunk: 2, raw: 10, wire: 10},
		"a short chunk":       {raw: 10, wire: 10},
		"a long last chunk":   {chunk: 1, raw: 11, wire: 11},
		"an unknown kind":     {kind: 3, chunk: 1, raw: 10, wire: 5},
		"larger when packed":  {kind: kindZstd, chunk: 1, raw: 10, wire: 11},
		"a plain one, packed": {chunk: 1, raw: 10, wire: 5},
		"without a base":      {kind: kindDelta, chunk: 1, raw: 10, wire: 5},
		"a wrong checksum":    {chunk: 1, raw: 10, wire: 10},
	} {
		assert.True(t, reason.Is(oneFrame(t, content, header, bomb), reason.TransferChecksum), what)
	}
}

func TestAManifestThatCannotBeIsRefused(t *testing.T) {
	good := Content{SHA256: hex.EncodeToString(make([]byte, 32)), Size: 10}
	for says, m := range map[string]Manifest{
		"speaks version":     {Version: 1},
		"has no SHA-256":     {Version: Version, Contents: []Content{{SHA256: "../../etc/passwd"}}},
		"is there twice":     {Version: Version, Contents: []Content{good, good}},
		"has the size -1":    {Version: Version, Contents: []Content{{SHA256: good.SHA256, Size: -1}}},
		"has a base without": {Version: Version, Contents: []Content{{SHA256: good.SHA256, Size: 10, Base: `..\state.json`}}},
		"more than 1000":     {Version: Version, Contents: make([]Content, 1001)},
		"has the size 42949": {Version: Version, Contents: []Content{{SHA256: good.SHA256, Size: 42949672960}}},
		"no valid session":   {Version: Version, Lane: 1},
	} {
		assert.ErrorContains(t, m.Check(), says)
	}
}

func FuzzReader(f *testing.F) {
	var stream bytes.Buffer
	sum := sha256.Sum256([]byte("hello"))
	_ = WriteManifest(&stream, &Manifest{Version: Version, Contents: []Content{{SHA256: hex.EncodeToString(sum[:]), Size: 5}}})
	stream.Write(frame{kind: kindPlain, raw: 5, wire: 5, sum: crc32.Checksum([]byte("hello"), castagnoli)}.encode())
	stream.WriteString("hello")
	stream.Write(frame{kind: kindEnd}.encode())
	f.Add(stream.Bytes())
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := bytes.NewReader(stream)
		m, err := ReadManifest(in)
		if err != nil {
			return
		}
		r, err := NewReader(in, m, func(string) (Base, error) { return bytes.NewReader([]byte("base")), nil })
		require.NoError(t, err)
		defer r.Close()
		for {
			chunk, err := r.Next(make([]byte, ChunkSize))
			if err != nil {
				return
			}
			require.Less(t, chunk.Index, len(m.Contents))
			require.LessOrEqual(t, chunk.Offset+int64(len(chunk.Data)), m.Contents[chunk.Index].Size)
		}
	})
}

func BenchmarkSend(b *testing.B) {
	f := file(b, program(64<<20))
	b.SetBytes(f.Size)
	for b.Loop() {
		Forget(f.Path)
		_ = send(b, f)
	}
}

func BenchmarkSendKept(b *testing.B) {
	f := file(b, program(64<<20))
	_ = send(b, f)
	b.SetBytes(f.Size)
	for b.Loop() {
		_ = send(b, f)
	}
}

func TestNoMoreIsUnderWayThanACutMayCost(t *testing.T) {
	content := make([]byte, 10*ChunkSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	f := file(t, content)
	const frame = headerLength + ChunkSize
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWork([]File{f}, "ABCDEFGHIJKLMNOPQRSTUVWXY2")
		require.NoError(t, err)
		defer w.Close()
		w.MaxUnderWay = 4 << 20
		var streams [2]bytes.Buffer
		var lanes sync.WaitGroup
		w.AddLane()
		for lane := range streams {
			lanes.Go(func() { assert.NoError(t, w.Send(t.Context(), &streams[lane], lane)) })
		}
		frames := func() int { return (streams[0].Len() + streams[1].Len()) / frame }
		synctest.Wait()
		assert.Equal(t, 1, frames(), "the far end may be busy")
		w.Arrived(0, 0)
		synctest.Wait()
		assert.Equal(t, 3, frames(), "a fourth one with its header would be too much")
		for frames() < 10 {
			before := frames()
			w.Arrived(0, int64(streams[0].Len()/frame*frame))
			w.Arrived(1, int64(streams[1].Len()/frame*frame))
			synctest.Wait()
			assert.LessOrEqual(t, frames(), before+3)
		}
		w.Arrived(1, int64(streams[1].Len()/frame*frame))
		lanes.Wait()
	})
}

func TestTheMainStreamEndsWhenTheOtherLanesChunksAreThere(t *testing.T) {
	f := file(t, program(2*ChunkSize))
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWork([]File{f}, "ABCDEFGHIJKLMNOPQRSTUVWXY2")
		require.NoError(t, err)
		defer w.Close()
		w.MaxUnderWay = 4 << 20
		w.AddLane()
		w.Arrived(0, 0)
		var beside, main bytes.Buffer
		require.NoError(t, w.Send(t.Context(), &beside, 1))
		ended := make(chan error, 1)
		go func() { ended <- w.Send(t.Context(), &main, 0) }()
		synctest.Wait()
		require.Empty(t, ended)
		w.Arrived(1, int64(beside.Len()))
		require.NoError(t, <-ended)
	})
}

func TestWhoWaitsForTheFarEndEndsWithTheTransfer(t *testing.T) {
	f := file(t, program(3*ChunkSize))
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWork([]File{f}, "")
		require.NoError(t, err)
		defer w.Close()
		w.MaxUnderWay = 1
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Send(ctx, io.Discard, 0) }()
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
}
