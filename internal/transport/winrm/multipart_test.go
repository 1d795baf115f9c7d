package winrm

import (
	"bytes"
	"errors"
	"testing"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainSealer signs nothing: what is tested is the form around it.
type plainSealer struct{}

func (plainSealer) protocol() string { return "application/HTTP-SPNEGO-session-encrypted" }
func (plainSealer) seal(plain []byte) (signature, sealed []byte, err error) {
	return []byte("0123456789abcdef"), plain, nil
}
func (plainSealer) open(signature, sealed []byte) ([]byte, error) {
	if string(signature) != "0123456789abcdef" {
		return nil, errors.New("wrong signature")
	}
	return sealed, nil
}

func TestASealedMessageIsOpened(t *testing.T) {
	for _, plain := range []string{"<s:Envelope/>", "--Encrypted Boundary\r\n in it", "ends in --Encrypted Boundary--\r\n"} {
		kind, body, err := seal(plainSealer{}, []byte(plain))
		require.NoError(t, err)
		got, err := open(plainSealer{}, kind, body)
		require.NoError(t, err)
		assert.Equal(t, plain, string(got))
	}
}

func TestAMessageThatIsNotSealedIsRefused(t *testing.T) {
	_, err := open(plainSealer{}, contentType, []byte("<s:Envelope/>"))
	assert.ErrorContains(t, err, "not sealed")
}

func FuzzOpen(f *testing.F) {
	kind, body, err := seal(plainSealer{}, []byte("<s:Envelope/>"))
	require.NoError(f, err)
	f.Add(body)
	f.Add(bytes.ReplaceAll(body, []byte("Length=13"), []byte("Length=2147483647")))
	f.Fuzz(func(_ *testing.T, body []byte) { _, _ = open(plainSealer{}, kind, body) })
}

// wraps gives both ends of a Kerberos context.
func wraps(t testing.TB, kind int32, acceptorKey bool) (ours *gssWrap, theirs func(plain []byte) (signature, sealed []byte)) {
	t.Helper()
	encryption, err := crypto.GetEtype(kind)
	require.NoError(t, err)
	key := bytes.Repeat([]byte{7}, map[int32]int{aes128: 16, aes256: 32, aes128sha2: 16, aes256sha2: 32}[kind])
	ours = &gssWrap{kind: encryption, key: key, acceptorKey: acceptorKey, sent: 5, received: 9}
	number := uint64(9)
	return ours, func(plain []byte) (signature, sealed []byte) {
		var flags byte = wrapByAcceptor
		if acceptorKey {
			flags |= wrapAcceptorsKey
		}
		_, token, err := encryption.EncryptMessage(key, append(bytes.Clone(plain), ours.header(flags, 0, number)...), usageAcceptorSeal)
		require.NoError(t, err)
		split := len(token) - ours.trailer()
		signature = append(ours.header(flags, ours.trailer(), number), token[split:]...)
		signature = append(signature, token[:split-len(plain)]...)
		number++
		return signature, token[split-len(plain) : split]
	}
}

func TestKerberosOpensWhatTheHostSealedAndNothingElse(t *testing.T) {
	for _, kind := range []int32{aes128, aes256, aes128sha2, aes256sha2} {
		for _, acceptorKey := range []bool{false, true} {
			ours, host := wraps(t, kind, acceptorKey)
			first, sealedFirst := host([]byte("first message"))
			second, sealedSecond := host(bytes.Repeat([]byte("second "), 1000))
			_, err := ours.open(second, sealedSecond)
			require.ErrorContains(t, err, "lost or repeated")
			plain, err := ours.open(first, sealedFirst)
			require.NoError(t, err)
			assert.Equal(t, "first message", string(plain))
			_, err = ours.open(first, sealedFirst)
			require.Error(t, err, "a message is not taken twice")
			for at := 0; at < len(second); at++ {
				damaged := bytes.Clone(second)
				damaged[at] ^= 1
				_, err := ours.open(damaged, sealedSecond)
				require.Error(t, err, "a flipped bit at %d", at)
			}
			mine, sealed, err := ours.seal([]byte("hello"))
			require.NoError(t, err)
			_, err = ours.open(mine, sealed)
			require.ErrorContains(t, err, "not sealed by the host", "our own messages do not come back")
		}
	}
}

func FuzzGSSOpen(f *testing.F) {
	_, host := wraps(f, aes256, false)
	signature, sealed := host([]byte("hello"))
	f.Add(signature, sealed)
	f.Fuzz(func(t *testing.T, signature, sealed []byte) {
		ours, _ := wraps(t, aes256, false)
		_, _ = ours.open(signature, sealed)
	})
}
