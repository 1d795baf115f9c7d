package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

func succeed(string, ssh.Channel) uint32 { return 0 }

func TestAPasswordLogsInOneWayOrTheOther(t *testing.T) {
	byPassword := &ssh.ServerConfig{PasswordCallback: func(who ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if who.User() != `CORP\admin` || string(password) != "password-canary" {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	byQuestion := &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		answers, err := ask("", "", []string{"Password: "}, []bool{false})
		if err != nil || len(answers) != 1 || answers[0] != "password-canary" {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	for name, config := range map[string]*ssh.ServerConfig{"password": byPassword, "keyboard-interactive": byQuestion} {
		t.Run(name, func(t *testing.T) {
			s := startGoServer(t, config, succeed)
			right := s.config(t)
			code, err := dial(t, right).Run(t.Context(), transport.Command{Line: "ver"})
			require.NoError(t, err)
			assert.Zero(t, code)

			wrong := right
			wrong.Password = "another-canary"
			_, err = Dial(t.Context(), wrong)
			assert.Equal(t, reason.AuthFailed, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, `CORP\admin`)
			assert.ErrorContains(t, err, "password")
			assert.NotContains(t, err.Error(), "canary")

			none := right
			none.SSH.CommonArgs = "-o PasswordAuthentication=no -o KbdInteractiveAuthentication=no"
			_, err = Dial(t.Context(), none)
			assert.ErrorContains(t, err, "tried: nothing")
		})
	}
}

func TestAHostThatAsksForMoreThanAPasswordDoesNotGetIt(t *testing.T) {
	var mu sync.Mutex
	var given []string
	s := startGoServer(t, &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		answers, err := ask("", "", []string{"Your name: "}, []bool{true})
		mu.Lock()
		defer mu.Unlock()
		given = append(given, answers...)
		return nil, err
	}}, succeed)
	_, err := Dial(t.Context(), s.config(t))
	assert.Equal(t, reason.AuthFailed, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "more than a password")
	mu.Lock()
	defer mu.Unlock()
	assert.Empty(t, given)
}

func TestTheAgentHoldsTheKey(t *testing.T) {
	s := startServer(t)
	for name, change := range map[string]func(t *testing.T, c *transport.Config){
		"and nothing names it": func(t *testing.T, c *transport.Config) {
			c.SSH.PrivateKeyFile = ""
			startAgent(t, append(strangers(t, 2), s.private(t, "user"))...)
		},
		"of a locked file": func(t *testing.T, c *transport.Config) {
			c.SSH.PrivateKeyFile = filepath.Join(s.dir, "locked")
			startAgent(t, append(strangers(t, 8), s.private(t, "locked"))...)
		},
		"of a public key's file, and is to use nothing else": func(t *testing.T, c *transport.Config) {
			c.SSH.PrivateKeyFile, c.SSH.CommonArgs = filepath.Join(s.dir, "user.pub"), "-o IdentitiesOnly=yes"
			startAgent(t, append(strangers(t, 8), s.private(t, "user"))...)
		},
		"and another socket than the environment's leads to it": func(t *testing.T, c *transport.Config) {
			c.SSH.PrivateKeyFile = ""
			startAgent(t, s.private(t, "user"))
			c.SSH.CommonArgs = `-o IdentityAgent="` + os.Getenv("SSH_AUTH_SOCK") + `"`
			t.Setenv("SSH_AUTH_SOCK", "/no/such/socket")
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.config(t)
			change(t, &config)
			dial(t, config)
		})
	}
}

func TestTooManyKeysAreARefusedLoginThatSaysHowToShowFewer(t *testing.T) {
	s := startServer(t, "MaxAuthTries 3")
	config := s.config(t)
	startAgent(t, append(strangers(t, 6), s.private(t, "user"))...)

	dial(t, config) // the file comes first

	agentOnly := config
	agentOnly.SSH.PrivateKeyFile = ""
	_, err := Dial(t.Context(), agentOnly)
	assert.Equal(t, reason.AuthFailed, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "7 keys of the agent")
	assert.ErrorContains(t, err, "IdentitiesOnly")

	wrong := config
	wrong.SSH.PrivateKeyFile, wrong.SSH.CommonArgs = filepath.Join(s.dir, "host"), "-o IdentitiesOnly=yes"
	_, err = Dial(t.Context(), wrong)
	assert.Equal(t, reason.AuthFailed, reason.Of(err).Code, err)
	assert.NotContains(t, err.Error(), "agent", "its keys are not offered")
}

func TestACertificateBesideTheKeyIsOffered(t *testing.T) {
	s := startServer(t, "AuthorizedKeysFile none", "TrustedUserCAKeys DIR/authority.pub")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	authority, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "authority.pub"), ssh.MarshalAuthorizedKey(authority.PublicKey()), 0o600))
	config := s.config(t)
	_, err = Dial(t.Context(), config)
	require.Equal(t, reason.AuthFailed, reason.Of(err).Code, "the key alone is not enough: %v", err)

	raw, err := os.ReadFile(filepath.Join(s.dir, "user.pub"))
	require.NoError(t, err)
	public, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	require.NoError(t, err)
	certificate := &ssh.Certificate{
		Key: public, CertType: ssh.UserCert, ValidPrincipals: []string{config.User}, ValidBefore: ssh.CertTimeInfinity,
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-pty": ""}},
	}
	require.NoError(t, certificate.SignCert(rand.Reader, authority))
	beside := filepath.Join(s.dir, "user-cert.pub")
	require.NoError(t, os.WriteFile(beside, ssh.MarshalAuthorizedKey(certificate), 0o600))
	dial(t, config)

	elsewhere := write(t, string(ssh.MarshalAuthorizedKey(certificate)))
	require.NoError(t, os.Remove(beside))
	config.SSH.CommonArgs = "-o CertificateFile=" + elsewhere
	dial(t, config)

	require.NoError(t, os.WriteFile(elsewhere, raw, 0o600))
	_, err = Dial(t.Context(), config)
	assert.ErrorContains(t, err, elsewhere+": it is no certificate")
}

func TestANamedKeyIsOfferedBeforeTheAgentsOnce(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	s := startGoServer(t, &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, ssh.FingerprintSHA256(key))
		return nil, errors.New("no")
	}, MaxAuthTries: -1}, succeed)
	keys := &server{dir: t.TempDir()}
	named, _, _, _, err := ssh.ParseAuthorizedKey([]byte(keys.key(t, "named", "")))
	require.NoError(t, err)
	config := s.config(t)
	config.Password = ""
	config.SSH.PrivateKeyFile = filepath.Join(keys.dir, "named")
	startAgent(t, append(strangers(t, 2), keys.private(t, "named"))...)
	_, err = Dial(t.Context(), config)
	assert.Equal(t, reason.AuthFailed, reason.Of(err).Code, err)
	mu.Lock()
	defer mu.Unlock()
	assert.Len(t, shown, 3)
	assert.Equal(t, ssh.FingerprintSHA256(named), shown[0])
}

func TestAServerThatHasNothingInCommonIsNotSaidToBeDown(t *testing.T) {
	s := startServer(t, "Ciphers aes256-cbc")
	_, err := Dial(t.Context(), s.config(t))
	assert.Equal(t, reason.ProtocolUnsupported, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "aes256-cbc")

	s = startServer(t)
	config := s.config(t)
	raw, err := os.ReadFile("testdata/ecdsa.pub")
	require.NoError(t, err)
	config.SSH.KnownHostsFile = write(t, strings.Fields(s.hostKey)[0]+" "+string(raw))
	_, err = Dial(t.Context(), config)
	assert.Equal(t, reason.HostKeyMismatch, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, config.SSH.KnownHostsFile+":1")
}
