package winrm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// endpoint is a WinRM service that is not ours: the sandbox's, whose logins and seals are pyspnego's, with commands in /bin/sh.
type endpoint struct {
	http, https int
	tls         string
}

// serve starts one. WSU_TEST_WINRM is the Python that has what the endpoint needs; make test sets it.
func serve(t *testing.T) endpoint {
	t.Helper()
	python := os.Getenv("WSU_TEST_WINRM")
	if python == "" {
		t.Skip("WSU_TEST_WINRM is not set: WinRM's logins and commands are NOT tested")
	}
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	require.NoError(t, os.WriteFile(users, []byte(":Administrator:secret\n"), 0o600))
	e := endpoint{http: freePort(t), https: freePort(t), tls: filepath.Join(dir, "tls")}
	cmd := exec.Command(python, "-m", "winrm_endpoint", "--address", "127.0.0.1", "--http", fmt.Sprint(e.http), "--https", fmt.Sprint(e.https), //nolint:gosec // a test's program
		"--users", users, "--tls-dir", e.tls, "--run", "/bin/sh", "-c")
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../../molecule/sandbox/winrm")
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it ends its commands
		_ = cmd.Wait()
	})
	for _, port := range []int{e.http, e.https} {
		require.Eventually(t, func() bool {
			line, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				line.Close()
			}
			return err == nil
		}, 30*time.Second, 20*time.Millisecond, "see "+log.Name())
	}
	return e
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is a TCP listener
}

// over gives the connection's variables for a login.
func (e endpoint) over(scheme string, login string) transport.Config {
	config := transport.Config{InventoryHostname: "win1", Host: "127.0.0.1", Port: e.http, User: "Administrator", Password: "secret"}
	config.WinRM.Scheme, config.WinRM.Transports = scheme, []string{login}
	if scheme == "https" {
		config.Port, config.WinRM.CATrustPath = e.https, filepath.Join(e.tls, "winrm-ca.crt")
	}
	if login == certificate {
		config.WinRM.CertPEM, config.WinRM.CertKeyPEM = filepath.Join(e.tls, "winrm-client.crt"), filepath.Join(e.tls, "winrm-client.key")
	}
	return config
}

func dial(t *testing.T, config transport.Config) transport.Connection {
	t.Helper()
	c, err := Dial(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func bytesOf(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same bytes in every run
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	return content
}

func TestCommandsRunWithEachLogin(t *testing.T) {
	e := serve(t)
	always := e.over("https", ntlm)
	always.WinRM.MessageEncryption = "always"
	several := e.over("https", certificate)
	several.WinRM.Transports, several.WinRM.CertPEM, several.WinRM.CertKeyPEM = []string{"kerberos", "basic"}, "", ""
	for name, config := range map[string]transport.Config{
		"basic inside TLS": e.over("https", basic), "NTLM inside TLS": e.over("https", ntlm), "NTLM sealed inside TLS": always,
		"NTLM sealed": e.over("http", ntlm), "certificate": e.over("https", certificate), "the second login of the list": several,
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, config)
			var out, said bytes.Buffer
			code, err := c.Run(t.Context(), transport.Command{Line: "echo 'a<b & c'; echo wrong >&2; exit 42", Stdout: &out, Stderr: &said})
			require.NoError(t, err)
			assert.Equal(t, 42, code)
			assert.Equal(t, "a<b & c\n", out.String())
			assert.Equal(t, "wrong\n", said.String())

			content := bytesOf(3*sendSize + 17)
			out.Reset()
			code, err = c.Run(t.Context(), transport.Command{Line: "cat", Stdin: bytes.NewReader(content), Stdout: &out})
			require.NoError(t, err)
			assert.Zero(t, code)
			assert.True(t, bytes.Equal(content, out.Bytes()), "bytes come back as they were sent")
		})
	}
}

func TestARefusedLoginSaysSo(t *testing.T) {
	e := serve(t)
	for _, config := range []transport.Config{e.over("http", ntlm), e.over("https", ntlm), e.over("https", basic)} {
		config.Password = "wrong-password"
		_, err := Dial(t.Context(), config)
		assert.True(t, reason.Is(err, reason.AuthFailed), "%v", err)
		assert.NotContains(t, fmt.Sprint(err), "wrong-password")
	}
}

func TestAHostThatIsAnotherOneIsRefused(t *testing.T) {
	e := serve(t)
	config := e.over("https", ntlm)
	config.WinRM.CATrustPath = ""
	_, err := Dial(t.Context(), config)
	require.True(t, reason.Is(err, reason.HostKeyUnknown), "%v", err)
	_, shown, _ := strings.Cut(err.Error(), "its certificate ")
	config.WinRM.CertificateFingerprint, _, _ = strings.Cut(shown, " ")
	dial(t, config)
	config.WinRM.CertificateFingerprint = "SHA256:" + strings.Repeat("00", 32)
	_, err = Dial(t.Context(), config)
	assert.True(t, reason.Is(err, reason.HostKeyMismatch), "%v", err)
	config.WinRM.Scheme, config.Port = "https", e.http
	_, err = Dial(t.Context(), config)
	assert.ErrorContains(t, err, "there is no TLS at this port")
}

func TestACommandThatStopsReadingEndsWithItsOwnCode(t *testing.T) {
	c := dial(t, serve(t).over("https", basic))
	endless, feed := io.Pipe()
	go func() {
		for {
			if _, err := feed.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}()
	code, err := c.Run(t.Context(), transport.Command{Line: "head -c 1000000 >/dev/null; exit 7", Stdin: endless})
	require.NoError(t, err)
	assert.Equal(t, 7, code)
	endless.Close()
	code, err = c.Run(t.Context(), transport.Command{Line: "exit 3"})
	require.NoError(t, err, "the connection is still of use")
	assert.Equal(t, 3, code)
}

func TestACommandThatTakesTooLongIsEnded(t *testing.T) {
	c := dial(t, serve(t).over("http", ntlm))
	alive := filepath.Join(t.TempDir(), "alive")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Run(ctx, transport.Command{Line: "while true; do date +%N >" + alive + "; sleep 0.05; done"})
	require.True(t, reason.Is(err, reason.Timeout), "%v", err)
	stopped := func() bool {
		first, _ := os.ReadFile(alive)
		time.Sleep(200 * time.Millisecond)
		second, _ := os.ReadFile(alive)
		return bytes.Equal(first, second)
	}
	assert.Eventually(t, stopped, 20*time.Second, time.Millisecond)
}

func TestOutputThatNobodyTakesEndsTheCommand(t *testing.T) {
	c := dial(t, serve(t).over("https", ntlm))
	_, err := c.Run(t.Context(), transport.Command{Line: "yes", Stdout: refusing{}})
	assert.True(t, reason.Is(err, reason.HostOutputInvalid), "%v", err)
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestTheFirstFileComesThroughTar(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("no tar: PutFirst is NOT tested")
	}
	c := dial(t, serve(t).over("https", basic)).(*connection) //nolint:forcetypeassert // it is
	content := bytesOf(2 << 20)
	folder := t.TempDir()
	reader, writer := io.Pipe()
	go func() {
		writer.CloseWithError(transport.WriteTar(writer, "in/wmcb.exe", bytes.NewReader(content), int64(len(content))))
	}()
	require.NoError(t, c.put(t.Context(), "wmcb.exe", "tar", "tar -x -z -f - -C "+folder, reader))
	got, err := os.ReadFile(filepath.Join(folder, "in", "wmcb.exe"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(content, got))
}

// line passes bytes on until it is told to be silent or cut.
type line struct {
	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	silent   bool
}

func newLine(t *testing.T, to int) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{listener: listener}
	t.Cleanup(func() { listener.Close(); l.cut() })
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
			l.mu.Lock()
			l.open = append(l.open, near, far)
			l.mu.Unlock()
			go l.pass(near, far)
			go l.pass(far, near)
		}
	}()
	return l
}

func (l *line) port() int { return l.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it is a TCP listener

func (l *line) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		silent := l.silent
		l.mu.Unlock()
		if err == nil && !silent {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		c.Close()
	}
	l.open = nil
}

func (l *line) hush(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
}

func TestADeadPeerIsNoticedAndACutLineIsALostConnection(t *testing.T) {
	e := serve(t)
	for name, breaks := range map[string]func(*line){"silent": func(l *line) { l.hush(true) }, "cut": (*line).cut} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t, e.http)
			config := e.over("http", ntlm)
			config.Port, config.WinRM.OperationTimeoutSeconds, config.WinRM.ReadTimeoutSeconds = l.port(), 1, 3
			c, err := Dial(t.Context(), config)
			require.NoError(t, err)
			reader, writer := io.Pipe()
			go func() {
				_, _ = bufio.NewReader(reader).ReadString('\n')
				breaks(l)
			}()
			_, err = c.Run(t.Context(), transport.Command{Line: "echo started; sleep 1000", Stdout: writer})
			require.True(t, reason.Is(err, reason.ConnectionLost), "%v", err)
			l.hush(false)
			require.NoError(t, c.Close())
		})
	}
}

func TestAShellThatACutLeftBehindIsEndedByTheNextConnection(t *testing.T) {
	e := serve(t)
	l := newLine(t, e.http)
	config := e.over("http", ntlm)
	config.Port = l.port()
	c, err := Dial(t.Context(), config)
	require.NoError(t, err)
	alive := filepath.Join(t.TempDir(), "alive")
	started, output := io.Pipe()
	go func() {
		_, _ = bufio.NewReader(started).ReadString('\n')
		l.listener.Close()
		l.cut()
	}()
	_, err = c.Run(t.Context(), transport.Command{Line: "echo started; while true; do date +%N >" + alive + "; sleep 0.05; done", Stdout: output})
	require.True(t, reason.Is(err, reason.ConnectionLost), "%v", err)
	require.NoError(t, c.Close())
	orphans.mu.Lock()
	orphans.shells[fmt.Sprintf("127.0.0.1:%d", e.http)] = orphans.shells[fmt.Sprintf("127.0.0.1:%d", config.Port)] // the same host, another way
	orphans.mu.Unlock()
	dial(t, e.over("http", ntlm))
	assert.Eventually(t, func() bool {
		first, _ := os.ReadFile(alive)
		time.Sleep(200 * time.Millisecond)
		second, _ := os.ReadFile(alive)
		return bytes.Equal(first, second)
	}, 20*time.Second, time.Millisecond)
}

func TestADigestOfManyPiecesIsRight(t *testing.T) {
	c := dial(t, serve(t).over("http", ntlm))
	content := bytesOf(12 << 20)
	var out bytes.Buffer
	_, err := c.Run(t.Context(), transport.Command{Line: "sha256sum", Stdin: bytes.NewReader(content), Stdout: &out})
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%x  -\n", sha256.Sum256(content)), out.String())
}
