// Package transport reaches a Windows host: callers see commands with streams, never SSH or SOAP.
package transport

import (
	"context"
	"io"
	"time"
)

// Connection is one authenticated connection to one host, used for everything that a module run does there.
type Connection interface {
	// Run runs one command line (as cmd.exe or PowerShell take it: a path without spaces and simple flags) and waits
	// for its end. Streams may be nil. The exit code is 0..255 or, where the transport gives it, Windows' own.
	// A broken connection is a reason.ConnectionLost.
	Run(ctx context.Context, cmd Command) (exitCode int, err error)
	// PutFirst brings the first file, wmcb.exe itself, onto the host before wmcb can receive anything, to the absolute
	// Windows path, and says which way it took (sftp, tar, base64). The caller verifies the digest.
	PutFirst(ctx context.Context, path string, content io.ReaderAt, size int64) (way string, err error)
	// Remove deletes a file or an empty folder that PutFirst made; absent is no error.
	Remove(ctx context.Context, path string) error
	// RoundTrip measures the way to the host and back. Serial is true where a command takes its input piece by piece, each after an answer.
	RoundTrip(ctx context.Context) (duration time.Duration, serial bool)
	// Close ends the connection and everything that belongs to it.
	Close() error
}

// Fallback is a connection that may change bytes on their way, and can bring the first file once more as text.
type Fallback interface {
	PutAgain(ctx context.Context, path string, content io.ReaderAt, size int64) (way string, err error)
}

// Command is one remote command.
type Command struct {
	// Line is the command line. No secret may stand in it.
	Line   string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Config is the `connection` argument that the action plugin fills from the host's ordinary Ansible variables.
type Config struct {
	// InventoryHostname names the host in messages.
	InventoryHostname string `json:"inventory_hostname"`
	// Kind is ssh or winrm.
	Kind     string `json:"kind"`
	Host     string `json:"host"`
	Port     int    `json:"port,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	// ConnectTimeoutSeconds bounds the connection's set-up, 0: 10.
	ConnectTimeoutSeconds int         `json:"connect_timeout_seconds,omitempty"`
	SSH                   SSHConfig   `json:"ssh,omitzero"`
	WinRM                 WinRMConfig `json:"winrm,omitzero"`
}

// WinRMConfig is what only WinRM knows. The names are those of Ansible's winrm connection, without ansible_winrm_.
type WinRMConfig struct {
	// Scheme is http or https; empty: by the port.
	Scheme string `json:"scheme,omitempty"`
	// Path is the endpoint's, empty: /wsman.
	Path string `json:"path,omitempty"`
	// Transports are the ways to log in, tried in this order: kerberos, ntlm, certificate, basic.
	Transports []string `json:"transport,omitempty"`
	// MessageEncryption is auto (where there is no TLS), always or never.
	MessageEncryption string `json:"message_encryption,omitempty"`
	// ServerCertValidation is validate or ignore; CATrustPath a file or folder of PEM certificates, empty: the system's.
	ServerCertValidation string `json:"server_cert_validation,omitempty"`
	CATrustPath          string `json:"ca_trust_path,omitempty"`
	// CertPEM and CertKeyPEM are files of the client certificate.
	CertPEM    string `json:"cert_pem,omitempty"`
	CertKeyPEM string `json:"cert_key_pem,omitempty"`
	// Service and KerberosHostnameOverride make the service's principal, empty: HTTP/<host>. KinitMode manual uses the tickets of
	// KRB5CCNAME even where there is a password.
	Service                  string `json:"service,omitempty"`
	KerberosHostnameOverride string `json:"kerberos_hostname_override,omitempty"`
	KerberosDelegation       bool   `json:"kerberos_delegation,omitempty"`
	KinitMode                string `json:"kinit_mode,omitempty"`
	// ReadTimeoutSeconds bounds the wait for an answer, 0: 18. OperationTimeoutSeconds is how long the host may wait for output, 0: 10.
	ReadTimeoutSeconds      int `json:"read_timeout_sec,omitempty"`
	OperationTimeoutSeconds int `json:"operation_timeout_sec,omitempty"`
	// CertificateFingerprint pins the host's certificate, as SHA256: and hexadecimal digits.
	CertificateFingerprint string `json:"certificate_fingerprint,omitempty"`
	// InsecureExposeCredentials allows what else is refused: no TLS and no sealing, or TLS with anybody.
	InsecureExposeCredentials bool `json:"insecure_expose_credentials,omitempty"`
}

// SSHConfig is what only SSH knows.
type SSHConfig struct {
	PrivateKeyFile       string `json:"private_key_file,omitempty"`
	PrivateKeyPassphrase string `json:"private_key_passphrase,omitempty"`
	// CommonArgs is ansible_ssh_common_args; what of it is honoured is documented in docs/variables.md.
	CommonArgs string `json:"common_args,omitempty"`
	// HostKeyPolicy is strict or accept-new.
	HostKeyPolicy string `json:"host_key_policy,omitempty"`
	// KnownHostsFile; empty: ~/.ssh/known_hosts. With accept-new a first key is appended to it.
	KnownHostsFile string `json:"known_hosts_file,omitempty"`
	// HostKeyFingerprint pins the key, as SHA256:...
	HostKeyFingerprint string `json:"host_key_fingerprint,omitempty"`
}
