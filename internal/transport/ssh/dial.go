package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// loginTime is what the handshake and the login of one hop may take beyond the time for connecting.
const loginTime = 10 * time.Second

// Dial connects and logs in, at the bastions on the way first. Its errors are reason.Errors that tell a host that is down from one that is
// another, and from a refused login; they name the bastion where it is about one.
func Dial(ctx context.Context, config transport.Config) (transport.Connection, error) {
	s, err := newSettings(config)
	if err != nil {
		return nil, err
	}
	return open(ctx, s)
}

// open makes the chain of connections, the outermost first.
func open(ctx context.Context, s *settings) (*connection, error) {
	c := &connection{settings: s, done: make(chan struct{})}
	var chain []*settings
	for each := s; each != nil; each = each.via {
		chain = append([]*settings{each}, chain...)
	}
	for _, each := range chain {
		client, line, err := each.client(ctx, c.client)
		if err != nil {
			if reason.Is(err, reason.HostUnreachable) || reason.Is(err, reason.ConnectionLost) {
				err = c.blame(err)
			}
			c.Close()
			return nil, err
		}
		h := &hop{settings: each, client: client, heard: line, ended: make(chan struct{})}
		c.hops, c.client = append(c.hops, h), client
		go h.watch()
		go h.keepAwake(c.done)
	}
	return c, nil
}

func (s *settings) object() string {
	if s.bastion != "" {
		return fmt.Sprintf("host %s: bastion %s (%s)", s.name, s.bastion, s.address())
	}
	return fmt.Sprintf("host %s (%s)", s.name, s.address())
}

func (s *settings) address() string { return net.JoinHostPort(s.host, fmt.Sprint(s.port)) }

// client connects to one hop, through the one before it if there is one, and logs in.
func (s *settings) client(ctx context.Context, through *ssh.Client) (*ssh.Client, *heard, error) {
	keys := newHostKeys(s)
	algorithms, err := keys.algorithms()
	if err != nil {
		return nil, nil, err
	}
	login, err := newLogin(s)
	if err != nil {
		return nil, nil, err
	}
	defer login.close()
	raw, err := s.connect(ctx, through)
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout+loginTime)
	defer cancel()
	stop := context.AfterFunc(limited, func() { raw.Close() }) // not a deadline: a forwarded connection has none
	line := &heard{Conn: raw}
	client, channels, requests, err := ssh.NewClientConn(line, s.address(), &ssh.ClientConfig{
		User: s.user, Auth: login.methods, HostKeyCallback: keys.check, HostKeyAlgorithms: algorithms, ClientVersion: "SSH-2.0-wsu",
	})
	if err == nil && !stop() {
		client.Close()
		err = limited.Err()
	}
	if err != nil {
		raw.Close()
		return nil, nil, s.explain(ctx, limited, err, keys, login)
	}
	return ssh.NewClient(client, channels, requests), line, nil
}

// connect reaches the hop's port.
func (s *settings) connect(ctx context.Context, through *ssh.Client) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var raw net.Conn
	var err error
	if through != nil {
		raw, err = through.DialContext(limited, "tcp", s.address())
	} else {
		raw, err = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(limited, s.network, s.address())
	}
	if err == nil {
		return raw, nil
	}
	var dns *net.DNSError
	var operation *net.OpError
	var refused *ssh.OpenChannelError
	switch {
	case ctx.Err() != nil:
		return nil, s.cancelled(ctx)
	case errors.Is(limited.Err(), context.DeadlineExceeded), errors.As(err, &operation) && operation.Timeout():
		return nil, reason.New(reason.HostUnreachable, s.object(), fmt.Sprintf("no answer within %s%s", s.timeout, s.behind()), "")
	case errors.As(err, &dns):
		return nil, reason.New(reason.HostUnreachable, s.object(), "its name cannot be resolved: "+dns.Err, "Correct ansible_host, or the control host's DNS.")
	case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
		return nil, reason.New(reason.HostUnreachable, s.object(), fmt.Sprintf("not allowed%s: %.200q", s.behind(), refused.Message),
			"Allow forwarding to this address on the bastion (AllowTcpForwarding and PermitOpen of its sshd_config).")
	case errors.As(err, &refused):
		return nil, reason.New(reason.HostUnreachable, s.object(), fmt.Sprintf("no connection%s: %.200q", s.behind(), refused.Message),
			"Check that the host is up, and that the bastion reaches and resolves this address.")
	case operation != nil:
		err = operation.Err
	case s.via != nil:
		err = fmt.Errorf("no connection%s: %w", s.behind(), err)
	}
	return nil, reason.Wrap(reason.HostUnreachable, s.object(), err, "")
}

func (s *settings) behind() string {
	if s.via == nil {
		return ""
	}
	return fmt.Sprintf(" through bastion %s (%s)", s.via.bastion, s.via.address())
}

func (s *settings) cancelled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return reason.New(reason.Timeout, s.object(), "it took longer than allowed", "")
	}
	return reason.Wrap(reason.Interrupted, s.object(), ctx.Err(), "")
}

// explain makes of a failed handshake what it means.
func (s *settings) explain(ctx, limited context.Context, err error, keys *hostKeys, login *login) error {
	var none *ssh.AlgorithmNegotiationError
	var network net.Error
	text := err.Error()
	refused := fmt.Sprintf("user %s was refused; tried: %s", s.user, login.tried())
	switch {
	case ctx.Err() != nil:
		return s.cancelled(ctx)
	case keys.refusal != nil:
		return keys.refusal
	case limited.Err() != nil:
		return reason.New(reason.HostUnreachable, s.object(), fmt.Sprintf("it answered, and the login was not done within %s", s.timeout+loginTime),
			"Check that an SSH server answers at this port, and what slows it down.")
	case errors.As(err, &none):
		return s.nothingInCommon(none, keys)
	case !keys.accepted:
		return reason.Wrap(reason.HostUnreachable, s.object(), err, "Check that an SSH server answers at this port.")
	case strings.Contains(strings.ToLower(text), "too many authentication failures"): // the library's type for it is its own
		return reason.New(reason.AuthFailed, s.object(), refused+"; the host ended it after so many ways", s.fewer(login))
	case strings.Contains(text, "unable to authenticate"):
		return reason.New(reason.AuthFailed, s.object(), refused, s.otherwise())
	case errors.Is(err, io.EOF), errors.As(err, &network), strings.Contains(text, "ssh: disconnect"):
		return reason.Wrap(reason.ConnectionLost, s.object(), fmt.Errorf("it broke off during the login of user %s: %w", s.user, err), "")
	}
	return reason.New(reason.AuthFailed, s.object(), refused+": "+strings.TrimPrefix(text, "ssh: handshake failed: "), s.otherwise())
}

// fewer says how to try less: hosts count every key that is shown (MaxAuthTries, 6 by default).
func (s *settings) fewer(login *login) string {
	if login.fromAgent == 0 {
		return "Name the one key that the host knows."
	}
	if s.bastion != "" {
		return fmt.Sprintf("Name the bastion's key: IdentityFile and IdentitiesOnly yes for Host %s in ~/.ssh/config, "+
			"so that the agent's other keys are not tried.", s.bastion)
	}
	return "Name the host's key with ansible_ssh_private_key_file, and set ansible_ssh_common_args='-o IdentitiesOnly=yes', " +
		"so that the agent's other keys are not tried."
}

// otherwise is the remedy for a refused login; empty is the general one.
func (s *settings) otherwise() string {
	if s.bastion == "" {
		return ""
	}
	return fmt.Sprintf("Check the bastion's user, and load its key into the agent or name it (User and IdentityFile for Host %s in ~/.ssh/config): "+
		"the host's own key and password are not offered to a bastion.", s.bastion)
}

// nothingInCommon is about a host and a client that know no common way to talk, or to prove who the host is.
func (s *settings) nothingInCommon(none *ssh.AlgorithmNegotiationError, keys *hostKeys) error {
	theirs := strings.Join(none.RequestedAlgorithms, ", ")
	if none.What != "host key" {
		return reason.New(reason.ProtocolUnsupported, s.object(), fmt.Sprintf("it has no %s that this program knows: it offers %.300s", none.What, theirs),
			"Update the host's SSH server, or allow a current algorithm in its sshd_config.")
	}
	exact, bare, err := keys.load()
	if s.fingerprint == "" && err == nil && len(exact.keys)+len(bare.keys)+len(exact.authorities)+len(bare.authorities) > 0 {
		known := firstKeys(firstKeys(exact.keys, bare.keys), firstKeys(exact.authorities, bare.authorities))
		problem := fmt.Sprintf("it has no host key of the kind that is known in %s: it offers %.300s", known[0].where, theirs)
		return reason.New(reason.HostKeyMismatch, s.object(), problem, "")
	}
	return reason.New(reason.ProtocolUnsupported, s.object(), fmt.Sprintf("it has no kind of host key that this program knows: it offers %.300s", theirs),
		"Give the host an Ed25519, ECDSA or RSA key (with SHA-2).")
}
