package winrm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/internal/reason"
)

// connectTo gives the line to the host; peer is the certificate that it showed, nil without TLS.
func (s *settings) connectTo(ctx context.Context) (line net.Conn, peer *x509.Certificate, err error) {
	dialer := &net.Dialer{Timeout: s.connect, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 3 * time.Second, Count: 3}}
	raw, err := dialer.DialContext(ctx, "tcp", s.endpoint.Host)
	if err != nil {
		return nil, nil, s.unreachable(ctx, err)
	}
	if !s.tls {
		return raw, nil, nil
	}
	config, err := s.tlsConfig()
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	secure := tls.Client(raw, config)
	bounded, cancel := context.WithTimeout(ctx, s.connect)
	defer cancel()
	if err := secure.HandshakeContext(bounded); err != nil {
		raw.Close()
		return nil, nil, s.untrusted(ctx, err)
	}
	return secure, secure.ConnectionState().PeerCertificates[0], nil
}

func (s *settings) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{ServerName: s.endpoint.Hostname(), MinVersion: tls.VersionTLS12}
	if s.config.CATrustPath != "" {
		pool, err := pool(s.config.CATrustPath)
		if err != nil {
			return nil, s.argument("ansible_winrm_ca_trust_path", err.Error(), "")
		}
		config.RootCAs = pool
	}
	if pin, _ := fingerprintOf(s.config.CertificateFingerprint); pin != nil { // settings has checked its form
		config.InsecureSkipVerify = true //nolint:gosec // the pin below is stricter than any chain
		config.VerifyConnection = func(state tls.ConnectionState) error { return s.checkPin(state.PeerCertificates[0], pin) }
	} else if s.config.ServerCertValidation == "ignore" {
		config.InsecureSkipVerify = true //nolint:gosec // settings lets it through only where a variable with a frightening name says so
	}
	if s.config.CertPEM != "" {
		own, err := tls.LoadX509KeyPair(s.config.CertPEM, s.config.CertKeyPEM)
		if err != nil {
			return nil, s.argument("ansible_winrm_cert_pem", "certificate and key cannot be used: "+err.Error(), "")
		}
		config.Certificates = []tls.Certificate{own}
		// Windows asks for the certificate once it has seen the request: by renegotiation, which TLS 1.3 does not have.
		config.MaxVersion = tls.VersionTLS12
		config.Renegotiation = tls.RenegotiateOnceAsClient
	}
	return config, nil
}

// pool reads a file of certificates, or a folder of such files, as Ansible does.
func pool(path string) (*x509.CertPool, error) {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
			return nil, err
		}
	}
	certificates, found := x509.NewCertPool(), false
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found = certificates.AppendCertsFromPEM(raw) || found
	}
	if !found {
		return nil, fmt.Errorf("%s: there is no certificate in it", path)
	}
	return certificates, nil
}

// fingerprintOf reads SHA256: and hexadecimal digits, with or without colons; nil for "".
func fingerprintOf(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	digits, found := strings.CutPrefix(strings.ToLower(text), "sha256:")
	sum, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
	if !found || err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%q is not a SHA-256 fingerprint", text)
	}
	return sum, nil
}

func fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return "SHA256:" + hex.EncodeToString(sum[:])
}

func (s *settings) checkPin(shown *x509.Certificate, pin []byte) error {
	sum := sha256.Sum256(shown.Raw)
	if bytes.Equal(sum[:], pin) {
		return nil
	}
	return reason.New(reason.HostKeyMismatch, s.object(), fmt.Sprintf("its certificate is %s, and wsu_winrm_certificate_fingerprint says another one", fingerprint(shown)), "")
}

func (s *settings) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return reason.Wrap(reason.Interrupted, s.object(), ctx.Err(), "")
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return reason.New(reason.HostUnreachable, s.object(), "its name cannot be resolved: "+dns.Err, "Correct ansible_host, or the control host's DNS.")
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		if operation.Timeout() {
			return reason.New(reason.HostUnreachable, s.object(), fmt.Sprintf("no answer within %s", s.connect), "")
		}
		err = operation.Err
	}
	return reason.Wrap(reason.HostUnreachable, s.object(), err, "Check that WinRM listens at this port (winrm enumerate winrm/config/listener) and that the firewall lets it in.")
}

// untrusted makes of a failed TLS handshake what it means.
func (s *settings) untrusted(ctx context.Context, err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	if ctx.Err() != nil {
		return reason.Wrap(reason.Interrupted, s.object(), ctx.Err(), "")
	}
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return reason.New(reason.HostKeyUnknown, s.object(), fmt.Sprintf("its certificate %s is not trusted: %s", fingerprint(refused.UnverifiedCertificates[0]), refused.Err),
			"Give its CA in ansible_winrm_ca_trust_path, or compare the fingerprint with the host's own and set wsu_winrm_certificate_fingerprint.")
	}
	var told *net.OpError // crypto/tls wraps the far end's alerts in it
	if errors.As(err, &told) && told.Op == "remote error" {
		return reason.New(reason.AuthFailed, s.object(), "it broke off the TLS handshake: "+told.Err.Error(), "Check the client certificate, if one is used.")
	}
	return reason.New(reason.HostUnreachable, s.object(), "there is no TLS at this port: "+err.Error(), "Check ansible_port and ansible_winrm_scheme: 5986 is https, 5985 is http.")
}

// endPoint is the channel binding of RFC 5929: it ties the login to this TLS connection, so that nobody can pass it on.
func endPoint(peer *x509.Certificate) []byte {
	const prefix = "tls-server-end-point:"
	switch peer.SignatureAlgorithm {
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		sum := sha512.Sum384(peer.Raw)
		return append([]byte(prefix), sum[:]...)
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		sum := sha512.Sum512(peer.Raw)
		return append([]byte(prefix), sum[:]...)
	}
	sum := sha256.Sum256(peer.Raw)
	return append([]byte(prefix), sum[:]...)
}
