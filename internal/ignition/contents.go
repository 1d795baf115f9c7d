package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// required reads a file that a worker cannot do without.
func (c *config) required(path string) ([]byte, error) {
	content, found, err := c.read(path)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, invalid("Ignition", fmt.Sprintf("it holds no file %s", path))
	}
	return content, nil
}

// read decodes one file: data URL, compression, verification.hash.
func (c *config) read(path string) (content []byte, found bool, err error) {
	r, ok := c.files[path]
	if !ok {
		return nil, false, nil
	}
	content, err = r.decode()
	if err != nil {
		return nil, true, invalid(path, err.Error())
	}
	return content, true, nil
}

func (r resource) decode() ([]byte, error) {
	if r.appended {
		return nil, errors.New("it only appends to a file of the machine's image")
	}
	content, err := decodeSource(r.source)
	if err != nil {
		return nil, err
	}
	switch r.compression {
	case "":
	case "gzip":
		if content, err = gunzip(content); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("its compression %q is unknown", r.compression)
	}
	if len(content) > MaxFileSize {
		return nil, fmt.Errorf("it has more than the %d bytes that are accepted", MaxFileSize)
	}
	return content, checkHash(r.hash, content)
}

// decodeSource takes data URLs only: nothing is fetched from elsewhere. An empty source is an empty file.
func decodeSource(source string) ([]byte, error) {
	if source == "" {
		return nil, nil
	}
	if !strings.HasPrefix(source, "data:") {
		scheme, _, _ := strings.Cut(source, ":")
		return nil, fmt.Errorf("its contents are at a %s URL and not in the Ignition", scheme)
	}
	parsed, err := dataurl.DecodeString(source)
	if err != nil {
		return nil, errors.New("its contents are not a valid data URL")
	}
	return parsed.Data, nil
}

// gunzip stops at MaxFileSize, whatever the compressed size promises.
func gunzip(compressed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("its contents are not gzip: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(reader, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("its gzip contents are damaged: %w", err)
	}
	if len(content) > MaxFileSize {
		return nil, fmt.Errorf("it unpacks to more than the %d bytes that are accepted", MaxFileSize)
	}
	return content, nil
}

// checkHash compares with verification.hash, which covers the decompressed bytes.
func checkHash(want string, content []byte) error {
	if want == "" {
		return nil
	}
	function, sum, _ := strings.Cut(want, "-")
	var got string
	switch function {
	case "sha512":
		digest := sha512.Sum512(content)
		got = hex.EncodeToString(digest[:])
	case "sha256":
		digest := sha256.Sum256(content)
		got = hex.EncodeToString(digest[:])
	default:
		return fmt.Errorf("its verification.hash has the unknown function %q", function)
	}
	if !strings.EqualFold(got, sum) {
		return fmt.Errorf("its contents have the %s %s, but verification.hash says %s", function, got, sum)
	}
	return nil
}
