package winrm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bodgit/ntlmssp"
)

// ntlmLogin is NTLMv2, with a session key of 128 bits.
type ntlmLogin struct {
	*settings
	client   *ntlmssp.Client
	bindings []byte
}

func newNTLM(s *settings, bindings []byte) *ntlmLogin {
	return &ntlmLogin{settings: s, bindings: bindings}
}

func (n *ntlmLogin) scheme() string { return "Negotiate" }

func (n *ntlmLogin) step(_ context.Context, challenge []byte) ([]byte, error) {
	if n.client == nil {
		domain, user, found := strings.Cut(n.user, `\`)
		if !found {
			domain, user = "", n.user // user@domain stays as it is
		}
		var err error
		n.client, err = ntlmssp.NewClient(ntlmssp.SetUserInfo(user, n.password), ntlmssp.SetDomain(domain), ntlmssp.SetVersion(ntlmssp.DefaultVersion()))
		if err != nil {
			return nil, fmt.Errorf("NTLM: %w", err)
		}
		return n.client.Authenticate(nil, nil)
	}
	if n.client.Complete() {
		return nil, nil
	}
	var bindings *ntlmssp.ChannelBindings
	if n.bindings != nil {
		bindings = &ntlmssp.ChannelBindings{ApplicationData: n.bindings}
	}
	token, err := n.client.Authenticate(challenge, bindings)
	if err != nil {
		return nil, fmt.Errorf("NTLM: the host's challenge cannot be answered: %w", err)
	}
	return token, nil
}

func (n *ntlmLogin) sealer() sealer { return ntlmSealer{n.client.SecuritySession()} }

type ntlmSealer struct{ session *ntlmssp.SecuritySession }

func (ntlmSealer) protocol() string { return "application/HTTP-SPNEGO-session-encrypted" }

func (n ntlmSealer) seal(plain []byte) (signature, sealed []byte, err error) {
	if n.session == nil {
		return nil, nil, errors.New("the host did not agree to seal messages")
	}
	sealed, signature, err = n.session.Wrap(plain)
	return signature, sealed, err
}

func (n ntlmSealer) open(signature, sealed []byte) ([]byte, error) {
	const length = 16
	if n.session == nil || len(signature) != length {
		return nil, errors.New("its signature is not NTLM's")
	}
	return n.session.Unwrap(sealed, signature)
}
