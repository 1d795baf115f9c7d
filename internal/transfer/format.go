// Package transfer is the stream that brings contents to a node: `wmcb receive` reads it from its standard input.
//
//	stream  = header frame* end
//	header  = length (4 bytes) manifest (JSON)
//	frame   = kind (4) index (4) chunk (4) rawLength (4) wireLength (4) crc32c of the raw chunk (4) data
//	end     = a frame of the kind 0xffffffff and zeros
//
// All numbers are big-endian. The manifest lists the contents by SHA-256 and size; index counts in it, chunk in the content, which is cut into
// pieces of ChunkSize bytes. Each chunk is packed on its own, as it is, with zstd, or as a difference to another content that the far end
// has: so chunks may come in any order, from several lines at once, and a line that breaks off loses at most the chunk under way on it. There
// is no name and no path in the stream: contents are their digests, and the far end verifies each whole content before it is visible.
//
// Several lines are one transfer with one main stream and lanes beside it: the lanes' manifests are the main one's with their own number. The
// main stream ends last, and what reads it makes the contents visible.
//
// A stream may come as lines of base64, for a transport that changes bytes: its first byte tells, since that of a header is zero.
package transfer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"

	"wsu.windows/internal/reason"
)

// Version of the stream.
const Version = 2

const (
	// ChunkSize is a chunk's size before compression, in bytes; the last one of a content may be smaller. MaxLanes of them may be lost
	// by a cut.
	ChunkSize = 1 << 20
	// MaxLanes bounds how many lines make one transfer.
	MaxLanes = 4
	// MaxSize bounds one content, MaxContents a manifest, maxHeader its JSON in bytes.
	MaxSize     = 4 << 30
	MaxContents = 1000
	maxHeader   = 1 << 20

	headerLength = 24
)

// The kinds of a frame.
const (
	kindPlain = 0
	kindZstd  = 1
	kindDelta = 2
	kindEnd   = 0xffffffff
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	digest     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	session    = regexp.MustCompile(`^[A-Z0-9]{26}$`)
)

// Manifest says what is sent, or asked for.
type Manifest struct {
	Version  int       `json:"version"`
	Contents []Content `json:"contents"`
	// Session names a transfer of several lines, 26 letters and digits that nobody can guess; Lane counts from 1, 0 is the main stream.
	Session string `json:"session,omitempty"`
	Lane    int    `json:"lane,omitempty"`
}

// Content is one content: SHA256 is 64 lower-case hexadecimal digits, Size is in bytes. Base is the content that differences are made to.
type Content struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Base   string `json:"base,omitempty"`
}

// Chunks gives how many chunks a content has.
func (c Content) Chunks() int { return int((c.Size + ChunkSize - 1) / ChunkSize) }

// chunkLength gives the length of one of them, in bytes.
func (c Content) chunkLength(chunk int) int {
	return int(min(ChunkSize, c.Size-int64(chunk)*ChunkSize))
}

// Check says what is wrong with a manifest that somebody sent.
func (m *Manifest) Check() error {
	if m.Version != Version {
		return reason.New(reason.ProtocolUnsupported, "transfer stream", fmt.Sprintf("it has version %d, and this wmcb speaks version %d", m.Version, Version), "")
	}
	if len(m.Contents) > MaxContents {
		return damaged(fmt.Sprintf("its manifest has %d contents, more than %d", len(m.Contents), MaxContents))
	}
	if m.Lane < 0 || m.Lane >= MaxLanes || m.Lane > 0 && m.Session == "" || m.Session != "" && !session.MatchString(m.Session) {
		return damaged("its manifest has no valid session")
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
		case c.Base != "" && !digest.MatchString(c.Base):
			return damaged(fmt.Sprintf("contents[%d] has a base without a SHA-256", i))
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
