package winrm

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"wsu.windows/internal/reason"
)

const (
	// maxAnswer bounds an answer, in bytes. A host's envelopes have at most maxEnvelope.
	maxAnswer = 4 << 20
	// maxSteps bounds a login's exchanges.
	maxSteps    = 4
	contentType = "application/soap+xml;charset=UTF-8"
)

// login is one authentication on one connection.
type login interface {
	// scheme is the word of the Authorization header.
	scheme() string
	// step gives the token that follows what the host said last, nil at first. Nil: there is no more to say.
	step(ctx context.Context, challenge []byte) ([]byte, error)
	// sealer seals and opens messages once the login is through.
	sealer() sealer
}

// sealer seals messages, in the order of the line.
type sealer interface {
	// protocol is its name in a sealed message.
	protocol() string
	// seal gives the signature and the sealed message, which is as long as the plain one.
	seal(plain []byte) (signature, sealed []byte, err error)
	open(signature, sealed []byte) ([]byte, error)
}

// channel is one HTTP connection that is logged in. Its requests go one after the other: seals have an order.
type channel struct {
	*settings
	line net.Conn
	in   *bufio.Reader
	// authorization goes with every request, where the login is of that kind.
	authorization string
	sealer        sealer
	request       []byte
}

// open makes a channel and logs in.
func (s *settings) open(ctx context.Context, way string, tickets *tickets) (*channel, error) {
	line, peer, err := s.connectTo(ctx)
	if err != nil {
		return nil, err
	}
	patient := &patient{Conn: line, limit: s.read}
	c := &channel{settings: s, line: patient, in: bufio.NewReaderSize(patient, 64<<10)}
	stop := context.AfterFunc(ctx, func() { line.Close() })
	defer stop()
	var bindings []byte
	if peer != nil {
		bindings = endPoint(peer)
	}
	switch way {
	case basic:
		c.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(s.user+":"+s.password))
	case certificate:
		c.authorization = "http://schemas.dmtf.org/wbem/wsman/1/wsman/secprofile/https/mutual"
	case ntlm:
		err = c.logIn(ctx, newNTLM(s, bindings))
	case kerberos:
		err = c.logIn(ctx, newKerberos(tickets, bindings))
	}
	if err != nil {
		c.close()
		if err = c.lost(ctx, err); !s.tls && reason.Is(err, reason.ConnectionLost) {
			return nil, reason.New(reason.ConnectionLost, s.object(), "it broke off at the first message",
				"Run it again; if it repeats, check ansible_port and ansible_winrm_scheme: 5986 is https, 5985 is http.")
		}
		return nil, err
	}
	return c, nil
}

func (c *channel) close() { c.line.Close() }

// logIn exchanges tokens with empty requests until the host lets us in.
func (c *channel) logIn(ctx context.Context, l login) error {
	var challenge []byte
	for range maxSteps {
		token, err := l.step(ctx, challenge)
		if err != nil {
			return err
		}
		if token == nil {
			break
		}
		status, header, _, err := c.exchange(l.scheme()+" "+base64.StdEncoding.EncodeToString(token), contentType, nil)
		if err != nil {
			return err
		}
		answer, offered := answerTo(header, l.scheme())
		if status == http.StatusUnauthorized && len(answer) == 0 {
			return c.refused(l.scheme(), offered)
		}
		if status != http.StatusUnauthorized {
			if _, err := l.step(ctx, answer); len(answer) > 0 && err != nil {
				return err
			}
			if status/100 != 2 {
				return reason.New(reason.HostOutputInvalid, c.object(), fmt.Sprintf("it answers the login with the HTTP status %d", status),
					"Check that this is WinRM's port and path, and that no proxy is in between.")
			}
			if c.seal {
				c.sealer = l.sealer()
			}
			return nil
		}
		challenge = answer
	}
	return c.refused(l.scheme(), nil)
}

func (c *channel) refused(scheme string, offered []string) error {
	problem := fmt.Sprintf("user %s was refused (%s)", c.user, scheme)
	if len(offered) > 0 && !strings.Contains(strings.Join(offered, " "), scheme) {
		problem = fmt.Sprintf("it does not offer a login by %s; it offers: %s", scheme, strings.Join(offered, ", "))
	}
	return reason.New(reason.AuthFailed, c.object(), problem, "")
}

// answerTo finds the token for a scheme, and all the schemes, in an answer.
func answerTo(header http.Header, scheme string) (token []byte, offered []string) {
	for _, value := range header.Values("WWW-Authenticate") {
		name, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		offered = append(offered, clean(name))
		if strings.EqualFold(name, scheme) && token == nil {
			token, _ = base64.StdEncoding.DecodeString(strings.TrimSpace(rest)) // what is not a token is none
		}
	}
	return token, offered
}

// post sends one envelope and gives the answer's.
func (c *channel) post(ctx context.Context, envelope []byte) (answer []byte, err error) {
	stop := context.AfterFunc(ctx, func() { c.line.Close() })
	defer stop()
	kind := contentType
	if c.sealer != nil {
		if kind, envelope, err = seal(c.sealer, envelope); err != nil {
			return nil, c.lost(ctx, err)
		}
	}
	status, header, answer, err := c.exchange(c.authorization, kind, envelope)
	if err != nil {
		return nil, c.lost(ctx, err)
	}
	switch status {
	case http.StatusUnauthorized:
		_, offered := answerTo(header, "")
		scheme, _, _ := strings.Cut(c.authorization, " ")
		if scheme != "Basic" && c.authorization != "" {
			scheme = "client certificate"
		}
		return nil, c.refused(scheme, offered)
	case http.StatusOK, http.StatusInternalServerError: // a fault comes with 500
	default:
		return nil, reason.New(reason.HostOutputInvalid, c.object(), fmt.Sprintf("it answers with the HTTP status %d", status),
			"Check that this is WinRM's port and path, and that no proxy is in between.")
	}
	if c.sealer == nil {
		return answer, nil
	}
	if answer, err = open(c.sealer, header.Get("Content-Type"), answer); err != nil {
		return nil, reason.New(reason.ConnectionLost, c.object(), "a sealed answer cannot be opened: "+err.Error(), "")
	}
	return answer, nil
}

// exchange is one request and its answer.
func (c *channel) exchange(authorization, kind string, body []byte) (int, http.Header, []byte, error) {
	c.request = fmt.Appendf(c.request[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: wsu\r\nContent-Type: %s\r\nContent-Length: %d\r\n",
		c.endpoint.EscapedPath(), c.endpoint.Host, kind, len(body))
	if authorization != "" {
		c.request = fmt.Appendf(c.request, "Authorization: %s\r\n", authorization)
	}
	c.request = append(append(c.request, "\r\n"...), body...)
	if _, err := c.line.Write(c.request); err != nil {
		return 0, nil, nil, err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("an answer has more than %d bytes", maxAnswer)
	}
	return response.StatusCode, response.Header, answer, err
}

// lost says what a broken channel means.
func (s *settings) lost(ctx context.Context, err error) error {
	var known *reason.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reason.New(reason.Timeout, s.object(), "it took longer than allowed", "")
	case ctx.Err() != nil:
		return reason.Wrap(reason.Interrupted, s.object(), ctx.Err(), "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reason.New(reason.ConnectionLost, s.object(), fmt.Sprintf("it has not answered for %s", s.read), "")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return reason.New(reason.ConnectionLost, s.object(), "it closed the connection", "")
	}
	return reason.Wrap(reason.ConnectionLost, s.object(), err, "")
}

// patient bounds how long a line may be silent, not how long a message may take.
type patient struct {
	net.Conn
	limit time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.limit)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// Write goes in pieces, each of which has its time.
func (p *patient) Write(b []byte) (written int, err error) {
	const piece = 64 << 10
	for len(b) > 0 && err == nil {
		var n int
		if err = p.SetWriteDeadline(time.Now().Add(p.limit)); err == nil {
			n, err = p.Conn.Write(b[:min(len(b), piece)])
		}
		written += n
		b = b[n:]
	}
	return written, err
}
