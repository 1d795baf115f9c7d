//go:build unix

package delta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand"
	"os"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// link makes something like a program: functions that call each other by relative addresses, each aligned, and after them a table of where
// they begin and one of absolute addresses. The same seed gives the same functions; extra[i] bytes are put into the i-th.
func link(seed int64, functions int, extra map[int]int) []byte {
	r := rand.New(rand.NewSource(seed))
	type call struct{ at, to int }
	bodies, calls := make([][]byte, functions), make([][]call, functions)
	for i := range bodies {
		bodies[i] = noise(r, 40+r.Intn(400))
		grown := extra[i]
		bodies[i] = append(bytes.Repeat([]byte{0x90}, grown), bodies[i]...)
		for at := grown + r.Intn(20); at+4 <= len(bodies[i]); at += 4 + r.Intn(40) {
			calls[i] = append(calls[i], call{at, r.Intn(functions)})
		}
	}
	starts := make([]int, functions)
	size := 0
	for i, b := range bodies {
		starts[i] = size
		size += (len(b) + 31) / 32 * 32
	}
	program := bytes.Repeat([]byte{0xcc}, size)
	for i, b := range bodies {
		copy(program[starts[i]:], b)
		for _, c := range calls[i] {
			binary.LittleEndian.PutUint32(program[starts[i]+c.at:], uint32(starts[c.to]-starts[i]-c.at-4))
		}
	}
	for i, start := range starts {
		program = binary.LittleEndian.AppendUint32(program, uint32(0x1000+start))
		program = binary.LittleEndian.AppendUint32(program, uint32(0x1000+start+len(bodies[i])))
		program = binary.LittleEndian.AppendUint32(program, uint32(0x80000+12*i))
	}
	for _, c := range calls[0] {
		program = binary.LittleEndian.AppendUint64(program, uint64(0x140001000+starts[c.to]))
	}
	return program
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	r.Read(b)
	return b
}

func newBase(t testing.TB, data []byte) *Base {
	t.Helper()
	b, err := NewBase(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return b
}

// roundTrip encodes a chunk, decodes it again and gives the delta.
func roundTrip(t testing.TB, b *Base, chunk []byte, at int64) []byte {
	t.Helper()
	d, err := b.Encode([]byte("before"), chunk, at)
	require.NoError(t, err)
	require.Equal(t, "before", string(d[:6]))
	got, err := Decode([]byte("chunk "), d[6:], bytes.NewReader(b.data), int64(len(b.data)), len(chunk))
	require.NoError(t, err)
	require.Equal(t, "chunk ", string(got[:6]))
	require.True(t, bytes.Equal(chunk, got[6:]), "the chunk has changed on its way")
	return d[6:]
}

func TestAChunkComesBackFromWhatItSharesWithTheBase(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	base := noise(r, 1<<20)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	scattered := bytes.Clone(base)
	for i := 0; i+4 < len(scattered); i += 20 + r.Intn(200) {
		word := binary.LittleEndian.Uint32(scattered[i:])
		binary.LittleEndian.PutUint32(scattered[i:], word+0x1240)
	}
	for _, c := range []struct {
		name  string
		chunk []byte
		at    int64
		most  int // bytes of delta
	}{
		{"all of it", base, 0, 200},
		{"a part that begins anywhere", base[1234:567890], 0, 200},
		{"a part that is where it was", base[4096:8192], 4096, 100},
		{"an insertion", join(base[:500001], noise(r, 777), base[500001:]), 0, 1100},
		{"a deletion", join(base[:500001], base[500778:]), 0, 200},
		{"blocks in another order", join(base[700000:], base[300000:700000], base[:300000]), 0, 200},
		{"the same again and again", bytes.Repeat(base[:3000], 300), 0, 5000},
		{"scattered words that grew by as much", scattered, 0, 20000},
		{"something new at the end", join(base, noise(r, 333)), 0, 600},
		{"half of it new", join(base[:1<<19], noise(r, 1<<19)), 0, 1<<19 + 300},
		{"a few bytes of the base", base[1000:1100], 1000, 60},
		{"a place far beyond the base", base, 1 << 40, 200},
		{"a place before the base", base, -5000, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.LessOrEqual(t, len(roundTrip(t, newBase(t, base), c.chunk, c.at)), c.most)
		})
	}
}

func TestAProgramWithSomeFunctionsChangedIsASmallDelta(t *testing.T) {
	old := link(1, 12000, nil)
	grown := link(1, 12000, map[int]int{3: 40, 4000: 100, 4001: 3, 9000: 1000})
	require.Less(t, len(grown), MaxChunk)
	require.Greater(t, len(grown), len(old))
	d := roundTrip(t, newBase(t, old), grown, 0)
	assert.Less(t, len(d), len(grown)*6/100, "the calls and both tables follow from how the functions moved")
}

func TestThereIsNoGainWhereNothingIsAlike(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	base := noise(r, 1<<20)
	for _, c := range []struct {
		name        string
		base, chunk []byte
	}{
		{"an empty chunk", base, nil},
		{"a chunk of one byte", base, base[:1]},
		{"an empty base", nil, base},
		{"a base shorter than a block", base[:7], base[:1<<16]},
		{"unrelated noise", base, noise(r, 1<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newBase(t, c.base).Encode(nil, c.chunk, 0)
			assert.ErrorIs(t, err, ErrNoGain)
		})
	}
}

func TestRandomEditsComeBackChunkByChunkInAnyOrder(t *testing.T) {
	for seed := range int64(60) {
		r := rand.New(rand.NewSource(seed))
		base := link(seed, 1+r.Intn(1500), nil)
		if seed%3 == 0 {
			base = append(base, make([]byte, r.Intn(50000))...) // zeros are alike everywhere
		}
		file := edit(r, bytes.Clone(base), r.Intn(60))
		size := 1 + r.Intn(2*len(file))
		b := newBase(t, base)
		chunks := (len(file) + size - 1) / size
		for _, i := range r.Perm(chunks) {
			chunk := file[i*size : min((i+1)*size, len(file))]
			if _, err := b.Encode(nil, chunk, int64(i*size)); !errors.Is(err, ErrNoGain) {
				roundTrip(t, b, chunk, int64(i*size))
			}
		}
	}
}

func edit(r *rand.Rand, file []byte, edits int) []byte {
	for range edits {
		i := r.Intn(len(file))
		n := r.Intn(min(1+len(file)-i, 1<<r.Intn(14)))
		switch r.Intn(5) {
		case 0:
			file = append(file[:i:i], append(noise(r, n), file[i:]...)...)
		case 1:
			if len(file) > n+100 {
				file = append(file[:i:i], file[i+n:]...)
			}
		case 2:
			copy(file[i:], noise(r, n))
		case 3:
			copy(file[i:], file[r.Intn(len(file)):])
		case 4:
			for ; n > 8 && i+4 <= len(file); n, i = n-8, i+8 {
				binary.LittleEndian.PutUint32(file[i:], word(file[i:])+uint32(r.Intn(2))*0x340)
			}
		}
	}
	return file
}

func TestTheSameChunkIsAlwaysTheSameDelta(t *testing.T) {
	old, grown := link(3, 3000, nil), link(3, 3000, map[int]int{70: 50})
	first := roundTrip(t, newBase(t, old), grown, 0)
	b := newBase(t, old)
	roundTrip(t, b, old, 0)
	assert.Equal(t, first, roundTrip(t, b, grown, 0))
}

func TestADamagedDeltaNeverGivesAnotherSize(t *testing.T) {
	old, grown := link(4, 1500, nil), link(4, 1500, map[int]int{10: 60, 900: 9})
	d := roundTrip(t, newBase(t, old), grown, 0)
	r := rand.New(rand.NewSource(4))
	try := func(delta, base []byte, size int) {
		got, err := Decode(nil, delta, bytes.NewReader(base), int64(len(base)), size)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			require.Nil(t, got)
			return
		}
		require.Len(t, got, size)
	}
	for range 2000 {
		flipped := bytes.Clone(d)
		for range 1 + r.Intn(3) {
			flipped[r.Intn(len(flipped))] ^= 1 << r.Intn(8)
		}
		try(flipped, old, len(grown))
		_, err := Decode(nil, d[:r.Intn(len(d))], bytes.NewReader(old), int64(len(old)), len(grown))
		require.ErrorIs(t, err, ErrDamaged, "what was cut off cannot be whole")
		try(d, old[:r.Intn(len(old))], len(grown))
		try(d, noise(r, len(old)), len(grown))
	}
	for _, size := range []int{-1, 0, 1, len(grown) - 1, len(grown) + 1, MaxChunk, MaxChunk + 1} {
		_, err := Decode(nil, d, bytes.NewReader(old), int64(len(old)), size)
		assert.ErrorIs(t, err, ErrDamaged, "%d", size)
	}
}

// pack makes a delta of streams that no encoder would write.
func pack(t testing.TB, raw ...[]byte) (delta []byte) {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	var packed []byte
	for i, p := range raw {
		wire := encoder.EncodeAll(p, nil)
		if i != literalStream {
			delta = binary.AppendUvarint(delta, uint64(len(wire)))
		}
		packed = append(packed, wire...)
	}
	return append(delta, packed...)
}

func numbers(literals, length uint64, seek int64) []byte {
	return binary.AppendVarint(binary.AppendUvarint(binary.AppendUvarint(nil, literals), length), seek)
}

func TestAnInstructionThatCannotBeIsRefused(t *testing.T) {
	base := noise(rand.New(rand.NewSource(5)), 1000)
	for _, c := range []struct {
		name                             string
		control, gaps, changes, literals []byte
		problem                          string
	}{
		{"a copy that begins before the base", numbers(0, 100, -1), nil, nil, nil, "from beyond the base"},
		{"a copy that goes on after the base", numbers(0, 100, 901), nil, nil, nil, "from beyond the base"},
		{"a copy that begins after the base", numbers(0, 100, 1<<62), nil, nil, nil, "from beyond the base"},
		{"a seek that overflows", append(numbers(0, 50, 900), numbers(0, 50, 1<<63-1)...), nil, nil, nil, "from beyond the base"},
		{"a seek back that overflows", append(numbers(0, 50, 900), numbers(0, 50, -1<<63)...), nil, nil, nil, "from beyond the base"},
		{"a copy that is too long", numbers(0, 101, 0), nil, nil, nil, "too much"},
		{"a copy without an end", numbers(0, 1<<63, 0), nil, nil, nil, "instruction that cannot be"},
		{"half an instruction", []byte{0, 100}, nil, nil, nil, "instruction that cannot be"},
		{"more literals than there are", numbers(50, 50, 0), nil, nil, base[:49], "too few literals"},
		{"too many literals", numbers(101, 0, 0), nil, nil, base[:100], "too few literals"},
		{"literals left over", numbers(0, 50, 0), nil, nil, base[:51], "another size"},
		{"literals that are missing", numbers(0, 50, 0), nil, nil, base[:49], "another size"},
		{"a change across the end of a copy", numbers(0, 100, 0), []byte{97}, []byte{1}, nil, "not copied"},
		{"a change after the last copy", numbers(0, 100, 0), []byte{100}, []byte{1}, nil, "left over"},
		{"a gap without a change", numbers(0, 100, 0), []byte{1}, nil, nil, "too few changes"},
		{"a change without a gap", numbers(0, 100, 0), nil, []byte{1}, nil, "left over"},
		{"a gap without an end", numbers(0, 100, 0), []byte{0x80}, []byte{1}, nil, "gap that cannot be"},
		{"a gap that is too large", numbers(0, 100, 0), binary.AppendUvarint(nil, 1<<63), []byte{1}, nil, "gap that cannot be"},
		{"a new difference that is missing", numbers(0, 100, 0), []byte{1}, []byte{fresh}, base[:3], "too few literals"},
		{"more instructions than can be", bytes.Repeat(numbers(0, 0, 1), 50), nil, nil, base[:100], "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(nil, pack(t, c.control, c.gaps, c.changes, c.literals), bytes.NewReader(base), int64(len(base)), 100)
			require.ErrorIs(t, err, ErrDamaged)
			assert.ErrorContains(t, err, c.problem)
		})
	}
}

func TestADeltaCannotMakeTheDecoderTakeMuchMemory(t *testing.T) {
	base := make([]byte, 1<<20)
	var streaming bytes.Buffer // a frame that does not say its size
	w, err := zstd.NewWriter(&streaming, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	for range 100 {
		_, err := w.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	silent := append(binary.AppendUvarint(nil, uint64(streaming.Len())), 0, 0)
	for name, delta := range map[string][]byte{
		"a stream of 1 GiB":                    pack(t, nil, nil, nil, make([]byte, 1<<30)),
		"a stream that does not say its size":  append(silent, streaming.Bytes()...),
		"many frames in one stream":            append(silent[:0:0], append([]byte{0, 0, 0}, bytes.Repeat(streaming.Bytes(), 50)...)...),
		"streams that are as long as they can": pack(t, make([]byte, MaxChunk/8), make([]byte, MaxChunk/2), make([]byte, MaxChunk/4), make([]byte, MaxChunk)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newDecoder()
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = Decode(nil, delta, bytes.NewReader(base), int64(len(base)), MaxChunk)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, ErrDamaged)
			// All that was ever allocated: at no time was it more.
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(MaxChunk+24<<20))
		})
	}
}

// counting counts the reads of a base.
type counting struct {
	io.ReaderAt
	reads int
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(p, at)
}

func TestCopiesThatLieCloseTogetherAreOneRead(t *testing.T) {
	base := noise(rand.New(rand.NewSource(6)), 1<<20)
	var chunk []byte
	for i := 0; i+90 < 100_000; i += 100 {
		chunk = append(chunk, base[i:i+90]...)
	}
	d, err := newBase(t, base).Encode(nil, chunk, 0)
	require.NoError(t, err)
	c := &counting{ReaderAt: bytes.NewReader(base)}
	_, err = Decode(nil, d, c, int64(len(base)), len(chunk))
	require.NoError(t, err)
	assert.LessOrEqual(t, c.reads, 5, "of a thousand copies")
}

func TestABaseThatCannotBeReadIsNotTheDeltasFault(t *testing.T) {
	base := noise(rand.New(rand.NewSource(7)), 1<<16)
	d, err := newBase(t, base).Encode(nil, base, 0)
	require.NoError(t, err)
	_, err = Decode(nil, d, bytes.NewReader(base[:1000]), int64(len(base)), len(base))
	require.ErrorIs(t, err, io.EOF)
	assert.NotErrorIs(t, err, ErrDamaged)
	_, err = NewBase(bytes.NewReader(base[:1000]), int64(len(base)))
	require.ErrorIs(t, err, io.EOF)
}

func TestSizesThatCannotBeAreRefused(t *testing.T) {
	for _, size := range []int64{-1, maxBase + 1} {
		_, err := NewBase(bytes.NewReader(nil), size)
		assert.ErrorContains(t, err, "can be indexed")
	}
	_, err := newBase(t, make([]byte, 100)).Encode(nil, make([]byte, MaxChunk+1), 0)
	assert.ErrorContains(t, err, "at most")
}

func FuzzDecode(f *testing.F) {
	old, grown := link(8, 30, nil), link(8, 30, map[int]int{3: 20})
	d, err := newBase(f, old).Encode(nil, grown, 0)
	require.NoError(f, err)
	f.Add(d, len(grown))
	f.Add(pack(f, numbers(3, 90, 100), []byte{7, 0}, []byte{fresh, 1}, old[:14]), 100)
	f.Fuzz(func(t *testing.T, delta []byte, size int) {
		if got, err := Decode(nil, delta, bytes.NewReader(old), int64(len(old)), size); err == nil {
			assert.Len(t, got, size)
		} else {
			assert.ErrorIs(t, err, ErrDamaged)
		}
	})
}

func FuzzEncode(f *testing.F) {
	old := link(9, 30, nil)
	f.Add(old, link(9, 30, map[int]int{3: 20}), int64(0))
	f.Add(old[:50], old[:100], int64(-7))
	f.Fuzz(func(t *testing.T, base, chunk []byte, at int64) {
		b := newBase(t, base)
		if _, err := b.Encode(nil, chunk, at); !errors.Is(err, ErrNoGain) {
			roundTrip(t, b, chunk, at)
		}
	})
}

// files gives the base and the file of a benchmark: those that DELTA_BASE and DELTA_FILE name, such as two builds of the kubelet.
func files(b *testing.B) (base, file []byte) {
	b.Helper()
	if os.Getenv("DELTA_BASE") == "" {
		return link(10, 50000, nil), link(10, 50000, map[int]int{7: 99, 20000: 40})
	}
	base, err := os.ReadFile(os.Getenv("DELTA_BASE"))
	require.NoError(b, err)
	file, err = os.ReadFile(os.Getenv("DELTA_FILE"))
	require.NoError(b, err)
	return base, file
}

func BenchmarkNewBase(b *testing.B) {
	base, _ := files(b)
	b.SetBytes(int64(len(base)))
	b.ReportAllocs()
	for b.Loop() {
		newBase(b, base)
	}
}

func BenchmarkEncode(b *testing.B) {
	old, file := files(b)
	base := newBase(b, old)
	whole, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault))
	require.NoError(b, err)
	sent := 0
	for at := 0; at < len(file); at += MaxChunk {
		sent += len(whole.EncodeAll(file[at:min(at+MaxChunk, len(file))], nil))
	}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = 0
		for at := 0; at < len(file); at += MaxChunk {
			d, err := base.Encode(nil, file[at:min(at+MaxChunk, len(file))], int64(at))
			require.NoError(b, err)
			size += len(d)
		}
	}
	b.ReportMetric(float64(size), "delta-bytes")
	b.ReportMetric(float64(size)/float64(sent)*100, "%-of-full")
}

func BenchmarkDecode(b *testing.B) {
	old, file := files(b)
	base := newBase(b, old)
	var deltas [][]byte
	for at := 0; at < len(file); at += MaxChunk {
		d, err := base.Encode(nil, file[at:min(at+MaxChunk, len(file))], int64(at))
		require.NoError(b, err)
		deltas = append(deltas, d)
	}
	out := make([]byte, 0, MaxChunk)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		for i, d := range deltas {
			got, err := Decode(out[:0], d, bytes.NewReader(old), int64(len(old)), min(MaxChunk, len(file)-i*MaxChunk))
			require.NoError(b, err)
			require.True(b, bytes.Equal(got, file[i*MaxChunk:i*MaxChunk+len(got)]))
		}
	}
}
