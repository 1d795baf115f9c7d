package kerberos

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return netip.MustParseAddrPort(listener.Addr().String())
}

func TestTheAdministratorLogsInAndGetsATicketForAHost(t *testing.T) {
	if _, err := os.Stat("/usr/sbin/krb5kdc"); err != nil {
		t.Skip("the package krb5-kdc is not installed")
	}
	dir := t.TempDir()
	server := Server{Dir: filepath.Join(dir, "kdc"), Config: filepath.Join(dir, "krb5.conf"), Address: freePort(t)}
	require.NoError(t, server.Create(t.Context(), "right: 1"))
	keytab := filepath.Join(dir, "keytab")
	require.NoError(t, server.Keytab(t.Context(), keytab, "winhost1", "10.99.0.11"))
	process, err := server.Start(filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, process.End(context.Background(), time.Second)) })
	require.NoError(t, server.Await(t.Context(), process))

	said, err := kinit(server, dir, "wrong")
	require.Error(t, err, said)
	said, err = kinit(server, dir, "right: 1")
	require.NoError(t, err, said)
	for _, service := range []string{"HTTP/10.99.0.11", "WSMAN/winhost1"} {
		ticket := exec.Command("kvno", "-k", keytab, service) // decrypts the ticket with the host's key
		ticket.Env = client(server, dir)
		out, err := ticket.CombinedOutput()
		assert.NoError(t, err, string(out))
	}
}

func client(server Server, dir string) []string {
	return append(os.Environ(), "KRB5_CONFIG="+server.Config, "KRB5CCNAME=FILE:"+filepath.Join(dir, "ccache"))
}

func kinit(server Server, dir, password string) (string, error) {
	command := exec.Command("kinit", User)
	command.Env, command.Stdin = client(server, dir), strings.NewReader(password+"\n")
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestAnOrderThatIsRefusedIsAnError(t *testing.T) {
	if _, err := os.Stat("/usr/sbin/kadmin.local"); err != nil {
		t.Skip("the package krb5-admin-server is not installed")
	}
	dir := t.TempDir()
	server := Server{Dir: filepath.Join(dir, "kdc"), Config: filepath.Join(dir, "krb5.conf"), Address: freePort(t)}
	require.NoError(t, server.Create(t.Context(), "x"))
	assert.ErrorContains(t, server.Keytab(t.Context(), filepath.Join(dir, "no", "such", "folder", "keytab"), "h"), "kadmin.local")
	assert.ErrorContains(t, server.Create(t.Context(), `quote"`), "quotes")
}
