package pki

import (
	"net/netip"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenSSLReadsTheUserPrincipalNameOfAClientAndTheAddressOfAServer(t *testing.T) {
	ca, err := NewCA(t.TempDir(), "ca", "authority")
	require.NoError(t, err)
	for want, leaf := range map[string]Leaf{
		"othername: UPN::Administrator@localhost": {Name: "client", CommonName: "x", Client: true, UserPrincipal: "Administrator@localhost"},
		"IP Address:10.99.0.11":                   {Name: "server", CommonName: "x", Server: true, Addresses: []netip.Addr{netip.MustParseAddr("10.99.0.11")}},
	} {
		file, _, err := ca.Issue(leaf)
		require.NoError(t, err)
		said, err := exec.Command("openssl", "x509", "-in", file, "-noout", "-ext", "subjectAltName").CombinedOutput()
		require.NoError(t, err, string(said))
		assert.Contains(t, string(said), want)
		said, err = exec.Command("openssl", "verify", "-CAfile", ca.CertFile(), file).CombinedOutput()
		assert.NoError(t, err, string(said))
	}
}
