package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
	tcp "wsu.windows/tests/line"
)

func TestACommandHasStreamsAndAnExitCode(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	var out, errs bytes.Buffer
	code, err := c.Run(t.Context(), transport.Command{Line: "cat; echo oh >&2; exit 7", Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs})
	require.NoError(t, err)
	assert.Equal(t, 7, code)
	assert.Equal(t, "hello", out.String())
	assert.Equal(t, "oh\n", errs.String())

	sent := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	out.Reset()
	code, err = c.Run(t.Context(), transport.Command{Line: "cat", Stdin: bytes.NewReader(sent), Stdout: &out})
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.True(t, bytes.Equal(sent, out.Bytes()))
}

func TestACommandThatDoesNotReadItsInputStillEnds(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	code, err := c.Run(t.Context(), transport.Command{Line: "exit 3", Stdin: endless(t)})
	require.NoError(t, err)
	assert.Equal(t, 3, code)
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("it is too much") }

func TestACommandWhoseOutputIsRefusedIsEnded(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	_, err := c.Run(t.Context(), transport.Command{Line: "yes", Stdout: full{}})
	assert.True(t, reason.Is(err, reason.HostOutputInvalid), err)
	assert.ErrorContains(t, err, "too much")
	_, err = c.Run(t.Context(), transport.Command{Line: "true"})
	require.NoError(t, err, "the connection is still good")
}

func TestACancelledCommandEndsAtOnce(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err := c.Run(ctx, transport.Command{Line: "cat", Stdin: endless(t)})
	assert.True(t, reason.Is(err, reason.Interrupted), err)
}

func TestAServerThatGoesAwayIsALostConnection(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	_, err := c.Run(t.Context(), transport.Command{Line: "kill -9 $PPID; cat", Stdin: endless(t)})
	assert.True(t, reason.Is(err, reason.ConnectionLost), err)
}

func TestASlowLineIsNotTakenForADeadOne(t *testing.T) {
	const speed, windows = 512 << 10, 2 // a window, 2 MiB, is under way for 4 s
	server := startServer(t)
	slow, err := tcp.New(fmt.Sprintf("127.0.0.1:%d", server.port), 0)
	require.NoError(t, err)
	defer slow.Close()
	config := server.config(t)
	config.Port = slow.Port()
	config.SSH.KnownHostsFile = write(t, strings.Replace(server.hostKey, fmt.Sprint(server.port), fmt.Sprint(slow.Port()), 1))
	s, err := newSettings(config)
	require.NoError(t, err)
	s.keepAlive = pace{every: 100 * time.Millisecond, within: 2 * time.Second}
	c, err := open(t.Context(), s)
	require.NoError(t, err)
	defer c.Close()
	slow.Speed(speed)
	var out bytes.Buffer
	code, err := c.Run(t.Context(), transport.Command{Line: "wc -c", Stdin: bytes.NewReader(make([]byte, windows*(2<<20))), Stdout: &out})
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, fmt.Sprint(windows*(2<<20)), strings.TrimSpace(out.String()))
}

func TestTheFirstFileComesOverSFTPAndGoesAgain(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	folder := filepath.Join(t.TempDir(), "new", "folder")
	// On Linux a Windows path's drive is an ordinary folder: /tmp/... is what sftpPath makes of tmp\...
	path := strings.ReplaceAll(strings.TrimPrefix(folder, "/"), "/", `\`) + `\wmcb.exe`
	content := bytes.Repeat([]byte("wmcb"), 1<<20)
	way, err := c.PutFirst(t.Context(), path, bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	assert.Equal(t, "sftp", way)
	arrived, err := os.ReadFile(filepath.Join(folder, "wmcb.exe"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(content, arrived))
	require.NoError(t, c.Remove(t.Context(), path))
	require.NoError(t, c.Remove(t.Context(), path), "absent is no error")
	require.NoError(t, c.Remove(t.Context(), strings.TrimSuffix(path, `\wmcb.exe`)))
	assert.NoDirExists(t, folder)
}

func TestWhatKeepsOneFromLoggingIn(t *testing.T) {
	s := startServer(t)
	for name, test := range map[string]struct {
		change func(*transport.Config)
		code   reason.Code
		says   string
	}{
		"an unknown host key": {func(c *transport.Config) { c.SSH.KnownHostsFile = filepath.Join(s.dir, "none") }, reason.HostKeyUnknown, "SHA256:"},
		"a wrong pin":         {func(c *transport.Config) { c.SSH.HostKeyFingerprint = "SHA256:abc" }, reason.HostKeyMismatch, "SHA256:abc"},
		"a wrong key":         {func(c *transport.Config) { c.SSH.PrivateKeyFile = filepath.Join(s.dir, "host") }, reason.AuthFailed, "tried: key"},
		"a missing key":       {func(c *transport.Config) { c.SSH.PrivateKeyFile = "/no/such/key" }, reason.AuthFailed, "/no/such/key"},
		"no passphrase":       {func(c *transport.Config) { c.SSH.PrivateKeyFile = filepath.Join(s.dir, "locked") }, reason.AuthFailed, "needs a passphrase"},
		"a wrong passphrase": {func(c *transport.Config) {
			c.SSH.PrivateKeyFile, c.SSH.PrivateKeyPassphrase = filepath.Join(s.dir, "locked"), "canary"
		}, reason.AuthFailed, "the passphrase is wrong"},
		"known hosts that keep nothing": {func(c *transport.Config) {
			c.SSH.HostKeyPolicy, c.SSH.KnownHostsFile = "accept-new", "/dev/null"
		}, reason.ArgumentInvalid, "/dev/null is not a regular file"},
		"nobody there":        {func(c *transport.Config) { c.Port = 1 }, reason.HostUnreachable, "refused"},
		"no such name":        {func(c *transport.Config) { c.Host = "win1.invalid" }, reason.HostUnreachable, "cannot be resolved"},
		"checking turned off": {func(c *transport.Config) { c.SSH.CommonArgs = "-o StrictHostKeyChecking=no" }, reason.ArgumentInvalid, "accept-new"},
		"an option that nobody here knows": {func(c *transport.Config) {
			c.SSH.CommonArgs = "-o KexAlgorithms=x"
		}, reason.ArgumentInvalid, "KexAlgorithms is not supported"},
		"an unknown policy": {func(c *transport.Config) { c.SSH.HostKeyPolicy = "never" }, reason.ArgumentInvalid, "strict and accept-new"},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.config(t)
			test.change(&config)
			_, err := Dial(t.Context(), config)
			require.Error(t, err)
			assert.Equal(t, test.code, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, "win1")
			assert.NotContains(t, err.Error(), "canary")
		})
	}
}

func TestTheWaysOfLoggingIn(t *testing.T) {
	s := startServer(t)
	for name, change := range map[string]func(*transport.Config){
		"a key with its passphrase": func(c *transport.Config) {
			c.SSH.PrivateKeyFile, c.SSH.PrivateKeyPassphrase = filepath.Join(s.dir, "locked"), "passphrase-canary"
		},
		"a key named as OpenSSH would": func(c *transport.Config) {
			c.SSH.CommonArgs, c.SSH.PrivateKeyFile = "-i "+c.SSH.PrivateKeyFile+" -o ControlMaster=auto", ""
		},
		"known hosts named likewise": func(c *transport.Config) {
			c.SSH.CommonArgs, c.SSH.KnownHostsFile = "-o UserKnownHostsFile="+c.SSH.KnownHostsFile, ""
		},
		"a pinned host key": func(c *transport.Config) {
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(strings.SplitN(s.hostKey, " ", 2)[1]))
			require.NoError(t, err)
			c.SSH.KnownHostsFile, c.SSH.HostKeyFingerprint = "/no/such/file", ssh.FingerprintSHA256(key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.config(t)
			change(&config)
			dial(t, config)
		})
	}
}

func TestAFirstKeyIsKeptOnceByTwentyRunsAtOnceAndAnotherOneIsRefusedLater(t *testing.T) {
	s := startServer(t)
	config := s.config(t)
	config.SSH.HostKeyPolicy, config.SSH.KnownHostsFile = "accept-new", filepath.Join(t.TempDir(), "new", "known_hosts")
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			for { // sshd refuses some of many that have not logged in yet
				c, err := Dial(t.Context(), config)
				if reason.Is(err, reason.HostUnreachable) {
					continue
				}
				if assert.NoError(t, err) {
					c.Close()
				}
				return
			}
		})
	}
	wait.Wait()
	kept, err := os.ReadFile(config.SSH.KnownHostsFile)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(kept), "\n"))

	require.NoError(t, os.WriteFile(config.SSH.KnownHostsFile, []byte("elsewhere "+strings.SplitN(s.hostKey, " ", 2)[1]), 0o600)) // without a final newline
	dial(t, config)
	kept, err = os.ReadFile(config.SSH.KnownHostsFile)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(kept), "\n"))

	other := strings.SplitN(s.hostKey, " ", 2)[0] + " " + s.key(t, "other", "")
	require.NoError(t, os.WriteFile(config.SSH.KnownHostsFile, []byte(other+"\n"), 0o600))
	_, err = Dial(t.Context(), config)
	assert.True(t, reason.Is(err, reason.HostKeyMismatch), err)
}
