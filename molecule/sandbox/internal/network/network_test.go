package network

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASubnetIsFreeUnlessARouteOverlapsIt(t *testing.T) {
	subnet := netip.MustParsePrefix("10.99.0.0/24")
	for name, c := range map[string]struct{ routes, says string }{
		"nothing":                    {`[]`, ""},
		"the default route":          {`[{"dst":"default","dev":"eth0"}]`, ""},
		"another network":            {`[{"dst":"10.98.0.0/24","dev":"eth0"}]`, ""},
		"our own bridge":             {`[{"dst":"10.99.0.0/24","dev":"wsu-1-br"}]`, ""},
		"the same network":           {`[{"dst":"10.99.0.0/24","dev":"eth0"}]`, "eth0 has a route to 10.99.0.0/24"},
		"a larger network":           {`[{"dst":"10.0.0.0/8","dev":"tun0"}]`, "tun0"},
		"an address inside it":       {`[{"dst":"10.99.0.7","dev":"eth1"}]`, "eth1"},
		"half the internet of a VPN": {`[{"dst":"0.0.0.0/1","dev":"tun0"}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkRoutes([]byte(c.routes), subnet, "wsu-1-br")
			if c.says == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, "SANDBOX_SUBNET")
		})
	}
}

func TestATakenPortIsNamedWithWhoHasIt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	address := netip.MustParseAddrPort(listener.Addr().String())
	err = CheckPort(address, "the API server")
	require.ErrorContains(t, err, strconv.Itoa(int(address.Port())))
	assert.ErrorContains(t, err, "the API server")
	if os.Geteuid() == 0 {
		assert.ErrorContains(t, err, "pid "+strconv.Itoa(os.Getpid()))
	}
	require.NoError(t, listener.Close())
	assert.NoError(t, CheckPort(address, "the API server"))
}

func TestTheHolderOfAPortIsReadFromSS(t *testing.T) {
	assert.Equal(t, "nginx (pid 812)", parseHolder(`LISTEN 0 511 0.0.0.0:6443 0.0.0.0:* users:(("nginx",pid=812,fd=6),("nginx",pid=813,fd=6))`))
	assert.Empty(t, parseHolder("LISTEN 0 511 0.0.0.0:6443 0.0.0.0:*"))
}
