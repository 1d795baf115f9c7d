//go:build unix

package delta

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	glance = 64 // bytes that are looked at after a difference
	alike  = 48 // of them that are enough to go on
	lost   = 32 // bytes of score after which a copy has come to its end
	worth  = 12 // bytes of score that make a copy worth its instruction

	// Where nothing is found, the search goes on in longer and longer steps. The longest one has no factor in common with the index's steps.
	patience = 1024
	stride   = 13
)

var newEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(MaxChunk))
})

// Encode appends the delta of a chunk to dst. The chunk lies at a position of its file, which is where the base is compared first. It is
// ErrNoGain where the delta would have about three quarters of the chunk's size or more.
func (b *Base) Encode(dst, chunk []byte, at int64) ([]byte, error) {
	if len(chunk) > MaxChunk {
		return nil, fmt.Errorf("delta: a chunk has %d bytes, and at most %d can be", len(chunk), MaxChunk)
	}
	encoder, err := newEncoder()
	if err != nil {
		return nil, err
	}
	raw := b.instructions(chunk, b.match(chunk, int(at)))
	limit := len(chunk) * 3 / 4
	var packed [streams][]byte
	size := 0
	for i, most := range limits(len(chunk)) {
		if len(raw[i]) > min(most, limit) {
			return nil, ErrNoGain
		}
		packed[i] = encoder.EncodeAll(raw[i], nil)
		size += len(packed[i])
		if i != literalStream {
			dst = binary.AppendUvarint(dst, uint64(len(packed[i])))
		}
	}
	if size >= limit {
		return nil, ErrNoGain
	}
	return append(dst, bytes.Join(packed[:], nil)...), nil
}

// instructions gives the streams that make a chunk from what was found to be alike.
func (b *Base) instructions(chunk []byte, found []alignment) (raw [streams][]byte) {
	m := &model{}
	position, end, gap := 0, 0, 0
	for _, a := range found {
		if a.end-a.start < worth {
			continue // one that lost most of itself to the next
		}
		i := a.start
		raw[literalStream] = append(raw[literalStream], chunk[position:i]...)
		literals := i - position
		var escaped []byte // differences that are new, which stand behind the literals before the copy
		for {
			n := equal(chunk[i:a.end], b.data[i+a.shift:])
			i, gap = i+n, gap+n
			if i+4 > a.end {
				break
			}
			raw[gapStream] = binary.AppendUvarint(raw[gapStream], uint64(gap))
			w := word(b.data[i+a.shift:])
			code := m.code(uint32(i+a.shift), w, word(chunk[i:])-w, uint32(a.shift))
			raw[changeStream] = append(raw[changeStream], code)
			if code == fresh {
				escaped = binary.LittleEndian.AppendUint32(escaped, word(chunk[i:])-w)
			}
			i, gap = i+4, 0
		}
		raw[literalStream] = append(raw[literalStream], escaped...)
		raw[controlStream] = binary.AppendUvarint(raw[controlStream], uint64(literals))
		raw[controlStream] = binary.AppendUvarint(raw[controlStream], uint64(i-a.start))
		raw[controlStream] = binary.AppendVarint(raw[controlStream], int64(a.start+a.shift-end))
		position, end = i, i+a.shift
	}
	raw[literalStream] = append(raw[literalStream], chunk[position:]...)
	return raw
}

// code says how a difference is written that is added to a word of the base, which moves by shift.
func (m *model) code(position, word, difference, shift uint32) byte {
	suggestion := m.suggestion(position, word)
	if difference == *suggestion-shift {
		return predicted
	}
	*suggestion = difference + shift
	i := 0
	for i < len(m.recent) && m.recent[i] != difference {
		i++
	}
	m.use(i, difference)
	return byte(i + 1)
}

// alignment: the bytes of a chunk from start to end are like those of the base that are shift further on.
type alignment struct {
	start, end, shift int
}

// matching is a chunk under way. score counts the open alignment's bytes that are equal less those that are not; it ends where that was best.
type matching struct {
	chunk       []byte
	base        *Base
	done        []alignment
	open        alignment
	score, best int
	known       [256]uint32 // recent differences, by their hash
	missed      int         // places in a row where nothing was found
}

// match finds what is alike, in the order of the chunk and without overlaps.
func (b *Base) match(chunk []byte, at int) []alignment {
	m := &matching{chunk: chunk, base: b, open: alignment{shift: at}}
	for i := 0; i < len(chunk); {
		q := b.from(i + m.open.shift)
		if n := equal(chunk[i:], q); n > 0 {
			i += n
			m.credit(n, i)
		} else {
			i = m.differs(i, q)
		}
	}
	m.closeOpen(len(chunk))
	return m.done
}

// credit adds to the score what brought the open alignment to i.
func (m *matching) credit(n, i int) {
	if m.score += n; m.score > m.best {
		m.best, m.open.end = m.score, i
	}
	if m.best >= worth {
		m.missed = 0
	}
}

// closeOpen ends the open alignment where it was best, and opens one with the same shift at i.
func (m *matching) closeOpen(i int) {
	if m.best >= worth {
		m.done = append(m.done, m.open)
	}
	m.open = alignment{start: i, end: i, shift: m.open.shift}
	m.score, m.best = 0, 0
}

// differs gets over a difference at i, where q lies in the base, and gives the next i.
func (m *matching) differs(i int, q []byte) int {
	p := m.chunk[i:]
	if len(p) >= 4 && len(q) >= 4 {
		difference := word(p) - word(q)
		slot := &m.known[difference*0x9e3779b1>>24]
		if *slot == difference {
			m.credit(2, i+4)
			return i + 4
		}
		*slot = difference
	}
	step := 4
	if resemblance(p, q, glance) < alike {
		if found, ok := m.base.find(p, i+m.open.shift); ok {
			m.closeOpen(i)
			m.open.shift = found - i
			m.extendBack()
			return i
		}
		m.missed++
		step = 1 + min(m.missed/patience, stride-1)
	}
	i += step
	m.score -= step
	if m.best < worth && m.score < 0 || m.score < m.best-lost {
		m.closeOpen(i)
	}
	return i
}

// extendBack moves the begin of the open alignment back as far as that pays, also into the one before where this one fits better.
func (m *matching) extendBack() {
	o, last := &m.open, &alignment{}
	if len(m.done) > 0 {
		last = &m.done[len(m.done)-1]
	}
	score, best := 0, 0
	for i := o.start - 1; i >= last.start && i+o.shift >= 0 && score > best-lost; i-- {
		if score += m.fits(i, o.shift); score > best {
			best, o.start = score, i
		}
	}
	score, best = 0, 0
	split := o.start
	for i := o.start; i < last.end; i++ {
		if score += m.fits(i, last.shift) - m.fits(i, o.shift); score > best {
			best, split = score, i+1
		}
	}
	last.end, o.start = min(last.end, split), split
}

// fits is 1 where the chunk at i is the base further on by shift, and -1 where it is not.
func (m *matching) fits(i, shift int) int {
	if m.chunk[i] == m.base.data[i+shift] {
		return 1
	}
	return -1
}

// equal counts how many bytes are equal before the first that differ.
func equal(p, q []byte) int {
	n, i := min(len(p), len(q)), 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(p[i:]) ^ binary.LittleEndian.Uint64(q[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && p[i] == q[i] {
		i++
	}
	return i
}
