package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// written is what Write makes of the hosts: their variables, and the modes of the files.
func written(t *testing.T, dir string, hosts ...Host) (map[string]map[string]any, []os.FileMode) {
	t.Helper()
	require.NoError(t, Write(dir, hosts, Facts{KnownHosts: "/known", PrivateKey: "/key", WinRMCAFile: "/ca"}))
	var modes []os.FileMode
	for _, name := range []string{"hosts.yml", "group_vars/all.yml"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		modes = append(modes, info.Mode().Perm())
	}
	content, err := os.ReadFile(filepath.Join(dir, "hosts.yml"))
	require.NoError(t, err)
	var inventory struct {
		All struct {
			Children map[string]struct{ Hosts map[string]map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &inventory))
	return inventory.All.Children["windows"].Hosts, modes
}

func TestAHostWithAPasswordIsReachedOverWinRMAndNothingOfItOverSSH(t *testing.T) {
	hosts, _ := written(t, t.TempDir(), Host{Name: "one", Address: "10.0.0.1"}, Host{Name: "two", Address: "10.0.0.2", Password: "secret"})
	assert.Equal(t, "ssh", hosts["one"]["ansible_connection"])
	assert.Equal(t, map[string]any{
		"ansible_host": "10.0.0.2", "ansible_user": "Administrator", "ansible_password": "secret", "ansible_connection": "winrm", "ansible_port": 5986.0,
		"ansible_winrm_scheme": "https", "ansible_winrm_transport": "ntlm", "ansible_winrm_ca_trust_path": "/ca",
	}, hosts["two"])
}

func TestAnInventoryWithAPasswordIsNobodyElsesToRead(t *testing.T) {
	dir := t.TempDir()
	_, modes := written(t, dir, Host{Name: "one", Address: "10.0.0.1"})
	assert.Equal(t, []os.FileMode{0o644, 0o644}, modes)
	_, modes = written(t, dir, Host{Name: "one", Address: "10.0.0.1", Password: "secret"})
	assert.Equal(t, []os.FileMode{0o600, 0o600}, modes)
}
