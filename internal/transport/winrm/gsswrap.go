package winrm

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto/etype"
)

// The encryption types of RFC 3962 and RFC 8009, and the key usages of RFC 4121 2.
const (
	aes128, aes256         = 17, 18
	aes128sha2, aes256sha2 = 19, 20
	usageAcceptorSeal      = 22
	usageInitiatorSeal     = 24

	wrapHeader       = 16
	wrapByAcceptor   = 1
	wrapSealed       = 2
	wrapAcceptorsKey = 4
)

// gssWrap seals messages as RFC 4121 4.2.4 says, with the token turned so that all of its extra bytes stand before the data: that is how
// Windows splits it into a signature and a message of the same length.
type gssWrap struct {
	kind           etype.EType
	key            []byte
	acceptorKey    bool
	sent, received uint64
}

func (g *gssWrap) protocol() string { return "application/HTTP-Kerberos-session-encrypted" }

func (g *gssWrap) header(flags byte, rotated int, number uint64) []byte {
	header := []byte{5, 4, flags | wrapSealed, 0xff, 0, 0}
	header = binary.BigEndian.AppendUint16(header, uint16(rotated))
	return binary.BigEndian.AppendUint64(header, number)
}

// trailer is what stands behind the data in a sealed token: the header once more and the checksum.
func (g *gssWrap) trailer() int { return wrapHeader + g.kind.GetHMACBitLength()/8 }

func (g *gssWrap) seal(plain []byte) (signature, sealed []byte, err error) {
	if g == nil {
		return nil, nil, errSealUnknown
	}
	var flags byte
	if g.acceptorKey {
		flags = wrapAcceptorsKey
	}
	_, token, err := g.kind.EncryptMessage(g.key, append(append(make([]byte, 0, len(plain)+wrapHeader), plain...), g.header(flags, 0, g.sent)...), usageInitiatorSeal)
	if err != nil {
		return nil, nil, fmt.Errorf("kerberos: %w", err)
	}
	trailer := g.trailer()
	split := len(token) - trailer
	signature = append(g.header(flags, trailer, g.sent), token[split:]...)
	lead := split - len(plain) // the confounder
	signature = append(signature, token[:lead]...)
	g.sent++
	return signature, token[lead:split], nil
}

func (g *gssWrap) open(signature, sealed []byte) ([]byte, error) {
	if g == nil {
		return nil, errSealUnknown
	}
	if len(signature) < wrapHeader {
		return nil, errors.New("its signature is not Kerberos'")
	}
	header := signature[:wrapHeader]
	flags, extra, rotated := header[2], int(binary.BigEndian.Uint16(header[4:])), int(binary.BigEndian.Uint16(header[6:]))
	wanted := byte(wrapByAcceptor | wrapSealed)
	if g.acceptorKey {
		wanted |= wrapAcceptorsKey
	}
	if header[0] != 5 || header[1] != 4 || flags != wanted {
		return nil, errors.New("it is not sealed by the host")
	}
	token := append(append(make([]byte, 0, len(signature)+len(sealed)), signature[wrapHeader:]...), sealed...)
	if len(token) == 0 {
		return nil, errors.New("it is empty")
	}
	rotated %= len(token)
	token = append(token[rotated:], token[:rotated]...)
	plain, err := g.kind.DecryptMessage(g.key, token, usageAcceptorSeal)
	if err != nil {
		return nil, fmt.Errorf("kerberos: %w", err)
	}
	if len(plain) < wrapHeader+extra {
		return nil, errors.New("it is too short")
	}
	inner := plain[len(plain)-wrapHeader:]
	expected := append([]byte{}, header...)
	expected[6], expected[7] = 0, 0
	if subtle.ConstantTimeCompare(inner, expected) != 1 {
		return nil, errors.New("its header was changed")
	}
	if number := binary.BigEndian.Uint64(header[8:]); number != g.received {
		return nil, fmt.Errorf("it has the number %d, not %d: one was lost or repeated", number, g.received)
	}
	g.received++
	return plain[:len(plain)-wrapHeader-extra], nil
}
