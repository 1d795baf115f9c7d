package transport

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// TarLine is the command line that unpacks what WriteTar writes, below a drive (C:). Windows has this bsdtar since build 17063.
func TarLine(drive string) string {
	return `C:\Windows\System32\tar.exe -x -z -f - -C ` + drive + `\`
}

// WriteTar writes a compressed tar archive with one file, whose name has slashes.
func WriteTar(w io.Writer, name string, content io.ReaderAt, size int64) error {
	const piece = 256 << 10 // the compressor writes a few hundred bytes at a time, each of which would be a packet
	buffered := bufio.NewWriterSize(w, piece)
	packed, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o700, Size: size, Format: tar.FormatUSTAR})
	if err == nil {
		_, err = io.Copy(archive, io.NewSectionReader(content, 0, size))
	}
	return errors.Join(err, archive.Close(), packed.Close(), buffered.Flush())
}
