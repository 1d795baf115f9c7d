// Package delta encodes a chunk of a file by what it shares with another file, the base: of two builds of a program, in most of their places
// only addresses differ, because what they point to has moved.
//
//	delta    = length(control) length(gaps) length(changes) control gaps changes literals
//	control  = { literal bytes, copied bytes, seek }   the seek is signed, from the end of the copy before to this one's begin in the base
//	gaps     = { unchanged bytes before the next change }   they count in what is copied, across the copies
//	changes  = { byte }   which difference is added to the 32-bit word after the gap
//	literals = { bytes before a copy, 4 bytes for each of its differences that is new } and the bytes after the last copy
//
// Numbers are varints, words little-endian; each stream is compressed on its own with zstd and the lengths are those after it. A delta needs
// the base and nothing else, so chunks can be sent in any order. Nothing in it proves that the base is the right one: whoever uses it
// compares a checksum of the chunk.
package delta

import (
	"encoding/binary"
	"errors"
)

// MaxChunk bounds a chunk, in bytes.
const MaxChunk = 4 << 20

var (
	// ErrNoGain: the chunk has too little in common with the base; send it as it is.
	ErrNoGain = errors.New("the chunk has too little in common with the base")
	// ErrDamaged: the delta cannot be one of this chunk against this base.
	ErrDamaged = errors.New("the delta is damaged")
)

const (
	controlStream = iota
	gapStream
	changeStream
	literalStream
	streams
)

// limits are the most bytes that the streams of a chunk can have before compression, and so what a decoder must bear.
func limits(size int) [streams]int {
	return [streams]int{size/8 + 16, size/2 + 16, size/4 + 16, size}
}

const (
	predicted = 0   // the difference is the one that the target's region suggests
	fresh     = 255 // the difference is among the literals
	region    = 14  // bits of an address within a region: 16 KiB moves as one, nearly always
)

// model remembers differences, the same way on both sides. Most words that change are references relative to themselves: one at p to the
// target t changes by how far t's region has moved less how far p has. Others repeat a recent difference, as in tables of addresses.
type model struct {
	moved  [1 << 16]uint32
	recent [fresh - 1]uint32
}

// suggestion is where the model keeps how far the region moved that the base's word refers to.
func (m *model) suggestion(position uint32, word uint32) *uint32 {
	return &m.moved[(position+word)>>region&(1<<16-1)]
}

// use moves the difference at i to the front of the recent ones; what was last drops out when i is len(recent).
func (m *model) use(i int, difference uint32) {
	copy(m.recent[1:], m.recent[:min(i, len(m.recent)-1)])
	m.recent[0] = difference
}

func word(p []byte) uint32 { return binary.LittleEndian.Uint32(p) }
