package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "molecule", "sandbox"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "molecule", "sandbox", "go.mod"), nil, 0o644))
	return dir
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestWithoutAnEnvironmentTheDefaultsHold(t *testing.T) {
	dir := checkout(t)
	c, err := FromEnvironment(environment(nil), filepath.Join(dir, "molecule"))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, ".sandbox"), c.Dir)
	assert.Equal(t, 2, c.Hosts)
	assert.Equal(t, "10.99.0.1", c.Gateway().String())
	assert.Equal(t, "10.99.0.12", c.HostAddress(1).String())
	assert.Equal(t, "127.99.0.1", c.Loopback().String())
	assert.Equal(t, "https://10.99.0.1:6443", c.APIURL())
}

func TestAMistakeInTheEnvironmentIsNamed(t *testing.T) {
	dir := checkout(t)
	for name, c := range map[string]struct {
		variable, value, says string
	}{
		"hosts that are no number":    {"SANDBOX_HOSTS", "two", "SANDBOX_HOSTS"},
		"fewer hosts than none":       {"SANDBOX_HOSTS", "-1", "0 or more"},
		"more hosts than addresses":   {"SANDBOX_HOSTS", "300", "for 244 hosts"},
		"a subnet that is none":       {"SANDBOX_SUBNET", "10.99.0.0", "10.99.0.0/24"},
		"an address inside a network": {"SANDBOX_SUBNET", "10.99.0.7/24", "did you mean 10.99.0.0/24"},
		"a network of the internet":   {"SANDBOX_SUBNET", "8.8.8.0/24", "private"},
		"IPv6":                        {"SANDBOX_SUBNET", "fd00::/64", "IPv4"},
		"WinRM on no number":          {"SANDBOX_WINRM", "2,x", "as 2,3"},
		"WinRM on host 0":             {"SANDBOX_WINRM", "0", "from 1"},
		"the checkout as its folder":  {"SANDBOX_DIR", dir, "of its own"},
		"the root folder":             {"SANDBOX_DIR", "/", "of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := FromEnvironment(environment(map[string]string{c.variable: c.value}), dir)
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, c.variable)
		})
	}
}

func TestWinRMIsForAllHostsForSomeOrForNone(t *testing.T) {
	dir := checkout(t)
	for value, want := range map[string][2]bool{"": {false, false}, "all": {true, true}, "2": {false, true}, "1, 2": {true, true}} {
		c, err := FromEnvironment(environment(map[string]string{"SANDBOX_WINRM": value}), dir)
		require.NoError(t, err)
		assert.Equal(t, want, [2]bool{c.WinRM(0), c.WinRM(1)}, value)
		assert.Equal(t, value != "", c.AnyWinRM(), value)
	}
}

func TestTheLastHostStillHasAnAddressOfTheSubnet(t *testing.T) {
	c, err := FromEnvironment(environment(map[string]string{"SANDBOX_HOSTS": "244"}), checkout(t))
	require.NoError(t, err)
	assert.Equal(t, "10.99.0.254", c.HostAddress(243).String())
}

func TestOutsideACheckoutTheErrorSaysSo(t *testing.T) {
	_, err := FromEnvironment(environment(nil), t.TempDir())
	assert.ErrorContains(t, err, "run this from the checkout")
}

func TestTwoFoldersGiveTwoNamesThatFitIntoAnInterfaceName(t *testing.T) {
	one, two := Config{Dir: "/a/.sandbox"}, Config{Dir: "/b/.sandbox"}
	assert.NotEqual(t, one.Bridge(), two.Bridge())
	assert.LessOrEqual(t, len(one.Bridge()), 15)
}
