package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// Dial connects and logs in. Its errors are reason.Errors that tell a host that is down from one that is another, and from a refused login.
func Dial(ctx context.Context, config transport.Config) (transport.Connection, error) {
	s, err := newSettings(config)
	if err != nil {
		return nil, err
	}
	keys := newHostKeys(s)
	algorithms, err := keys.algorithms()
	if err != nil {
		return nil, err
	}
	login, err := newLogin(s)
	if err != nil {
		return nil, err
	}
	defer login.close()
	raw, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	_ = raw.SetDeadline(time.Now().Add(s.timeout + 10*time.Second))
	client, channels, requests, err := ssh.NewClientConn(raw, keys.known, &ssh.ClientConfig{
		User: s.user, Auth: login.methods, HostKeyCallback: keys.check, HostKeyAlgorithms: algorithms, ClientVersion: "SSH-2.0-wsu",
	})
	if err != nil {
		raw.Close()
		return nil, s.explain(ctx, err, keys, login)
	}
	_ = raw.SetDeadline(time.Time{})
	c := &connection{settings: s, client: ssh.NewClient(client, channels, requests), done: make(chan struct{})}
	go c.keepAlive()
	return c, nil
}

func (s *settings) object() string {
	return fmt.Sprintf("host %s (%s:%d)", s.name, s.host, s.port)
}

func (s *settings) connect(ctx context.Context) (net.Conn, error) {
	raw, err := (&net.Dialer{Timeout: s.timeout, KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(s.host, fmt.Sprint(s.port)))
	if err == nil {
		return raw, nil
	}
	if ctx.Err() != nil {
		return nil, reason.Wrap(reason.Interrupted, s.object(), ctx.Err(), "")
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return nil, reason.New(reason.HostUnreachable, s.object(), "its name cannot be resolved: "+dns.Err, "Correct ansible_host, or the control host's DNS.")
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Timeout() {
		return nil, reason.New(reason.HostUnreachable, s.object(), fmt.Sprintf("no answer within %s", s.timeout), "")
	}
	if errors.As(err, &operation) {
		err = operation.Err
	}
	return nil, reason.Wrap(reason.HostUnreachable, s.object(), err, "")
}

// explain makes of a failed handshake what it means.
func (s *settings) explain(ctx context.Context, err error, keys *hostKeys, login *login) error {
	switch {
	case keys.refusal != nil:
		return keys.refusal
	case ctx.Err() != nil:
		return reason.Wrap(reason.Interrupted, s.object(), ctx.Err(), "")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return reason.New(reason.AuthFailed, s.object(), fmt.Sprintf("user %s was refused; tried: %s", s.user, login.tried()), "")
	}
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	return reason.Wrap(reason.HostUnreachable, s.object(), err, "Check that an SSH server answers at this port.")
}

// login holds the ways to authenticate, in the order in which they are tried.
type login struct {
	methods []ssh.AuthMethod
	names   []string
	agent   net.Conn
}

func (l *login) close() {
	if l.agent != nil {
		l.agent.Close()
	}
}

func (l *login) tried() string {
	if len(l.names) == 0 {
		return "nothing, since there is neither a key, nor an agent, nor a password"
	}
	return strings.Join(l.names, ", ")
}

func newLogin(s *settings) (*login, error) {
	l := &login{}
	var signers []ssh.Signer
	for _, path := range s.identities {
		signer, err := s.identity(path)
		if err != nil {
			return nil, err
		}
		if signer != nil {
			signers = append(signers, signer)
			l.names = append(l.names, "key "+path)
		}
	}
	signers = append(signers, l.agentSigners()...)
	if len(signers) > 0 {
		l.methods = append(l.methods, ssh.PublicKeys(signers...))
	}
	if s.password != "" {
		l.names = append(l.names, "password")
		l.methods = append(l.methods, ssh.Password(s.password), ssh.KeyboardInteractive(
			func(_, _ string, questions []string, echos []bool) ([]string, error) {
				answers := make([]string, len(questions))
				for i := range questions {
					if echos[i] {
						return nil, errors.New("the host asks for more than a password")
					}
					answers[i] = s.password
				}
				return answers, nil
			}))
	}
	return l, nil
}

// identity reads a private key; nil where it is one of the usual ones and not there, or needs a passphrase that nobody gave.
func (s *settings) identity(path string) (ssh.Signer, error) {
	object := fmt.Sprintf("%s: private key %s", s.name, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		if s.defaultedKeys && errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, reason.Wrap(reason.AuthFailed, object, err, "Correct ansible_ssh_private_key_file.")
	}
	signer, err := ssh.ParsePrivateKey(raw)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		switch {
		case s.passphrase != "":
			signer, err = ssh.ParsePrivateKeyWithPassphrase(raw, []byte(s.passphrase))
		case s.defaultedKeys || os.Getenv("SSH_AUTH_SOCK") != "":
			return nil, nil // the agent may have it
		default:
			return nil, reason.New(reason.AuthFailed, object, "it needs a passphrase", "Set ansible_ssh_private_key_passphrase, or load the key into an agent.")
		}
	}
	if err != nil {
		return nil, reason.New(reason.AuthFailed, object, "it cannot be read: it is damaged, or the passphrase is wrong", "Correct ansible_ssh_private_key_file or the passphrase.")
	}
	return signer, nil
}

func (l *login) agentSigners() []ssh.Signer {
	socket := os.Getenv("SSH_AUTH_SOCK")
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
	if err != nil || len(signers) == 0 {
		return nil
	}
	l.names = append(l.names, fmt.Sprintf("%d keys of the agent", len(signers)))
	return signers
}
