package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"wsu.windows/internal/reason"
)

// The ways of logging in, by the protocol's names.
const (
	publicKey      = "publickey"
	passwordMethod = "password"
	interactive    = "keyboard-interactive"
)

// login holds the ways to authenticate, in the order in which they are tried.
type login struct {
	methods []ssh.AuthMethod
	names   []string // for messages
	// fromAgent counts the keys that only the agent named.
	fromAgent int
	agent     net.Conn
}

func (l *login) close() {
	if l.agent != nil {
		l.agent.Close()
	}
}

func (l *login) tried() string {
	if len(l.names) == 0 {
		return "nothing, since there is neither a key, nor an agent, nor a password that may be used"
	}
	return strings.Join(l.names, ", ")
}

func newLogin(s *settings) (*login, error) {
	l := &login{}
	for _, method := range s.methods {
		switch {
		case method == publicKey:
			signers, err := l.signers(s)
			if err != nil {
				l.close()
				return nil, err
			}
			if len(signers) > 0 {
				l.methods = append(l.methods, ssh.PublicKeys(signers...))
			}
		case s.password == "":
		case method == passwordMethod:
			l.names = append(l.names, "password")
			l.methods = append(l.methods, ssh.Password(s.password))
		case method == interactive:
			l.names = append(l.names, "password (keyboard-interactive)")
			l.methods = append(l.methods, ssh.KeyboardInteractive(s.answer))
		}
	}
	return l, nil
}

// answer gives the password to the one question that it can be the answer to.
func (s *settings) answer(_, _ string, questions []string, echos []bool) ([]string, error) {
	answers := make([]string, len(questions))
	for i := range questions {
		if echos[i] {
			return nil, errors.New("the host asks for more than a password")
		}
		answers[i] = s.password
	}
	return answers, nil
}

// signers are the keys: those of the identity files first, and before each its certificate, then what else the agent has.
func (l *login) signers(s *settings) ([]ssh.Signer, error) {
	held := l.ask(s.agentSocket)
	var list []ssh.Signer
	offer := func(new ssh.Signer) {
		if new != nil && !slices.ContainsFunc(list, func(old ssh.Signer) bool { return same(old.PublicKey(), new.PublicKey()) }) {
			list = append(list, new)
		}
	}
	for _, id := range s.identities {
		signer, err := s.identity(id, held)
		if err != nil {
			return nil, err
		}
		if signer == nil {
			continue
		}
		l.names = append(l.names, "key "+id.path)
		for _, path := range append(slices.Clone(s.certificates), id.path+"-cert.pub") {
			certified, err := s.certificate(path, signer, path != id.path+"-cert.pub")
			if err != nil {
				return nil, err
			}
			if certified != nil {
				l.names = append(l.names, "certificate "+path)
			}
			offer(certified)
		}
		offer(signer)
	}
	before := len(list)
	for _, signer := range held {
		if !s.onlyThese {
			offer(signer)
		}
	}
	if l.fromAgent = len(list) - before; l.fromAgent > 0 {
		l.names = append(l.names, fmt.Sprintf("%d keys of the agent", l.fromAgent))
	}
	return list, nil
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// identity gives the key of a file: by itself, or as the agent holds it. It is nil where the file is not there, or locked with a passphrase
// that nobody gave, and no variable or argument named it.
func (s *settings) identity(id identity, held []ssh.Signer) (ssh.Signer, error) {
	raw, err := os.ReadFile(id.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.unusable(id, err.Error(), "")
	}
	missing := err != nil
	var signer ssh.Signer
	var locked *ssh.PassphraseMissingError
	if !missing {
		if signer, err = ssh.ParsePrivateKey(raw); err == nil {
			return signer, nil
		}
		errors.As(err, &locked)
	}
	if public := publicOf(id.path, raw, locked); public != nil {
		for _, each := range held {
			if same(each.PublicKey(), public) {
				return each, nil
			}
		}
		if !missing && locked == nil {
			return nil, s.unusable(id, "it is a public key, and the agent does not hold its private one", "Load the key into the agent.")
		}
	}
	switch {
	case missing:
		return nil, s.unusable(id, err.Error(), "")
	case locked == nil:
		return nil, s.unusable(id, "it cannot be read: it is damaged, or no private key", "")
	case s.passphrase == "":
		return nil, s.unusable(id, "it needs a passphrase", "Set ansible_ssh_private_key_passphrase, or load the key into an agent.")
	}
	if signer, err = ssh.ParsePrivateKeyWithPassphrase(raw, []byte(s.passphrase)); err != nil {
		return nil, s.unusable(id, "it cannot be read: it is damaged, or the passphrase is wrong", "Correct ansible_ssh_private_key_file or the passphrase.")
	}
	return signer, nil
}

// unusable is an error only where the key was named: OpenSSH, too, passes over what is not there of the usual keys.
func (s *settings) unusable(id identity, problem, remedy string) error {
	if !id.named {
		return nil
	}
	return reason.New(reason.AuthFailed, fmt.Sprintf("%s: private key %s", s.object(), id.path), problem, firstOf(remedy, "Correct ansible_ssh_private_key_file."))
}

// publicOf finds the public part of a key that cannot be used by itself; nil where there is none.
func publicOf(path string, raw []byte, locked *ssh.PassphraseMissingError) ssh.PublicKey {
	if locked != nil && locked.PublicKey != nil {
		return locked.PublicKey
	}
	beside, _ := os.ReadFile(path + ".pub")
	for _, text := range [][]byte{raw, beside} {
		if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			return key
		}
	}
	return nil
}

// certificate gives the signer with the user certificate of a file; nil where it is for another key, or not there and not asked for.
func (s *settings) certificate(path string, signer ssh.Signer, asked bool) (ssh.Signer, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return nil, nil
	}
	var key ssh.PublicKey
	if err == nil {
		key, _, _, _, err = ssh.ParseAuthorizedKey(raw)
	}
	certificate, is := key.(*ssh.Certificate)
	if err == nil && !is {
		err = errors.New("it is no certificate")
	}
	if err != nil {
		return nil, reason.Wrap(reason.AuthFailed, fmt.Sprintf("%s: user certificate %s", s.object(), path), err,
			"Give the certificate that the authority made, or remove the file.")
	}
	if !same(certificate.Key, signer.PublicKey()) {
		return nil, nil
	}
	return ssh.NewCertSigner(certificate, signer)
}

// ask gets the agent's keys; an agent that does not answer is as none.
func (l *login) ask(socket string) []ssh.Signer {
	if socket == "" {
		return nil
	}
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return nil
	}
	l.agent = conn
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil
	}
	return signers
}
