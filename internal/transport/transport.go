// Package transport reaches a Windows host: callers see commands with streams, never SSH or SOAP.
package transport

import (
	"context"
	"io"
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
	// Close ends the connection and everything that belongs to it.
	Close() error
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
	ConnectTimeoutSeconds int       `json:"connect_timeout_seconds,omitempty"`
	SSH                   SSHConfig `json:"ssh,omitzero"`
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
