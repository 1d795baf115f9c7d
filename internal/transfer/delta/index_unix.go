//go:build unix

package delta

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"sort"
)

const (
	maxBase   = 1 << 30 // bytes
	placeMask = maxBase/blockStep - 1

	blockStep = 1 << 4 // bytes from one indexed block to the next
	trendStep = 32     // and from one indexed trend to the next
	blockSize = 16     // bytes that are hashed
	trendSize = 40
	period    = 24 // bytes: rows of one, two, three or six words repeat in it

	candidates  = 8   // places that are compared for one hash
	compareSize = 128 // bytes that are compared
)

// Base is a file and an index over it, together at most twice the file's size. It is safe for concurrent use.
type Base struct {
	data []byte
	// places holds positions in units of blockStep, and above them more bits of the hash. Those whose hashes begin alike stand together, in
	// their order: from starts[h] to starts[h+1].
	starts, places []uint32
	shift          int // of a 64-bit hash, to its begin
}

// NewBase reads and indexes a file of size bytes.
func NewBase(r io.ReaderAt, size int64) (*Base, error) {
	if size < 0 || size > maxBase {
		return nil, fmt.Errorf("delta base: it has %d bytes, and at most %d can be indexed", size, maxBase)
	}
	b := &Base{data: make([]byte, size)}
	if n, err := r.ReadAt(b.data, 0); n < len(b.data) {
		return nil, fmt.Errorf("delta base: it cannot be read: %w", err)
	}
	width := max(1, bits.Len(uint(size/blockStep))-1)
	b.shift = 64 - width
	b.starts = make([]uint32, 1<<width+1)
	b.each(func(hash uint64, _ uint32) { b.starts[hash>>b.shift]++ })
	sum := uint32(0)
	for i, n := range b.starts {
		sum += n
		b.starts[i] = sum
	}
	b.places = make([]uint32, sum)
	b.each(func(hash uint64, place uint32) {
		b.starts[hash>>b.shift]--
		b.places[b.starts[hash>>b.shift]] = place | tag(hash)
	})
	return b, nil
}

// each calls f for all that is indexed, from the end to the begin.
func (b *Base) each(f func(hash uint64, place uint32)) {
	for i := (len(b.data) - trendSize) / blockStep * blockStep; i >= 0 && len(b.data) >= trendSize; i -= blockStep {
		f(block(b.data[i:]), uint32(i/blockStep))
		if i%trendStep == 0 {
			f(trend(b.data[i:]), uint32(i/blockStep))
		}
	}
}

// block is the hash of the first bytes of p.
func block(p []byte) uint64 {
	return mix(mix(0, binary.LittleEndian.Uint64(p)), binary.LittleEndian.Uint64(p[8:]))
}

// trend is the hash of how the words of p grow from row to row, which stays the same in a table of addresses when all of them move.
func trend(p []byte) uint64 {
	h := uint64(1)
	for i := 0; i < trendSize-period; i += 8 {
		h = mix(h, uint64(word(p[i+period:])-word(p[i:]))|uint64(word(p[i+period+4:])-word(p[i+4:]))<<32)
	}
	return h
}

func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// tag is a part of the hash that fits above a place.
func tag(hash uint64) uint32 { return uint32(hash) &^ placeMask }

// from is the base from a position on, which may lie outside of it.
func (b *Base) from(position int) []byte {
	if position < 0 || position > len(b.data) {
		return nil
	}
	return b.data[position:]
}

// find looks for a place in the base that p resembles clearly more than what lies at position, where p was expected.
func (b *Base) find(p []byte, position int) (found int, ok bool) {
	if len(p) < trendSize {
		return 0, false
	}
	best := resemblance(p, b.from(position), compareSize) + blockSize/2
	for _, hash := range []uint64{block(p), trend(p)} {
		for _, place := range b.nearest(hash, position/blockStep) {
			if place&^placeMask != tag(hash) {
				continue
			}
			start := int(place&placeMask) * blockStep
			if n := resemblance(p, b.data[start:], compareSize); n > best {
				best, found, ok = n, start, true
			}
		}
		if ok {
			break
		}
	}
	return found, ok
}

// nearest gives some of the places with a hash, those about a place.
func (b *Base) nearest(hash uint64, place int) []uint32 {
	all := b.places[b.starts[hash>>b.shift]:b.starts[hash>>b.shift+1]]
	if len(all) <= candidates {
		return all
	}
	i := sort.Search(len(all), func(i int) bool { return int(all[i]&placeMask) >= place })
	i = min(max(0, i-candidates/2), len(all)-candidates)
	return all[i : i+candidates]
}

// resemblance counts the equal bytes among the first n. A word that differs by as much as a recent one did counts for three of them.
func resemblance(p, q []byte, n int) (same int) {
	const low = 0x7f7f7f7f
	n = min(len(p), len(q), n)
	var d1, d2, d3 uint32
	for i := 0; i+4 <= n; i += 4 {
		v, w := word(p[i:]), word(q[i:])
		switch d := v - w; d {
		case 0:
			same += 4
		case d1, d2, d3:
			same += 3
			d1, d2, d3 = d, d1, d2
		default:
			x := v ^ w
			same += bits.OnesCount32(^(x&low + low | x | low)) // one bit for each byte of x that is 0
			d1, d2, d3 = d, d1, d2
		}
	}
	return same
}
