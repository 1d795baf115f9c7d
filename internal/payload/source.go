package payload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/release"
)

// stall is how long a server may send nothing.
const stall = 60 * time.Second

var (
	// errBroken is a transfer that broke off and may be taken up again.
	errBroken = errors.New("the transfer broke off")
	// errTooLong is a file that does not end where release.yml says.
	errTooLong = errors.New("the file is longer than release.yml says")
)

// source is where files come from.
type source struct {
	base   *url.URL
	folder string
	http   *http.Client
}

// place is one file's: a URL, or a path.
type place struct {
	url  *url.URL
	path string
}

// String never shows a password.
func (p place) String() string {
	if p.url != nil {
		return p.url.Redacted()
	}
	return p.path
}

func newSource(base, caFile string) (*source, error) {
	roots, err := authorities(caFile)
	if err != nil {
		return nil, err
	}
	s := &source{http: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, ForceAttemptHTTP2: true,
		DisableCompression: true, // sizes and ranges are those of the file
	}}}
	if base == "" {
		return s, nil
	}
	parsed, err := url.Parse(base)
	switch {
	case err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != "":
		parsed.Path = strings.TrimSuffix(parsed.Path, "/") + "/"
		s.base = parsed
	case err == nil && parsed.Scheme == "file":
		s.folder = parsed.Path
	case strings.HasPrefix(base, "/") || strings.HasPrefix(base, "~/") || strings.HasPrefix(base, "."):
		s.folder = expand(base)
	default:
		return nil, reason.New(reason.ArgumentInvalid, "wsu_payload_url "+base, "it is neither a URL (https://..., file:///...) nor a folder", "")
	}
	return s, nil
}

func expand(name string) string {
	if rest, found := strings.CutPrefix(name, "~/"); found {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return name
}

func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "wsu_payload_ca_file", err, "")
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(raw) {
		return nil, reason.New(reason.ArgumentInvalid, "wsu_payload_ca_file "+file, "it holds no certificate in PEM", "")
	}
	return pool, nil
}

// locate says where a file is.
func (s *source) locate(file release.File) (place, error) {
	parsed, err := url.Parse(file.URL)
	if err != nil || file.URL == "" {
		return place{}, reason.New(reason.ReleaseInvalid, "release.yml: "+file.Name, "it has no URL", "Name its place in release.yml: an absolute URL, or one relative to wsu_payload_url.")
	}
	switch {
	case parsed.Scheme == "https" || parsed.Scheme == "http":
		return place{url: parsed}, nil
	case parsed.Scheme == "file":
		return place{path: parsed.Path}, nil
	case parsed.Scheme != "":
		return place{}, reason.New(reason.ReleaseInvalid, "release.yml: "+file.Name, fmt.Sprintf("its URL has the scheme %q", parsed.Scheme), "Use https.")
	case parsed.Host != "":
		return place{}, reason.New(reason.ReleaseInvalid, "release.yml: "+file.Name, "its URL has a host and no scheme", "Use https.")
	}
	below := path.Clean("/" + parsed.Path) // never above the base, be it a URL or a folder
	switch {
	case s.base != nil:
		to := s.base.JoinPath((&url.URL{Path: below}).EscapedPath())
		to.RawQuery = parsed.RawQuery
		return place{url: to}, nil
	case s.folder != "":
		return place{path: filepath.Join(s.folder, filepath.FromSlash(below))}, nil
	}
	return place{}, reason.New(reason.PayloadUnavailable, file.Name, "release.yml has only a relative URL for it, and wsu_payload_url is not set",
		"Set wsu_payload_url to where the release's files are: https://..., file:///... or a folder.")
}

// read appends to what is there. report is called now and then.
func (s *source) read(ctx context.Context, from place, into *incoming, report func()) error {
	if from.url == nil {
		return readFile(from.path, into, report)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url.String(), nil)
	if err != nil {
		return err
	}
	if into.have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", into.have))
	}
	response, err := s.http.Do(request)
	if err != nil {
		return explain(err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusPartialContent:
		if !strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", into.have)) {
			return errors.Join(into.restart(), fmt.Errorf("%w: the server sends another part than the one that was asked for", errBroken))
		}
	case http.StatusOK, http.StatusRequestedRangeNotSatisfiable:
		if err := into.restart(); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return errBroken
		}
	default:
		if response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("%w: the server answered %s", errBroken, response.Status)
		}
		return fmt.Errorf("the server answered %s", response.Status)
	}
	into.total = 0
	if response.ContentLength >= 0 {
		into.total = into.have + response.ContentLength
	}
	return pump(ctx, cancel, response.Body, into, report)
}

// pump copies until the end, and gives up on a server that sends nothing any more.
func pump(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader, into *incoming, report func()) error {
	timer := time.AfterFunc(stall, func() { cancel(fmt.Errorf("%w: no byte for %s", errBroken, stall)) })
	defer timer.Stop()
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		timer.Reset(stall)
		if n > 0 {
			if _, err := into.Write(buffer[:n]); err != nil {
				return err
			}
			report()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("%w: %w", errBroken, err)
		}
	}
}

func readFile(name string, into *incoming, report func()) error {
	if err := into.restart(); err != nil { // a local copy is quicker than to find out whether the beginning is the same
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		into.total = info.Size()
	}
	_, err = io.Copy(into, file)
	report()
	return err
}

// explain makes certificate errors readable; everything else that has not begun may be tried again.
func explain(err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("the server's certificate is not trusted: %w. Put its authority into wsu_payload_ca_file", untrusted.Err)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return err
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}
