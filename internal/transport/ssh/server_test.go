package ssh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"wsu.windows/internal/transport"
)

const sshd = "/usr/sbin/sshd"

// server is a real OpenSSH server on loopback, for this user and with keys of its own.
type server struct {
	dir     string
	port    int
	public  string // the host key, as a .pub file has it
	hostKey string // as known_hosts has it
	said    *said
}

// said keeps what a server logs, for tests that ask what has happened there.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func startServer(t *testing.T, lines ...string) *server {
	t.Helper()
	s := newServer(t)
	s.start(t, lines...)
	return s
}

// newServer makes its keys.
func newServer(t *testing.T) *server {
	t.Helper()
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("SKIPPED, SO NOTHING IS TESTED AGAINST OPENSSH: no " + sshd + "; `make packages` installs it")
	}
	// sshd looks at the rights of the whole path, and refuses /tmp's.
	s := &server{dir: t.TempDir(), said: &said{}}
	s.public = s.key(t, "host", "")
	s.key(t, "user", "")
	authorized, err := os.ReadFile(filepath.Join(s.dir, "user.pub"))
	require.NoError(t, err)
	s.key(t, "locked", "passphrase-canary")
	locked, err := os.ReadFile(filepath.Join(s.dir, "locked.pub"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "authorized"), append(authorized, locked...), 0o600))
	s.port = freePort(t)
	s.hostKey = fmt.Sprintf("[127.0.0.1]:%d %s", s.port, s.public)
	return s
}

// start starts it with more lines of sshd_config, which come before the usual ones and so outweigh them. DIR is its folder.
func (s *server) start(t *testing.T, lines ...string) {
	t.Helper()
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "DIR", s.dir)
	}
	config := strings.Join(lines, "\n") + fmt.Sprintf("\nPort %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\n"+
		"UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n",
		s.port, filepath.Join(s.dir, "host"), filepath.Join(s.dir, "authorized"))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "config"), []byte(config), 0o600))
	_ = os.MkdirAll("/run/sshd", 0o755)                                             //nolint:gosec // where sshd as root separates privileges
	command := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(s.dir, "config")) //nolint:gosec // as found
	command.Stderr = s.said
	command.WaitDelay = time.Second // sessions that are still there hold its output
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(s.said.String())
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
}

// key makes a key pair and gives the public part.
func (s *server) key(t *testing.T, name, passphrase string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), pem.EncodeToMemory(block), 0o600))
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	line := ssh.MarshalAuthorizedKey(key)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name+".pub"), line, 0o600))
	return strings.TrimSpace(string(line))
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// config reaches the server as a user would who knows its key.
func (s *server) config(t *testing.T) transport.Config {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	me, err := user.Current()
	require.NoError(t, err)
	known := filepath.Join(t.TempDir(), "known_hosts")
	require.NoError(t, os.WriteFile(known, []byte(s.hostKey+"\n"), 0o600))
	return transport.Config{
		InventoryHostname: "win1", Kind: "ssh", Host: "127.0.0.1", Port: s.port, User: me.Username,
		SSH: transport.SSHConfig{PrivateKeyFile: filepath.Join(s.dir, "user"), KnownHostsFile: known},
	}
}

func dial(t *testing.T, config transport.Config) transport.Connection {
	t.Helper()
	c, err := Dial(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// goServer is a server of the SSH library, for what OpenSSH needs accounts of the machine for (passwords) or a Windows machine.
type goServer struct {
	port    int
	hostKey string // as known_hosts has it
}

// startGoServer runs commands with the function, which gives their exit code. It has no SFTP.
func startGoServer(t *testing.T, config *ssh.ServerConfig, run func(line string, channel ssh.Channel) uint32) *goServer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wait sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		wait.Wait()
	})
	port := listener.Addr().(*net.TCPAddr).Port
	wait.Go(func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { serve(raw, config, run) })
		}
	})
	return &goServer{port: port, hostKey: fmt.Sprintf("[127.0.0.1]:%d %s", port, ssh.MarshalAuthorizedKey(signer.PublicKey()))}
}

func serve(raw net.Conn, config *ssh.ServerConfig, run func(string, ssh.Channel) uint32) {
	defer raw.Close()
	_, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for each := range channels {
		if each.ChannelType() != "session" {
			_ = each.Reject(ssh.UnknownChannelType, "there are sessions only")
			continue
		}
		channel, requests, err := each.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range requests {
				_ = request.Reply(request.Type == "exec", nil)
				if request.Type == "exec" {
					var line struct{ Text string }
					_ = ssh.Unmarshal(request.Payload, &line)
					go func() {
						code := run(line.Text, channel)
						_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
						channel.Close()
					}()
				}
			}
		}()
	}
}

// config reaches the server with a password.
func (s *goServer) config(t *testing.T) transport.Config {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	known := filepath.Join(t.TempDir(), "known_hosts")
	require.NoError(t, os.WriteFile(known, []byte(s.hostKey), 0o600))
	return transport.Config{
		InventoryHostname: "win1", Kind: "ssh", Host: "127.0.0.1", Port: s.port, User: `CORP\admin`, Password: "password-canary",
		SSH: transport.SSHConfig{KnownHostsFile: known},
	}
}

// line is a wire to a port that can be cut off without either side hearing of it.
type line struct {
	port   int
	frozen chan struct{}
	freeze sync.Once
}

func newLine(t *testing.T, to int) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{port: listener.Addr().(*net.TCPAddr).Port, frozen: make(chan struct{})}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to))
			if err != nil {
				near.Close()
				continue
			}
			t.Cleanup(func() {
				near.Close()
				far.Close()
			})
			go l.copy(near, far)
			go l.copy(far, near)
		}
	}()
	return l
}

func (l *line) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-l.frozen:
			return // and nobody closes
		default:
		}
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func (l *line) cut() { l.freeze.Do(func() { close(l.frozen) }) }

// startAgent holds keys behind a socket, as ssh-agent does; call it after config, which sets the environment.
func startAgent(t *testing.T, keys ...agent.AddedKey) {
	t.Helper()
	keyring := agent.NewKeyring()
	for _, key := range keys {
		require.NoError(t, keyring.Add(key))
	}
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = agent.ServeAgent(keyring, conn)
			}()
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", socket)
}

// private reads a key for an agent.
func (s *server) private(t *testing.T, name string) agent.AddedKey {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	require.NoError(t, err)
	var key any
	if name == "locked" {
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(raw, []byte("passphrase-canary"))
	} else {
		key, err = ssh.ParseRawPrivateKey(raw)
	}
	require.NoError(t, err)
	return agent.AddedKey{PrivateKey: key}
}

// strangers are keys that nobody knows.
func strangers(t *testing.T, count int) []agent.AddedKey {
	t.Helper()
	var keys []agent.AddedKey
	for range count {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		keys = append(keys, agent.AddedKey{PrivateKey: private})
	}
	return keys
}

// endless is input without an end: a command that reads it ends when its session does, and leaves nothing behind.
func endless(t *testing.T) io.Reader {
	t.Helper()
	reader, writer := io.Pipe()
	t.Cleanup(func() { writer.Close() })
	return reader
}

// write puts a file into a folder of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// sshConfig writes ~/.ssh/config; call it after config, which makes the home folder.
func sshConfig(t *testing.T, text string) {
	t.Helper()
	folder := filepath.Join(os.Getenv("HOME"), ".ssh")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config"), []byte(text), 0o600))
}
