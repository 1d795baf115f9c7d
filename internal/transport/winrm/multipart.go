package winrm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	boundary     = "--Encrypted Boundary"
	maxSignature = 1024
)

// seal gives the content type and the body of a sealed message.
func seal(with sealer, plain []byte) (kind string, body []byte, err error) {
	signature, sealed, err := with.seal(plain)
	if err != nil {
		return "", nil, fmt.Errorf("sealing a message: %w", err)
	}
	body = make([]byte, 0, len(sealed)+len(signature)+400)
	body = fmt.Appendf(body, "%s\r\n\tContent-Type: %s\r\n\tOriginalContent: type=%s;Length=%d\r\n%s\r\n\tContent-Type: application/octet-stream\r\n",
		boundary, with.protocol(), contentType, len(plain), boundary)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(signature)))
	body = append(append(append(body, signature...), sealed...), boundary+"--\r\n"...)
	return fmt.Sprintf(`multipart/encrypted;protocol="%s";boundary="Encrypted Boundary"`, with.protocol()), body, nil
}

// open gives what is in a sealed message. A message that is not sealed is refused: anybody could have written it.
func open(with sealer, kind string, body []byte) ([]byte, error) {
	if !strings.HasPrefix(strings.ToLower(kind), "multipart/") {
		return nil, errors.New("the message is not sealed")
	}
	rest, found := bytes.CutPrefix(bytes.TrimLeft(body, "\r\n"), []byte(boundary))
	head, data, split := bytes.Cut(rest, []byte(boundary+"\r\n"))
	if !found || !split {
		return nil, errors.New("it has no two parts")
	}
	length, err := originalLength(string(head))
	if err != nil {
		return nil, err
	}
	_, data, found = bytes.Cut(data, []byte("application/octet-stream\r\n"))
	if !found || len(data) < 4 {
		return nil, errors.New("its second part has no content")
	}
	n := binary.LittleEndian.Uint32(data)
	data = data[4:]
	if n > maxSignature || len(data) < int(n)+length {
		return nil, errors.New("it is shorter than it says")
	}
	signature, data := data[:n], data[n:]
	end := bytes.LastIndex(data, []byte(boundary+"--"))
	if end < length {
		return nil, errors.New("it has no end")
	}
	plain, err := with.open(signature, data[:end])
	if err != nil {
		return nil, err
	}
	if len(plain) < length {
		return nil, errors.New("its length is not what it says")
	}
	return plain[:length], nil
}

func originalLength(head string) (int, error) {
	_, after, found := strings.Cut(head, "Length=")
	digits, _, _ := strings.Cut(after, "\r\n")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 31)
	if !found || err != nil || n > maxAnswer {
		return 0, errors.New("it does not say its length")
	}
	return int(n), nil
}
