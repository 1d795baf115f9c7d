//go:build unix

package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// keptSuffix is in the name of every file of kept frames beside a file of the cache; its number changes with the format.
const keptSuffix = ".frames-v2-"

// source gives a file's chunks as frames, in any order, to several lanes at once.
type source interface {
	// frame gives the frame of a chunk; buffer is used where it is large enough, and the data are valid as long as it.
	frame(chunk int, buffer []byte) (frame, []byte, error)
	// size gives how many bytes that has on the line.
	size(chunk int) int64
	io.Closer
}

// keptFrames are frames that were made before: five hundred hosts need one compression.
type keptFrames struct {
	file    *os.File
	headers []frame
	offsets []int64
}

// openKept opens the kept frames of a file. The first process that needs them makes them, the others wait for it.
func openKept(f File, how packing) (*keptFrames, error) {
	path := f.Path + keptSuffix + how.name
	if kept, err := openFrames(path, f.Content); err == nil {
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
	if kept, err := openFrames(path, f.Content); err == nil {
		return kept, nil
	}
	if err := makeFrames(f, how, path); err != nil {
		return nil, err
	}
	return openFrames(path, f.Content)
}

// openFrames reads the headers; a file that is not whole is an error.
func openFrames(path string, c Content) (*keptFrames, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	kept := &keptFrames{file: file}
	var at int64
	for chunk := range c.Chunks() {
		var header [headerLength]byte
		if _, err := file.ReadAt(header[:], at); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		f := decodeFrame(header[:])
		if !f.sane() || int(f.chunk) != chunk || int(f.raw) != c.chunkLength(chunk) {
			return nil, errors.Join(fmt.Errorf("%s: damaged at %d", path, at), file.Close())
		}
		kept.headers, kept.offsets = append(kept.headers, f), append(kept.offsets, at+headerLength)
		at += headerLength + int64(f.wire)
	}
	if info, err := file.Stat(); err != nil || info.Size() != at {
		return nil, errors.Join(fmt.Errorf("%s: it has not the %d bytes that it should", path, at), err, file.Close())
	}
	return kept, nil
}

func (k *keptFrames) frame(chunk int, buffer []byte) (frame, []byte, error) {
	f := k.headers[chunk]
	data := buffer[:f.wire]
	_, err := k.file.ReadAt(data, k.offsets[chunk])
	return f, data, err
}

func (k *keptFrames) size(chunk int) int64 { return headerLength + int64(k.headers[chunk].wire) }

func (k *keptFrames) Close() error { return k.file.Close() }

// wireSize gives how many bytes the frames of some chunks have on the line.
func (k *keptFrames) wireSize(chunks []int) (total int64) {
	for _, chunk := range chunks {
		total += k.size(chunk)
	}
	return total
}

// makeFrames writes all frames beside their place and renames them: a file of that name is whole.
func makeFrames(f File, how packing, path string) error {
	plain, err := openPlain(f)
	if err != nil {
		return err
	}
	defer plain.Close()
	pack, end, err := how.start()
	if err != nil {
		return err
	}
	defer end()
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	w := bufio.NewWriterSize(temporary, 1<<20)
	buffer := make([]byte, ChunkSize)
	for number := range f.Chunks() {
		chunk, err := plain.read(number, buffer)
		if err != nil {
			return errors.Join(err, temporary.Close())
		}
		kind, data, err := pack(chunk, number)
		if err != nil {
			return errors.Join(err, temporary.Close())
		}
		_, _ = w.Write(frameOf(kind, number, chunk, data).encode()) // Flush gives the first error
		_, _ = w.Write(data)
	}
	if err := errors.Join(w.Flush(), temporary.Sync(), temporary.Close()); err != nil { // synced: a power cut must not leave the name without the content
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// Forget deletes the kept frames of a file: what they gave was not what the far end wanted.
func Forget(path string) {
	kept, _ := filepath.Glob(path + keptSuffix + "*") // digests make good patterns
	for _, file := range kept {
		_ = os.Remove(file)
	}
}

// plainFile is the file itself.
type plainFile struct {
	file    *os.File
	content Content
}

func openPlain(f File) (*plainFile, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != f.Size {
		err = fmt.Errorf("%s: it has %d bytes, not %d", f.Path, info.Size(), f.Size)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &plainFile{file, f.Content}, nil
}

func (p *plainFile) read(chunk int, buffer []byte) ([]byte, error) {
	data := buffer[:p.content.chunkLength(chunk)]
	_, err := io.ReadFull(io.NewSectionReader(p.file, int64(chunk)*ChunkSize, int64(len(data))), data)
	return data, err
}

// frame gives a chunk as it is: for small files, for secrets, and where nothing can be kept.
func (p *plainFile) frame(chunk int, buffer []byte) (frame, []byte, error) {
	data, err := p.read(chunk, buffer)
	return frameOf(kindPlain, chunk, data, data), data, err
}

func (p *plainFile) size(chunk int) int64 { return headerLength + int64(p.content.chunkLength(chunk)) }

func (p *plainFile) Close() error { return p.file.Close() }
