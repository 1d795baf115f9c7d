// Package kubeapi speaks to a Kubernetes API server over plain net/http, for wmcb.exe: client-go alone would make it 10 MB bigger, and
// wmcb.exe is what has to travel before the fast way of travelling is there. It knows only what a joining node needs.
package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/reason"
)

const (
	// maxBody bounds an answer, in bytes. A CSR has about 3 KB.
	maxBody = 1 << 20
	// connectTimeout bounds the connection's set-up, answerTimeout the time until the answer's headers.
	connectTimeout = 10 * time.Second
	answerTimeout  = 30 * time.Second
)

// ErrNotFound and ErrExists are the two answers that a caller decides on. All other failures are reason.Errors.
var (
	ErrNotFound = errors.New("there is no such object")
	ErrExists   = errors.New("there is such an object already")
	// ErrUnauthorized means that the API server does not know the credentials (any more).
	ErrUnauthorized = errors.New("the API server does not accept the credentials")
)

// Client is for one API server with one identity. It holds secrets.
type Client struct {
	server *url.URL
	token  string
	http   *http.Client
}

// New makes a client of a kubeconfig. It verifies the server's certificate with the kubeconfig's authority and nothing else.
func New(k *kubeconfig.Kubeconfig) (*Client, error) {
	server, err := url.Parse(k.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return nil, reason.New(reason.KubeconfigInvalid, "kubeconfig", fmt.Sprintf("its server %q is not an https URL", k.Server), "")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: k.TLSServerName}
	if len(k.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(k.CA) {
			return nil, reason.New(reason.KubeconfigInvalid, "kubeconfig", "its certificate authority holds no certificate", "")
		}
	}
	if len(k.ClientCert) > 0 {
		pair, err := tls.X509KeyPair(k.ClientCert, k.ClientKey)
		if err != nil {
			return nil, reason.New(reason.KubeconfigInvalid, "kubeconfig", "its client certificate and key do not belong together", "")
		}
		// Always shown: by itself TLS keeps back a certificate of an authority that the server does not name, and the request goes in
		// as anybody's.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return &Client{server: server, token: strings.TrimSpace(k.Token), http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTimeout,
			DialContext: (&net.Dialer{Timeout: connectTimeout, KeepAlive: 10 * time.Second}).DialContext, ResponseHeaderTimeout: answerTimeout,
		},
		// An API server does not redirect; whoever does must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Version gives the API server's version, as v1.36.3.
func (c *Client) Version(ctx context.Context) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err := c.do(ctx, http.MethodGet, "/version", nil, &version)
	return version.GitVersion, err
}

// KnowsNode asks for a node with the client's own credentials: nil where the API server knows them, whether the node exists or not, and
// ErrUnauthorized where it does not.
func (c *Client) KnowsNode(ctx context.Context, name string) error {
	err := c.do(ctx, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(name), nil, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	response, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if len(raw) > maxBody {
		return c.strange(fmt.Sprintf("it answered with more than %d bytes", maxBody))
	}
	if err := c.statusError(response.StatusCode, raw); err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return c.strange("its answer is not what an API server answers")
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("kubeapi: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.server.String(), "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("kubeapi: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "wmcb")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return response, nil
}

func (c *Client) object() string { return "API server " + c.server.Host }

func (c *Client) strange(problem string) error {
	return reason.New(reason.APIUnreachable, c.object(), problem, "Check what answers at this address: a proxy, or a load balancer without servers.")
}

// unreachable tells apart a server that is not there and one that is another.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
		return reason.Wrap(reason.Interrupted, c.object(), ctx.Err(), "")
	}
	var untrusted *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.As(err, &untrusted):
		return reason.New(reason.APIUntrusted, c.object(), "its certificate is not valid for this cluster: "+untrusted.Err.Error(), "")
	case errors.As(err, &dns):
		return reason.New(reason.DNSFailed, c.object(), "its name cannot be resolved: "+dns.Err, "")
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which the object names already
	}
	return reason.Wrap(reason.APIUnreachable, c.object(), err, "")
}

// statusError makes of an answer that is no success an error with the server's own words.
func (c *Client) statusError(code int, raw []byte) error {
	if code >= 200 && code < 300 {
		return nil
	}
	var status struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &status) // whatever is not a Status has no message
	message := fmt.Sprintf("it answered with HTTP %d %s", code, printable(status.Message))
	switch {
	case code == http.StatusUnauthorized:
		return ErrUnauthorized
	case code == http.StatusNotFound && status.Reason == "NotFound":
		return ErrNotFound
	case code == http.StatusConflict && status.Reason == "AlreadyExists":
		return ErrExists
	case code == http.StatusForbidden:
		return reason.New(reason.APIForbidden, c.object(), message, "")
	}
	return reason.New(reason.APIUnreachable, c.object(), strings.TrimSpace(message), "")
}

// printable bounds a text of the server and takes control characters out.
func printable(text string) string {
	const limit = 300
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// Time gives the API server's own time, from the header of whatever it answers; it needs no credentials.
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	response, err := c.send(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return time.Time{}, err
	}
	defer response.Body.Close()
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, c.strange("its answer has no date")
	}
	return now, nil
}
