package ssh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

func TestAHostKeyIsKnownInEveryWayThatOpenSSHHas(t *testing.T) {
	s := startServer(t)
	hashed := write(t, s.hostKey+"\n")
	out, err := exec.Command("ssh-keygen", "-H", "-f", hashed).CombinedOutput()
	require.NoError(t, err, string(out))
	raw, err := os.ReadFile(hashed)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "127.0.0.1")
	for name, test := range map[string]struct{ known, arguments string }{
		"hashed":                            {known: string(raw)},
		"as one name of several":            {known: fmt.Sprintf("other,[127.0.0.1]:%d,!never %s", s.port, s.public)},
		"by a pattern":                      {known: "[127.0.*]:* " + s.public},
		"by a pattern of everything":        {known: "* " + s.public},
		"without the port":                  {known: "127.0.0.1 " + s.public},
		"under an alias, which has no port": {known: "windows-1 " + s.public, arguments: "-o HostKeyAlias=Windows-1"},
		"beside lines that are damaged or of a kind to come": {
			known: "elsewhere ssh-ed25519 AAAA\nhost 1024 35 1234\n" + fmt.Sprintf("[127.0.0.1]:%d ssh-future AAAAC3NzaC1lZDI1NTE5\n", s.port) + s.hostKey,
		},
		"in the system's file": {arguments: "-o GlobalKnownHostsFile=" + write(t, s.hostKey)},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.config(t)
			config.SSH.KnownHostsFile, config.SSH.CommonArgs = write(t, test.known), test.arguments
			dial(t, config)
		})
	}
}

func TestAHostKeyIsRefused(t *testing.T) {
	s := startServer(t)
	other := s.key(t, "other", "")
	const keep = "-o StrictHostKeyChecking=accept-new"
	at := strings.Fields(s.hostKey)[0]
	for name, test := range map[string]struct {
		known, arguments string
		code             reason.Code
		says             string
	}{
		"that is another host's":                   {"elsewhere " + s.public, "", reason.HostKeyUnknown, "is not known"},
		"that a pattern leaves out":                {"!" + at + ",!127.0.0.1,* " + s.public, "", reason.HostKeyUnknown, "is not known"},
		"that is not known under the alias":        {s.hostKey, "-o HostKeyAlias=windows-1", reason.HostKeyUnknown, "is not known"},
		"that has changed":                         {at + " " + other, "", reason.HostKeyMismatch, ":1"},
		"that has changed, but not without port":   {at + " " + other + "\n127.0.0.1 " + s.public, "", reason.HostKeyMismatch, ":1"},
		"that is revoked, though known":            {s.hostKey + "\n@revoked * " + s.public, "", reason.HostKeyMismatch, "revoked"},
		"that a list has":                          {s.hostKey, "-o RevokedHostKeys=" + write(t, "# bad\n"+s.public), reason.HostKeyMismatch, "revoked"},
		"where RevokedHostKeys is not there":       {s.hostKey, "-o RevokedHostKeys=/no/such/list", reason.ArgumentInvalid, "/no/such/list"},
		"where RevokedHostKeys is binary":          {s.hostKey, "-o RevokedHostKeys=" + write(t, "SSHKRL\n\x00"), reason.ArgumentInvalid, "binary"},
		"without the authority's certificate":      {"@cert-authority * " + other, keep, reason.HostKeyMismatch, ""},
		"that is the authority's own":              {"@cert-authority * " + s.public, keep, reason.HostKeyMismatch, "without a certificate"},
		"where the line about the host is damaged": {at + " ssh-ed25519 AAAA", keep, reason.ArgumentInvalid, ":1"},
		"where a line that revokes is damaged":     {s.hostKey + "\n@revoked * ssh-ed25519 AAAA", "", reason.ArgumentInvalid, ":2"},
		"where a line has an alien marker":         {"@cert-autority * " + s.public, "", reason.ArgumentInvalid, "@cert-autority"},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.config(t)
			config.SSH.KnownHostsFile, config.SSH.CommonArgs = write(t, test.known), test.arguments
			_, err := Dial(t.Context(), config)
			require.Error(t, err)
			assert.Equal(t, test.code, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, "win1")
			kept, err := os.ReadFile(config.SSH.KnownHostsFile)
			require.NoError(t, err)
			assert.Equal(t, test.known, string(kept), "nothing is added")
		})
	}
}

// certify makes the server's host certificate, by an authority whose kind is not the key's.
func (s *server) certify(t *testing.T, certificate ssh.Certificate) (authority string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	certificate.Key, _, _, _, err = ssh.ParseAuthorizedKey([]byte(s.public))
	require.NoError(t, err)
	require.NoError(t, certificate.SignCert(rand.Reader, signer))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "host-cert.pub"), ssh.MarshalAuthorizedKey(&certificate), 0o600))
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func TestAHostCertificateIsTrustedWhereItsAuthorityIs(t *testing.T) {
	const keep = "-o StrictHostKeyChecking=accept-new"
	hour := uint64(time.Hour / time.Second)
	now := uint64(time.Now().Unix())
	valid := ssh.Certificate{CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidAfter: now - hour, ValidBefore: now + hour}
	names := func(list ...string) func(*ssh.Certificate) {
		return func(c *ssh.Certificate) { c.ValidPrincipals = list }
	}
	for name, test := range map[string]struct {
		change    func(*ssh.Certificate)
		known     string // AUTHORITY, KEY: as of this server
		arguments string
		code      reason.Code
		says      string
	}{
		"for its port":                      {known: "@cert-authority [127.0.0.1]:* AUTHORITY"},
		"for the address":                   {known: "@cert-authority 127.0.0.* AUTHORITY"},
		"for everything":                    {known: "@cert-authority * AUTHORITY"},
		"of a name by pattern":              {known: "@cert-authority * AUTHORITY", change: names("a", "127.0.0.?")},
		"of the alias":                      {known: "@cert-authority * AUTHORITY", arguments: "-o HostKeyAlias=w1", change: names("w1")},
		"or the key by itself":              {known: "127.0.0.1 KEY"},
		"but not another name's":            {change: names("127.0.0.2"), code: reason.HostKeyMismatch, says: "principal"},
		"but not when it has expired":       {change: func(c *ssh.Certificate) { c.ValidBefore = now - 60 }, code: reason.HostKeyMismatch, says: "expired"},
		"but not before its time":           {change: func(c *ssh.Certificate) { c.ValidAfter = now + 600 }, code: reason.HostKeyMismatch, says: "not yet valid"},
		"but not for other hosts":           {known: "@cert-authority *.example.com AUTHORITY", code: reason.HostKeyUnknown},
		"but not a revoked authority":       {known: "@cert-authority * AUTHORITY\n@revoked * AUTHORITY", code: reason.HostKeyMismatch, says: "revoked"},
		"but not a revoked key":             {known: "@cert-authority * AUTHORITY\n@revoked * KEY", code: reason.HostKeyMismatch, says: "revoked"},
		"but no other authority's":          {known: "@cert-authority * OTHER", arguments: keep, code: reason.HostKeyMismatch, says: "without a certificate by"},
		"which no pinned key needs":         {known: "# nothing", arguments: "PIN"},
		"whose key is kept where it is not": {known: "# nothing", arguments: keep},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			certificate := valid
			if test.change != nil {
				test.change(&certificate)
			}
			authority := s.certify(t, certificate)
			s.start(t, "HostCertificate DIR/host-cert.pub")
			config := s.config(t)
			known := firstOf(test.known, "@cert-authority * AUTHORITY")
			config.SSH.KnownHostsFile = write(t, strings.NewReplacer("AUTHORITY", authority, "KEY", s.public, "OTHER", s.key(t, "other", "")).Replace(known))
			config.SSH.CommonArgs = test.arguments
			if test.arguments == "PIN" {
				key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.public))
				require.NoError(t, err)
				config.SSH.CommonArgs, config.SSH.HostKeyFingerprint = "", ssh.FingerprintSHA256(key)
			}
			c, err := Dial(t.Context(), config)
			if test.code == "" {
				require.NoError(t, err)
				c.Close()
				return
			}
			require.Error(t, err)
			assert.Equal(t, test.code, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestWhatAFirstContactKeepsIsWhatOpenSSHKeeps(t *testing.T) {
	s := startServer(t)
	for name, arguments := range map[string]string{"by address": "", "by alias": "-o HostKeyAlias=windows-1"} {
		t.Run(name, func(t *testing.T) {
			config := s.config(t)
			config.SSH.HostKeyPolicy, config.SSH.CommonArgs = "accept-new", arguments
			config.SSH.KnownHostsFile = filepath.Join(t.TempDir(), "known_hosts")
			dial(t, config)
			list := []string{
				"-F", "none", "-p", fmt.Sprint(s.port), "-i", config.SSH.PrivateKeyFile, "-o", "UserKnownHostsFile=" + config.SSH.KnownHostsFile,
				"-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes",
			}
			list = append(append(list, strings.Fields(arguments)...), config.User+"@127.0.0.1", "echo", "trusted")
			out, err := exec.Command("ssh", list...).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, "trusted\n", string(out))

			// Another machine at this address afterwards.
			another := startServer(t)
			moved := newLine(t, another.port)
			raw, err := os.ReadFile(config.SSH.KnownHostsFile)
			require.NoError(t, err)
			text := strings.ReplaceAll(string(raw), fmt.Sprintf(":%d ", s.port), fmt.Sprintf(":%d ", moved.port))
			changed := transport.Config{
				InventoryHostname: "win1", Host: "127.0.0.1", Port: moved.port, User: config.User,
				SSH: transport.SSHConfig{
					PrivateKeyFile: filepath.Join(another.dir, "user"), KnownHostsFile: write(t, text), HostKeyPolicy: "accept-new", CommonArgs: arguments,
				},
			}
			_, err = Dial(t.Context(), changed)
			assert.Equal(t, reason.HostKeyMismatch, reason.Of(err).Code, err)
			assert.NotContains(t, another.said.String(), "Accepted", "nothing was offered to it")
		})
	}
}
