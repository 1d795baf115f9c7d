package delta

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// newDecoder gives the one decoder, which may be used by several at once.
var newDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxChunk), zstd.WithDecoderMaxWindow(MaxChunk))
})

func damaged(problem string) error { return fmt.Errorf("%w: %s", ErrDamaged, problem) }

// Decode appends the size bytes of a chunk to dst. The delta may come from anybody: what is wrong with it is an ErrDamaged, and beside dst it
// takes at most about four times MaxChunk of memory. An error of the base is given as it is.
func Decode(dst, delta []byte, base io.ReaderAt, baseSize int64, size int) ([]byte, error) {
	if size < 0 || size > MaxChunk {
		return nil, damaged(fmt.Sprintf("a chunk has no %d bytes", size))
	}
	raw, err := unpack(delta, size)
	if err != nil {
		return nil, err
	}
	d := decoding{streams: raw, base: window{file: base, size: baseSize}, size: size, left: size, out: slices.Grow(dst, size), model: &model{}}
	if err := d.run(); err != nil {
		return nil, err
	}
	return d.out, nil
}

// unpack gives the streams of a delta.
func unpack(delta []byte, size int) (raw [streams][]byte, err error) {
	decoder, err := newDecoder()
	if err != nil {
		return raw, err
	}
	var wire [streams]uint64
	for i := range literalStream {
		n, read := binary.Uvarint(delta)
		if read <= 0 {
			return raw, damaged("it has no lengths")
		}
		wire[i], delta = n, delta[read:]
	}
	for i, limit := range limits(size) {
		packed := delta
		if i != literalStream {
			if wire[i] > uint64(len(delta)) {
				return raw, damaged("it breaks off")
			}
			packed, delta = delta[:wire[i]], delta[wire[i]:]
		}
		if raw[i], err = decoder.DecodeAll(packed, nil); err != nil {
			return raw, damaged(err.Error())
		}
		if len(raw[i]) > limit {
			return raw, damaged("a stream is too long")
		}
	}
	return raw, nil
}

// decoding is a chunk under way; left counts the bytes of size that are still to come.
type decoding struct {
	streams    [streams][]byte
	base       window
	out        []byte
	size, left int
	model      *model
}

func (d *decoding) run() error {
	gap, err := d.gap()
	if err != nil {
		return err
	}
	end := int64(0) // of the copy before, in the base
	for len(d.streams[controlStream]) > 0 {
		literals, length, seek, err := d.instruction()
		if err != nil {
			return err
		}
		if err := d.literals(literals); err != nil {
			return err
		}
		if length > d.left {
			return damaged("it gives too much")
		}
		if seek < -end || seek > d.base.size-end || int64(length) > d.base.size-end-seek {
			return damaged("it copies from beyond the base")
		}
		from, position := end+seek, d.size-d.left
		d.out = append(d.out, make([]byte, length)...)
		copied := d.out[len(d.out)-length:]
		if err := d.base.read(copied, from); err != nil {
			return err
		}
		if gap, err = d.change(copied, gap, uint32(from), uint32(from)-uint32(position)); err != nil {
			return err
		}
		d.left, end = d.left-length, from+int64(length)
	}
	if len(d.streams[gapStream])+len(d.streams[changeStream]) > 0 || gap != math.MaxInt {
		return damaged("it has changes left over")
	}
	if len(d.streams[literalStream]) != d.left {
		return damaged("it gives another size")
	}
	return d.literals(d.left)
}

// change adds the differences that belong to what was copied from a place in the base, and gives what is left of the gap.
func (d *decoding) change(copied []byte, gap int, from, shift uint32) (int, error) {
	for len(copied) >= 4 && gap <= len(copied)-4 {
		copied, from = copied[gap:], from+uint32(gap)
		difference, err := d.difference(d.model.suggestion(from, word(copied)), shift)
		if err != nil {
			return 0, err
		}
		binary.LittleEndian.PutUint32(copied, word(copied)+difference)
		copied, from = copied[4:], from+4
		if gap, err = d.gap(); err != nil {
			return 0, err
		}
	}
	switch {
	case gap == math.MaxInt:
		return gap, nil
	case gap < len(copied):
		return 0, damaged("it changes a word that was not copied")
	}
	return gap - len(copied), nil
}

// difference reads a change.
func (d *decoding) difference(suggestion *uint32, shift uint32) (difference uint32, err error) {
	if len(d.streams[changeStream]) == 0 {
		return 0, damaged("it has too few changes")
	}
	code := int(d.streams[changeStream][0])
	d.streams[changeStream] = d.streams[changeStream][1:]
	switch code {
	case predicted:
		return *suggestion - shift, nil
	case fresh:
		if len(d.streams[literalStream]) < 4 {
			return 0, damaged("it has too few literals")
		}
		difference = word(d.streams[literalStream])
		d.streams[literalStream] = d.streams[literalStream][4:]
	default:
		difference = d.model.recent[code-1]
	}
	d.model.use(code-1, difference)
	*suggestion = difference + shift
	return difference, nil
}

// gap reads a gap: what can never be reached when there are no more.
func (d *decoding) gap() (int, error) {
	if len(d.streams[gapStream]) == 0 {
		return math.MaxInt, nil
	}
	n, read := binary.Uvarint(d.streams[gapStream])
	if read <= 0 || n > MaxChunk {
		return 0, damaged("it has a gap that cannot be")
	}
	d.streams[gapStream] = d.streams[gapStream][read:]
	return int(n), nil
}

// instruction reads how many literals come, and the copy after them.
func (d *decoding) instruction() (literals, length int, seek int64, err error) {
	control := d.streams[controlStream]
	a, n := binary.Uvarint(control)
	b, m := binary.Uvarint(control[max(n, 0):])
	seek, k := binary.Varint(control[max(n, 0)+max(m, 0):])
	if n <= 0 || m <= 0 || k <= 0 || a > MaxChunk || b > MaxChunk {
		return 0, 0, 0, damaged("it has an instruction that cannot be")
	}
	d.streams[controlStream] = control[n+m+k:]
	return int(a), int(b), seek, nil
}

// literals moves n literals to the chunk.
func (d *decoding) literals(n int) error {
	if n > d.left || n > len(d.streams[literalStream]) {
		return damaged("it has too few literals")
	}
	d.out = append(d.out, d.streams[literalStream][:n]...)
	d.streams[literalStream], d.left = d.streams[literalStream][n:], d.left-n
	return nil
}

// window reads a base so that what lies close together is one read.
type window struct {
	file   io.ReaderAt
	size   int64
	start  int64
	buffer []byte
}

const (
	windowSize = 32 << 10
	windowBack = 4 << 10 // copies go back a little, too
)

// read fills p from a place in the base, which has been checked to lie within it.
func (w *window) read(p []byte, from int64) error {
	if len(p) > windowSize-windowBack {
		return w.fill(p, from)
	}
	if from < w.start || from+int64(len(p)) > w.start+int64(len(w.buffer)) {
		if w.buffer == nil {
			w.buffer = make([]byte, windowSize)
		}
		w.start = max(0, from-windowBack)
		w.buffer = w.buffer[:min(windowSize, w.size-w.start)]
		if err := w.fill(w.buffer, w.start); err != nil {
			return err
		}
	}
	copy(p, w.buffer[from-w.start:])
	return nil
}

func (w *window) fill(p []byte, from int64) error {
	if n, err := w.file.ReadAt(p, from); n < len(p) {
		return fmt.Errorf("delta base: %d bytes at %d cannot be read: %w", len(p), from, err)
	}
	return nil
}
