// Package transfer is the stream that brings contents to a node: `wmcb receive` reads it from its standard input.
//
//	stream  = header frame* end
//	header  = length (4 bytes) manifest (JSON)
//	frame   = index (4) rawLength (4) wireLength (4) crc32c of the raw chunk (4) data
//	end     = a frame with the index 0xffffffff and zeros
//
// All numbers are big-endian. The manifest lists the contents by SHA-256 and size, each with the offset from which it is sent; index counts
// in it. A frame holds one chunk of at most ChunkSize bytes, compressed on its own with zstd where wireLength is not rawLength: a line that
// breaks off loses at most the chunk under way, and what was written is verified. There is no name and no path in the stream: contents
// are their digests, and the far end verifies each whole content before it is visible.
package transfer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"

	"github.com/klauspost/compress/zstd"

	"wsu.windows/internal/reason"
)

// Version of the stream.
const Version = 1

const (
	// ChunkSize is a chunk's size before compression, in bytes; the last one of a content may be smaller.
	ChunkSize = 4 << 20
	// MaxSize bounds one content, MaxContents a manifest, maxHeader its JSON in bytes.
	MaxSize     = 4 << 30
	MaxContents = 1000
	maxHeader   = 1 << 20

	headerLength = 16
	endIndex     = 0xffffffff
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	digest     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Manifest says what is sent, or asked for.
type Manifest struct {
	Version  int       `json:"version"`
	Contents []Content `json:"contents"`
}

// Content is one content: SHA256 is 64 lower-case hexadecimal digits, Size and Offset are in bytes; Offset is a multiple of ChunkSize.
type Content struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Offset int64  `json:"offset,omitempty"`
}

// Check says what is wrong with a manifest that somebody sent.
func (m *Manifest) Check() error {
	if m.Version != Version {
		return reason.New(reason.ProtocolUnsupported, "transfer stream", fmt.Sprintf("it has version %d, and this wmcb speaks version %d", m.Version, Version), "")
	}
	if len(m.Contents) > MaxContents {
		return damaged(fmt.Sprintf("its manifest has %d contents, more than %d", len(m.Contents), MaxContents))
	}
	seen := map[string]bool{}
	for i, c := range m.Contents {
		switch {
		case !digest.MatchString(c.SHA256):
			return damaged(fmt.Sprintf("contents[%d] has no SHA-256", i))
		case seen[c.SHA256]:
			return damaged(fmt.Sprintf("contents[%d] is there twice", i))
		case c.Size < 0 || c.Size > MaxSize:
			return damaged(fmt.Sprintf("contents[%d] has the size %d", i, c.Size))
		case c.Offset < 0 || c.Offset > c.Size || c.Offset%ChunkSize != 0:
			return damaged(fmt.Sprintf("contents[%d] begins at %d", i, c.Offset))
		}
		seen[c.SHA256] = true
	}
	return nil
}

func damaged(problem string) error {
	return reason.New(reason.TransferChecksum, "transfer stream", problem, "")
}

// ReadManifest reads a header, bounded and checked.
func ReadManifest(r io.Reader) (*Manifest, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, brokenOff(err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxHeader {
		return nil, damaged(fmt.Sprintf("its header has %d bytes", n))
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, brokenOff(err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, damaged("its header is not JSON")
	}
	return m, m.Check()
}

// WriteManifest writes a header.
func WriteManifest(w io.Writer, m *Manifest) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
	return err
}

// brokenOff: the line was cut, which resuming mends.
func brokenOff(err error) error {
	return reason.New(reason.ConnectionLost, "transfer stream", "it broke off: "+err.Error(), "")
}

// frame is a frame's header.
type frame struct {
	index, raw, wire, sum uint32
}

func (f frame) encode() []byte {
	b := make([]byte, 0, headerLength)
	for _, n := range []uint32{f.index, f.raw, f.wire, f.sum} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func decodeFrame(b []byte) frame {
	return frame{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
}

// Reader reads the frames that follow a manifest. It is not safe for concurrent use.
type Reader struct {
	r        io.Reader
	contents int
	decoder  *zstd.Decoder
	wire     []byte
	raw      []byte
}

// NewReader reads the frames of a stream whose manifest was read already.
func NewReader(r io.Reader, m *Manifest) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(ChunkSize), zstd.WithDecoderMaxWindow(ChunkSize))
	if err != nil {
		return nil, err
	}
	return &Reader{r: r, contents: len(m.Contents), decoder: decoder}, nil
}

// Close frees what the reader holds.
func (r *Reader) Close() { r.decoder.Close() }

// Next gives the next chunk, valid until the next call, and which content it belongs to; io.EOF at the stream's end. A stream that breaks
// off is a reason.ConnectionLost, never io.EOF.
func (r *Reader) Next() (index int, chunk []byte, err error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(r.r, header[:]); err != nil {
		return 0, nil, brokenOff(err)
	}
	f := decodeFrame(header[:])
	if f == (frame{index: endIndex}) {
		return 0, nil, io.EOF
	}
	if int64(f.index) >= int64(r.contents) || f.raw == 0 || f.raw > ChunkSize || f.wire == 0 || f.wire > f.raw {
		return 0, nil, damaged("it has a frame that cannot be")
	}
	if cap(r.wire) < int(f.wire) {
		r.wire = make([]byte, ChunkSize)
	}
	r.wire = r.wire[:f.wire]
	if _, err := io.ReadFull(r.r, r.wire); err != nil {
		return 0, nil, brokenOff(err)
	}
	chunk = r.wire
	if f.wire != f.raw {
		if r.raw, err = r.decoder.DecodeAll(r.wire, r.raw[:0]); err != nil || len(r.raw) != int(f.raw) {
			return 0, nil, damaged("a chunk cannot be unpacked")
		}
		chunk = r.raw
	}
	if crc32.Checksum(chunk, castagnoli) != f.sum {
		return 0, nil, damaged("a chunk has the wrong checksum")
	}
	return int(f.index), chunk, nil
}
