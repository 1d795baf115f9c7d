//go:build unix

package transfer

import (
	"errors"
	"hash/crc32"
	"os"

	"github.com/klauspost/compress/zstd"

	"wsu.windows/internal/transfer/delta"
)

// packing is a way to pack a file's chunks. Its name is part of the name of what is kept of it.
type packing struct {
	name string
	// start prepares it; the function that it gives packs one chunk, and the data are valid until the next one.
	start func() (pack func(chunk []byte, number int) (kind uint32, data []byte, err error), end func(), err error)
}

var (
	// fast is for lines that are faster than a thorough compression, thorough for those that are slower.
	fast     = zstdPacking("zstd", zstd.SpeedDefault)
	thorough = zstdPacking("zstd-best", zstd.SpeedBestCompression)
)

func zstdPacking(name string, level zstd.EncoderLevel) packing {
	return packing{name: name, start: func() (func([]byte, int) (uint32, []byte, error), func(), error) {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(ChunkSize), zstd.WithEncoderLevel(level))
		if err != nil {
			return nil, nil, err
		}
		var wire []byte
		return func(chunk []byte, _ int) (uint32, []byte, error) {
			wire = encoder.EncodeAll(chunk, wire[:0])
			if len(wire) >= len(chunk) {
				return kindPlain, chunk, nil
			}
			return kindZstd, wire, nil
		}, func() { encoder.Close() }, nil
	}}
}

// difference packs what differs from a file's base, and the rest as fast does.
func difference(f File) packing {
	return packing{name: "delta-" + f.Base[:16], start: func() (func([]byte, int) (uint32, []byte, error), func(), error) {
		base, err := openBase(f.BasePath)
		if err != nil {
			return nil, nil, err
		}
		whole, end, err := fast.start()
		if err != nil {
			return nil, nil, err
		}
		var wire []byte
		return func(chunk []byte, number int) (uint32, []byte, error) {
			kind, data, err := whole(chunk, number)
			if err != nil {
				return 0, nil, err
			}
			wire, err = base.Encode(wire[:0], chunk, int64(number)*ChunkSize)
			if errors.Is(err, delta.ErrNoGain) || err == nil && len(wire) >= len(data) {
				return kind, data, nil
			}
			return kindDelta, wire, err
		}, end, nil
	}}
}

func openBase(path string) (*delta.Base, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the base has read it
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return delta.NewBase(file, info.Size())
}

// frameOf makes a chunk's header.
func frameOf(kind uint32, number int, chunk, data []byte) frame {
	return frame{kind: kind, chunk: uint32(number), raw: uint32(len(chunk)), wire: uint32(len(data)), sum: crc32.Checksum(chunk, castagnoli)} //nolint:gosec // all below 2^32
}
