package transfer

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"

	"wsu.windows/internal/transfer/delta"
)

// frame is a frame's header.
type frame struct {
	kind, index, chunk, raw, wire, sum uint32
}

func (f frame) encode() []byte {
	b := make([]byte, 0, headerLength)
	for _, n := range []uint32{f.kind, f.index, f.chunk, f.raw, f.wire, f.sum} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func decodeFrame(b []byte) frame {
	at := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return frame{at(0), at(1), at(2), at(3), at(4), at(5)}
}

// sane reports whether a header can be one: packed chunks are smaller than plain ones.
func (f frame) sane() bool {
	return f.raw > 0 && f.raw <= ChunkSize && f.wire > 0 && (f.kind == kindPlain && f.wire == f.raw || (f.kind == kindZstd || f.kind == kindDelta) && f.wire < f.raw)
}

// Base is a content that differences were made to.
type Base interface {
	io.ReaderAt
	Size() int64
}

// Chunk is one chunk of a content.
type Chunk struct {
	// Index counts in the manifest, Offset is in bytes.
	Index  int
	Offset int64
	Data   []byte
	// Wire is how many bytes its frame had.
	Wire int64
}

// Reader reads the frames that follow a manifest. It is not safe for concurrent use.
type Reader struct {
	r        io.Reader
	manifest *Manifest
	bases    func(sha256 string) (Base, error)
	decoder  *zstd.Decoder
	wire     []byte
}

// NewReader reads the frames of a stream whose manifest was read already. bases opens what differences are made to.
func NewReader(r io.Reader, m *Manifest, bases func(sha256 string) (Base, error)) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(ChunkSize), zstd.WithDecoderMaxWindow(ChunkSize))
	if err != nil {
		return nil, err
	}
	return &Reader{r: r, manifest: m, bases: bases, decoder: decoder}, nil
}

// Close frees what the reader holds.
func (r *Reader) Close() { r.decoder.Close() }

// Next gives the next chunk, in the buffer's memory, which has room for ChunkSize bytes; io.EOF at the stream's end. A stream that breaks off is a reason.ConnectionLost, never io.EOF.
func (r *Reader) Next(buffer []byte) (Chunk, error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(r.r, header[:]); err != nil {
		return Chunk{}, brokenOff(err)
	}
	f := decodeFrame(header[:])
	if f == (frame{kind: kindEnd}) {
		return Chunk{}, io.EOF
	}
	if !f.sane() || int64(f.index) >= int64(len(r.manifest.Contents)) {
		return Chunk{}, damaged("it has a frame that cannot be")
	}
	content := r.manifest.Contents[f.index]
	if int64(f.chunk) >= int64(content.Chunks()) || content.chunkLength(int(f.chunk)) != int(f.raw) {
		return Chunk{}, damaged("it has a chunk that its content does not have")
	}
	if cap(r.wire) < int(f.wire) {
		r.wire = make([]byte, ChunkSize)
	}
	r.wire = r.wire[:f.wire]
	if _, err := io.ReadFull(r.r, r.wire); err != nil {
		return Chunk{}, brokenOff(err)
	}
	data, err := r.unpack(f, content, buffer[:0])
	if err != nil {
		return Chunk{}, err
	}
	if crc32.Checksum(data, castagnoli) != f.sum {
		return Chunk{}, damaged("a chunk has the wrong checksum")
	}
	return Chunk{Index: int(f.index), Offset: int64(f.chunk) * ChunkSize, Data: data, Wire: headerLength + int64(f.wire)}, nil
}

func (r *Reader) unpack(f frame, content Content, raw []byte) (_ []byte, err error) {
	switch f.kind {
	case kindPlain:
		raw = append(raw, r.wire...)
	case kindZstd:
		raw, err = r.decoder.DecodeAll(r.wire, raw)
	case kindDelta:
		if content.Base == "" {
			return nil, damaged("it has a difference to nothing")
		}
		var base Base
		if base, err = r.bases(content.Base); err != nil {
			return nil, err
		}
		if raw, err = delta.Decode(raw, r.wire, base, base.Size(), int(f.raw)); err != nil && !errors.Is(err, delta.ErrDamaged) {
			return nil, err // the base cannot be read
		}
	}
	if err == nil && len(raw) != int(f.raw) {
		err = errors.New("its length is wrong")
	}
	if err != nil {
		return nil, damaged("a chunk cannot be unpacked: " + err.Error())
	}
	return raw, nil
}
