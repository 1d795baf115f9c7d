package winrm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// made gives the settings of a host, which each case changes.
func made(t *testing.T, change func(*transport.Config)) (*settings, error) {
	t.Helper()
	config := transport.Config{InventoryHostname: "win1", Host: "192.0.2.1", User: "Administrator", Password: "secret"}
	change(&config)
	return newSettings(config)
}

func TestTheEndpointFollowsAnsible(t *testing.T) {
	for want, change := range map[string]func(*transport.Config){
		"https://192.0.2.1:5986/wsman": func(*transport.Config) {},
		"http://192.0.2.1:5985/wsman":  func(c *transport.Config) { c.Port, c.WinRM.Transports = 5985, []string{"ntlm"} },
		"http://192.0.2.1:5985/w": func(c *transport.Config) {
			c.WinRM.Scheme, c.WinRM.Path, c.WinRM.Transports = "http", "/w", []string{"ntlm"}
		},
		"https://[2001:db8::1]:443/wsman": func(c *transport.Config) {
			c.Host, c.Port = "2001:db8::1", 443
		},
	} {
		s, err := made(t, change)
		require.NoError(t, err)
		assert.Equal(t, want, s.endpoint.String())
	}
}

func TestTheLoginFollowsAnsible(t *testing.T) {
	for want, change := range map[string]func(*transport.Config){
		"basic":         func(*transport.Config) {},
		"kerberos":      func(c *transport.Config) { c.User = "admin@EXAMPLE.COM" },
		"ntlm":          func(c *transport.Config) { c.WinRM.Transports = []string{"negotiate"} },
		"kerberos ntlm": func(c *transport.Config) { c.WinRM.Transports = []string{"kerberos", "NTLM", "ntlm"} },
	} {
		s, err := made(t, change)
		require.NoError(t, err)
		assert.Equal(t, want, strings.Join(s.logins, " "))
	}
}

func TestMessagesAreSealedWhereThereIsNoTLS(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*transport.Config)
		sealed bool
	}{
		"ntlm over http":          {func(c *transport.Config) { c.Port, c.WinRM.Transports = 5985, []string{"ntlm"} }, true},
		"kerberos over http":      {func(c *transport.Config) { c.Port, c.WinRM.Transports = 5985, []string{"kerberos"} }, true},
		"ntlm over https":         {func(c *transport.Config) { c.WinRM.Transports = []string{"ntlm"} }, false},
		"ntlm over https, always": {func(c *transport.Config) { c.WinRM.Transports, c.WinRM.MessageEncryption = []string{"ntlm"}, "always" }, true},
	} {
		s, err := made(t, c.change)
		require.NoError(t, err, name)
		assert.Equal(t, c.sealed, s.seal, name)
	}
}

func TestWhatWouldExposeCredentialsOrTrustAnybodyIsRefused(t *testing.T) {
	for says, change := range map[string]func(*transport.Config){
		"even the password": func(c *transport.Config) { c.Port = 5985 },
		"show everything on the network": func(c *transport.Config) {
			c.Port, c.WinRM.Transports, c.WinRM.MessageEncryption = 5985, []string{"ntlm"}, "never"
		},
		"any machine could pose": func(c *transport.Config) { c.WinRM.ServerCertValidation = "ignore" },
	} {
		_, err := made(t, change)
		require.ErrorContains(t, err, says)
		assert.True(t, reason.Is(err, reason.ArgumentInvalid))
		assert.NotContains(t, err.Error(), "secret")
		_, err = made(t, func(c *transport.Config) { change(c); c.WinRM.InsecureExposeCredentials = true })
		assert.NoError(t, err, "a variable with a frightening name allows it")
	}
	_, err := made(t, func(c *transport.Config) {
		c.WinRM.ServerCertValidation, c.WinRM.CertificateFingerprint = "ignore", "SHA256:"+strings.Repeat("AB:", 31)+"AB"
	})
	assert.NoError(t, err, "a pinned certificate needs no authority")
}

func TestAVariableThatCannotBeIsNamed(t *testing.T) {
	for names, change := range map[string]func(*transport.Config){
		"ansible_winrm_scheme":                 func(c *transport.Config) { c.WinRM.Scheme = "ftp" },
		"ansible_winrm_transport":              func(c *transport.Config) { c.WinRM.Transports = []string{"credssp"} },
		"ansible_winrm_message_encryption":     func(c *transport.Config) { c.WinRM.MessageEncryption = "sometimes" },
		"ansible_winrm_server_cert_validation": func(c *transport.Config) { c.WinRM.ServerCertValidation = "maybe" },
		"ansible_winrm_ca_trust_path":          func(c *transport.Config) { c.WinRM.CATrustPath = "/nowhere" },
		"ansible_winrm_cert_pem":               func(c *transport.Config) { c.WinRM.Transports = []string{"certificate"} },
		"ansible_winrm_read_timeout_sec":       func(c *transport.Config) { c.WinRM.ReadTimeoutSeconds = 5 },
		"ansible_winrm_kerberos_delegation": func(c *transport.Config) {
			c.WinRM.Transports, c.WinRM.KerberosDelegation = []string{"kerberos"}, true
		},
		"ansible_password":                    func(c *transport.Config) { c.Password = "" },
		"wsu_winrm_certificate_fingerprint":   func(c *transport.Config) { c.WinRM.CertificateFingerprint = "SHA1:abc" },
		"win1: ansible_winrm_transport: a cl": func(c *transport.Config) { c.Port, c.WinRM.Transports = 5985, []string{"certificate"} },
	} {
		_, err := made(t, change)
		assert.ErrorContains(t, err, names)
	}
}
