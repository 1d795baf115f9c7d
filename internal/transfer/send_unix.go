//go:build unix

package transfer

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// File is a local file that is sent as a content.
type File struct {
	Content
	Path string
	// Secret files are compressed anew each time: nothing of them is kept on the disk.
	Secret bool
}

// Send writes the stream of the files, each from its offset. sent is called after each chunk with the bytes of it before compression.
func Send(w io.Writer, files []File, sent func(File, int64)) error {
	m := &Manifest{Version: Version}
	for _, f := range files {
		m.Contents = append(m.Contents, f.Content)
	}
	if err := m.Check(); err != nil {
		return err
	}
	if err := WriteManifest(w, m); err != nil {
		return err
	}
	for i, f := range files {
		if err := sendFile(w, uint32(i), f, sent); err != nil {
			return err
		}
	}
	_, err := w.Write(frame{index: endIndex}.encode())
	return err
}

func sendFile(w io.Writer, index uint32, f File, sent func(File, int64)) error {
	source, err := openFrames(f) // a fallback below replaces it
	if err != nil {
		return err
	}
	defer func() { source.Close() }()
	for offset := f.Offset; offset < f.Size; offset += ChunkSize {
		header, data, err := source.next(offset)
		if _, isKept := source.(*keptFrames); isKept && (err != nil || int64(header.raw) != min(ChunkSize, f.Size-offset)) {
			// What was kept is damaged: a power cut, a full disk. The file itself has the same chunks.
			Forget(f.Path)
			whole, openErr := openFile(f)
			if openErr != nil {
				return openErr
			}
			source.Close()
			source = whole
			header, data, err = source.next(offset)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		header.index = index
		if _, err := w.Write(header.encode()); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		if sent != nil {
			sent(f, int64(header.raw))
		}
	}
	return nil
}

// frames gives a file's chunks as frames, one after the other.
type frames interface {
	// next gives the frame of the chunk at an offset; the data are valid until the next call.
	next(offset int64) (frame, []byte, error)
	io.Closer
}

// openFrames takes the frames that were kept beside the file, and makes them where there are none: five hundred hosts need one compression.
func openFrames(f File) (frames, error) {
	if f.Secret || f.Size <= ChunkSize/64 {
		return openFile(f)
	}
	kept, err := openKept(f)
	if err != nil {
		return openFile(f) // the cache is not writable or the disk is full: more work, the same stream
	}
	return kept, nil
}

// fileFrames compresses a file's chunks as they are asked for.
type fileFrames struct {
	file    *os.File
	size    int64
	encoder *zstd.Encoder
	raw     []byte
	wire    []byte
}

func openFile(f File) (*fileFrames, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != f.Size {
		err = fmt.Errorf("%s: it has %d bytes, not %d", f.Path, info.Size(), f.Size)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(ChunkSize), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		file.Close()
		return nil, err
	}
	return &fileFrames{file: file, size: f.Size, encoder: encoder, raw: make([]byte, min(ChunkSize, f.Size))}, nil
}

func (s *fileFrames) next(offset int64) (frame, []byte, error) {
	chunk := s.raw[:min(ChunkSize, s.size-offset)]
	if _, err := io.ReadFull(io.NewSectionReader(s.file, offset, int64(len(chunk))), chunk); err != nil {
		return frame{}, nil, err
	}
	header, data := s.pack(chunk)
	return header, data, nil
}

func (s *fileFrames) pack(chunk []byte) (frame, []byte) {
	header := frame{raw: uint32(len(chunk)), wire: uint32(len(chunk)), sum: crc32.Checksum(chunk, castagnoli)}
	s.wire = s.encoder.EncodeAll(chunk, s.wire[:0])
	if len(s.wire) >= len(chunk) {
		return header, chunk
	}
	header.wire = uint32(len(s.wire))
	return header, s.wire
}

func (s *fileFrames) Close() error {
	s.encoder.Close()
	return s.file.Close()
}

// Size gives the length of a stream of these files without sending it, for tests and reports.
func Size(files []File) (int64, error) {
	var counted counter
	err := Send(&counted, files, nil)
	return int64(counted), err
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }
