//go:build unix

package transfer

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// framesSuffix names the file of kept frames beside a file of the cache; its number changes with the format.
const framesSuffix = ".frames-v1"

// keptFrames reads frames that were made before.
type keptFrames struct {
	file *os.File
	r    *bufio.Reader
	// at is the offset of the next frame's chunk.
	at   int64
	wire []byte
}

// openKept opens the kept frames of a file. The first process that needs them makes them, the others wait for it.
func openKept(f File) (frames, error) {
	path := f.Path + framesSuffix
	if kept, err := openFramesFile(path); err == nil {
		return kept, nil
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	if kept, err := openFramesFile(path); err == nil {
		return kept, nil
	}
	if err := makeFrames(f, path); err != nil {
		return nil, err
	}
	return openFramesFile(path)
}

func openFramesFile(path string) (frames, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &keptFrames{file: file, r: bufio.NewReaderSize(file, 1<<20)}, nil
}

// makeFrames writes all frames beside their place and renames them: a file of that name is whole.
func makeFrames(f File, path string) error {
	source, err := openFile(f)
	if err != nil {
		return err
	}
	defer source.Close()
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	w := bufio.NewWriterSize(temporary, 1<<20)
	for offset := int64(0); offset < f.Size; offset += ChunkSize {
		header, data, err := source.next(offset)
		if err != nil {
			return closeWith(temporary, err)
		}
		_, _ = w.Write(header.encode()) // Flush gives the first error
		_, _ = w.Write(data)
	}
	if err := w.Flush(); err != nil {
		return closeWith(temporary, err)
	}
	if err := temporary.Sync(); err != nil { // a power cut must not leave the name without the content
		return closeWith(temporary, err)
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

func closeWith(file *os.File, err error) error {
	file.Close()
	return err
}

func (k *keptFrames) next(offset int64) (frame, []byte, error) {
	for {
		var header [headerLength]byte
		if _, err := io.ReadFull(k.r, header[:]); err != nil {
			return frame{}, nil, fmt.Errorf("kept frames: %w", err)
		}
		f := decodeFrame(header[:])
		if f.raw == 0 || f.raw > ChunkSize || f.wire == 0 || f.wire > f.raw {
			return frame{}, nil, fmt.Errorf("kept frames: damaged at %d", k.at)
		}
		here := k.at
		k.at += ChunkSize
		if here < offset {
			if _, err := k.r.Discard(int(f.wire)); err != nil {
				return frame{}, nil, fmt.Errorf("kept frames: %w", err)
			}
			continue
		}
		if cap(k.wire) < int(f.wire) {
			k.wire = make([]byte, ChunkSize)
		}
		k.wire = k.wire[:f.wire]
		_, err := io.ReadFull(k.r, k.wire)
		return f, k.wire, err
	}
}

func (k *keptFrames) Close() error { return k.file.Close() }

// Forget deletes the kept frames of a file: what they gave was not what the far end wanted.
func Forget(path string) { _ = os.Remove(path + framesSuffix) }
