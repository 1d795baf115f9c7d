package ssh

import (
	"bytes"
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
)

// chain is a host behind two bastions, each with its own keys, and each allowing no way but the next one.
type chain struct {
	first, second, target *server
	known                 string // what ~/.ssh/known_hosts says of the bastions
}

func startChain(t *testing.T) *chain {
	t.Helper()
	target := startServer(t, "LogLevel VERBOSE")
	second := startServer(t, "LogLevel VERBOSE", fmt.Sprintf("PermitOpen 127.0.0.1:%d", target.port))
	first := startServer(t, "LogLevel VERBOSE", fmt.Sprintf("PermitOpen 127.0.0.1:%d", second.port))
	return &chain{first: first, second: second, target: target, known: first.hostKey + "\n" + second.hostKey + "\n"}
}

// config is the target's, with a home in which the bastions are known and have entries of their own.
func (c *chain) config(t *testing.T) transport.Config {
	t.Helper()
	config := c.target.config(t)
	const entry = "Host %s\n HostName 127.0.0.1\n Port %d\n IdentityFile %s/user\n"
	sshConfig(t, fmt.Sprintf(entry, "first", c.first.port, c.first.dir)+fmt.Sprintf(entry, "second", c.second.port, c.second.dir))
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".ssh", "known_hosts"), []byte(c.known), 0o600))
	return config
}

func runs(t *testing.T, c transport.Connection) {
	t.Helper()
	var out bytes.Buffer
	sent := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	code, err := c.Run(t.Context(), transport.Command{Line: "cat", Stdin: bytes.NewReader(sent), Stdout: &out})
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.True(t, bytes.Equal(sent, out.Bytes()))
}

func TestAHostIsReachedThroughTwoBastions(t *testing.T) {
	servers := startChain(t)
	me := servers.target.config(t).User
	first := fmt.Sprintf("%s@127.0.0.1:%d", me, servers.first.port)
	second := fmt.Sprintf("%s@127.0.0.1:%d", me, servers.second.port)
	inner := fmt.Sprintf(`ssh -W %%h:%%p -q -i %s/user -p %d`, servers.first.dir, servers.first.port)
	keys := fmt.Sprintf("Host 127.0.0.1\n IdentityFile %s/user\n IdentityFile %s/user\n", servers.first.dir, servers.second.dir)
	byCommand := "Host second\n ProxyCommand " + inner + " " + me + "@127.0.0.1\n"
	for name, test := range map[string]struct{ arguments, file string }{
		"of the arguments":               {arguments: "-J first,second"},
		"of an option":                   {arguments: "-o ProxyJump=first,second"},
		"of an option with a blank":      {arguments: `-o "ProxyJump first,second"`},
		"of the file":                    {file: "Host 127.0.0.1\n ProxyJump first,second\n"},
		"each with its own in the file":  {arguments: "-J second", file: "Host second\n ProxyJump first\n"},
		"with users and ports":           {arguments: "-J " + first + ",ssh://" + second + "/", file: keys},
		"of a ProxyCommand":              {arguments: `-o ProxyCommand="ssh -W %h:%p -q second"`, file: "Host second\n ProxyJump first\n"},
		"of two":                         {arguments: `-o ProxyCommand="ssh -W %h:%p second"`, file: byCommand},
		"of a ProxyCommand with -J":      {arguments: `-o 'ProxyCommand=exec /usr/bin/ssh -J first -W [%h]:%p -o "User ` + me + `" second'`},
		"of a ProxyCommand of arguments": {arguments: `-o ProxyCommand='` + inner + " " + me + `@127.0.0.1 -W 127.0.0.1:1'`, file: ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := servers.config(t)
			entries, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".ssh", "config"))
			require.NoError(t, err)
			sshConfig(t, string(entries)+test.file)
			config.SSH.CommonArgs = test.arguments
			if strings.Contains(test.arguments, "-W 127.0.0.1:1") {
				_, err := Dial(t.Context(), config)
				assert.Equal(t, reason.ArgumentInvalid, reason.Of(err).Code, err)
				assert.ErrorContains(t, err, "-W %h:%p")
				return
			}
			runs(t, dial(t, config))
		})
	}
	for _, s := range []*server{servers.first, servers.second, servers.target} {
		assert.Contains(t, s.said.String(), "Accepted publickey for "+me)
	}
}

func TestABastionThatIsNotKnownOrDoesNotLetOneInIsNamed(t *testing.T) {
	servers := startChain(t)
	stranger := servers.target.key(t, "stranger", "")
	for name, test := range map[string]struct {
		change func(t *testing.T, c *transport.Config)
		code   reason.Code
		says   []string
	}{
		"an unknown key": {func(t *testing.T, c *transport.Config) {
			require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".ssh", "known_hosts"), []byte(servers.first.hostKey), 0o600))
		}, reason.HostKeyUnknown, []string{"bastion second"}},
		"another key": {func(t *testing.T, c *transport.Config) {
			text := strings.Fields(servers.first.hostKey)[0] + " " + stranger
			require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".ssh", "known_hosts"), []byte(text), 0o600))
		}, reason.HostKeyMismatch, []string{"bastion first"}},
		"the host's pin, which is not the bastion's": {func(t *testing.T, c *transport.Config) {
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(servers.target.public))
			require.NoError(t, err)
			c.SSH.HostKeyFingerprint = ssh.FingerprintSHA256(key)
			require.NoError(t, os.Remove(filepath.Join(os.Getenv("HOME"), ".ssh", "known_hosts")))
		}, reason.HostKeyUnknown, []string{"bastion first"}},
		"no key for it": {func(t *testing.T, c *transport.Config) {
			c.SSH.CommonArgs = fmt.Sprintf("-J 127.0.0.1:%d", servers.first.port)
		}, reason.AuthFailed, []string{"bastion 127.0.0.1", "~/.ssh/config"}},
		"nobody there": {func(t *testing.T, c *transport.Config) {
			c.SSH.CommonArgs = "-J 127.0.0.1:1,second"
		}, reason.HostUnreachable, []string{"bastion 127.0.0.1 (127.0.0.1:1)", "refused"}},
		"the host down behind it": {func(t *testing.T, c *transport.Config) {
			c.Port, c.SSH.CommonArgs = 1, "-J first"
		}, reason.HostUnreachable, []string{"win1 (127.0.0.1:1)", "through bastion first", "PermitOpen"}},
		"a ring": {func(t *testing.T, c *transport.Config) {
			sshConfig(t, "Host *\n ProxyJump first\n")
			c.SSH.CommonArgs = ""
		}, reason.ArgumentInvalid, []string{"through itself", "config:2"}},
		"a program in between": {func(t *testing.T, c *transport.Config) {
			sshConfig(t, "Host *\n ProxyCommand nc --proxy gate:3128 %h %p\n")
			c.SSH.CommonArgs = ""
		}, reason.ArgumentInvalid, []string{"nc --proxy gate:3128 %h %p", "config:2"}},
		"a shell in between": {func(t *testing.T, c *transport.Config) {
			c.SSH.CommonArgs = `-o ProxyCommand="ssh -W %h:%p first 2>/dev/null"`
		}, reason.ArgumentInvalid, []string{"2>/dev/null"}},
		"nc on the bastion": {func(t *testing.T, c *transport.Config) {
			c.SSH.CommonArgs = `-o ProxyCommand="ssh first nc %h %p"`
		}, reason.ArgumentInvalid, []string{"ssh first nc"}},
		"one whose key nobody is to check": {func(t *testing.T, c *transport.Config) {
			c.SSH.CommonArgs = `-o ProxyCommand="ssh -W %h:%p -o StrictHostKeyChecking=no first"`
		}, reason.ArgumentInvalid, []string{"bastion first", "anybody pose"}},
		"a condition that cannot be decided": {func(t *testing.T, c *transport.Config) {
			sshConfig(t, "Match exec \"true\"\n ProxyJump first\n")
			c.SSH.CommonArgs = ""
		}, reason.ArgumentInvalid, []string{"config:2", "Match exec"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := servers.config(t)
			config.SSH.CommonArgs = "-J first,second"
			test.change(t, &config)
			_, err := Dial(t.Context(), config)
			require.Error(t, err)
			assert.Equal(t, test.code, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, "win1")
			for _, says := range test.says {
				assert.ErrorContains(t, err, says)
			}
		})
	}
}

func TestABastionThatAllowsNoForwardingSaysSo(t *testing.T) {
	target, bastion := startServer(t), startServer(t, "AllowTcpForwarding no")
	config := target.config(t)
	config.SSH.KnownHostsFile = write(t, target.hostKey+"\n"+bastion.hostKey)
	config.SSH.CommonArgs = fmt.Sprintf(`-o ProxyCommand="ssh -W %%h:%%p -i %s/user -p %d 127.0.0.1"`, bastion.dir, bastion.port)
	_, err := Dial(t.Context(), config)
	assert.Equal(t, reason.HostUnreachable, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "AllowTcpForwarding")
}

func TestABastionsFirstKeyIsKeptAndAnotherOneRefused(t *testing.T) {
	target, bastion := startServer(t), startServer(t)
	config := target.config(t)
	config.SSH.HostKeyPolicy, config.SSH.KnownHostsFile = "accept-new", filepath.Join(t.TempDir(), "known_hosts")
	config.SSH.CommonArgs = fmt.Sprintf(`-o ProxyCommand="ssh -W %%h:%%p -i %s/user -p %d 127.0.0.1"`, bastion.dir, bastion.port)
	dial(t, config)
	kept, err := os.ReadFile(config.SSH.KnownHostsFile)
	require.NoError(t, err)
	assert.Equal(t, bastion.hostKey+"\n"+target.hostKey+"\n", string(kept))

	other := strings.Fields(bastion.hostKey)[0] + " " + bastion.key(t, "other", "")
	require.NoError(t, os.WriteFile(config.SSH.KnownHostsFile, []byte(other+"\n"+target.hostKey), 0o600))
	_, err = Dial(t.Context(), config)
	assert.Equal(t, reason.HostKeyMismatch, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "bastion 127.0.0.1")
}

func TestTheHostsPasswordAndKeyAreNotOfferedToABastion(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	note := func(what string) (*ssh.Permissions, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, what)
		return nil, errors.New("no")
	}
	bastion := startGoServer(t, &ssh.ServerConfig{
		PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return note("password " + string(password))
		},
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return note(ssh.FingerprintSHA256(key))
		},
		KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, _ := ask("", "", []string{"Password: "}, []bool{false})
			return note(fmt.Sprint("answers ", answers))
		},
	}, succeed)
	target := startServer(t)
	config := target.config(t)
	config.Password = "password-canary"
	config.SSH.KnownHostsFile = write(t, target.hostKey+"\n"+bastion.hostKey)
	config.SSH.CommonArgs = fmt.Sprintf("-J 127.0.0.1:%d", bastion.port)
	_, err := Dial(t.Context(), config)
	assert.Equal(t, reason.AuthFailed, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "bastion 127.0.0.1")
	mu.Lock()
	defer mu.Unlock()
	assert.Empty(t, asked)
}

func TestASilentHopIsNoticedAndNamed(t *testing.T) {
	target, bastion := startServer(t), startServer(t)
	for name, silent := range map[string]string{"the bastion": "bastion 127.0.0.1", "the host": "host win1 (127.0.0.1:"} {
		t.Run(name, func(t *testing.T) {
			config := target.config(t)
			toBastion, toTarget := newLine(t, bastion.port), newLine(t, target.port)
			rename := func(s *server, l *line) string {
				return strings.Replace(s.hostKey, fmt.Sprint(s.port), fmt.Sprint(l.port), 1)
			}
			config.Port = toTarget.port
			config.SSH.KnownHostsFile = write(t, rename(target, toTarget)+"\n"+rename(bastion, toBastion))
			config.SSH.CommonArgs = fmt.Sprintf(`-o ProxyCommand="ssh -W %%h:%%p -i %s/user -p %d 127.0.0.1"`, bastion.dir, toBastion.port)
			s, err := newSettings(config)
			require.NoError(t, err)
			s.keepAlive = pace{every: 100 * time.Millisecond, within: 2 * time.Second}
			s.via.keepAlive = s.keepAlive
			if name == "the host" {
				s.via.keepAlive.every = time.Hour
			}
			c, err := open(t.Context(), s)
			require.NoError(t, err)
			defer c.Close()
			started := &signal{seen: make(chan struct{})}
			go func() {
				<-started.seen
				if name == "the bastion" {
					toBastion.cut()
				} else {
					toTarget.cut()
				}
			}()
			_, err = c.Run(t.Context(), transport.Command{Line: "echo up; cat", Stdin: endless(t), Stdout: started})
			assert.Equal(t, reason.ConnectionLost, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, silent)
			assert.ErrorContains(t, err, "does not answer")
			_, err = c.Run(t.Context(), transport.Command{Line: "true"})
			assert.ErrorContains(t, err, silent, "and whoever comes afterwards hears the same")
		})
	}
}

// signal tells of the first output.
type signal struct {
	seen chan struct{}
	once sync.Once
}

func (s *signal) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.seen) })
	return len(p), nil
}

func TestClosingEndsEveryHop(t *testing.T) {
	servers := startChain(t)
	config := servers.config(t)
	config.SSH.CommonArgs = "-J first,second"
	c, err := Dial(t.Context(), config)
	require.NoError(t, err)
	runs(t, c)
	ends := func(s *server) int {
		said := s.said.String()
		return strings.Count(said, "Connection closed by") + strings.Count(said, "Connection reset by") + strings.Count(said, "Disconnected from")
	}
	all := []*server{servers.first, servers.second, servers.target}
	var before []int
	for _, s := range all {
		before = append(before, ends(s))
	}
	require.NoError(t, c.Close())
	for i, s := range all {
		assert.Eventually(t, func() bool { return ends(s) > before[i] }, 30*time.Second, 20*time.Millisecond)
	}
	_, err = c.Run(t.Context(), transport.Command{Line: "true"})
	assert.Equal(t, reason.ConnectionLost, reason.Of(err).Code, err)
	require.NoError(t, c.Close(), "twice is no error")
}
