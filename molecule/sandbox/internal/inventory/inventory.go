// Package inventory writes the Ansible inventory of the sandbox: ready for `ansible-playbook -i`.
package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Host is a Windows host in the inventory. One with a Password is reached over WinRM, the others over SSH.
type Host struct{ Name, Address, Password string }

// Facts are what the inventory says beside the hosts. All are absolute paths but PayloadURL.
type Facts struct {
	Kubeconfig    string
	KnownHosts    string
	PrivateKey    string
	PayloadURL    string
	PayloadCAFile string
	WinRMCAFile   string // signs the certificates of the hosts with WinRM
}

// Write makes hosts.yml and group_vars/all.yml in dir, readable by everybody unless a password stands in them.
func Write(dir string, hosts []Host, facts Facts) error {
	variables := map[string]any{}
	names := map[string]any{}
	mode := fs.FileMode(0o644)
	for _, host := range hosts {
		names[host.Name] = map[string]any{}
		if host.Password == "" {
			variables[host.Name] = overSSH(host, facts)
			continue
		}
		variables[host.Name] = overWinRM(host, facts)
		mode = 0o600
	}
	inventory := map[string]any{"all": map[string]any{"children": map[string]any{
		"windows":     map[string]any{"hosts": variables},
		"new_workers": map[string]any{"hosts": names},
		"workers":     map[string]any{"hosts": map[string]any{}},
	}}}
	if err := writeYAML(filepath.Join(dir, "hosts.yml"), "The sandbox's Windows hosts.", inventory, mode); err != nil {
		return err
	}
	return writeYAML(filepath.Join(dir, "group_vars", "all.yml"), "The sandbox's cluster and payload mirror.", map[string]any{
		"openshift_kubeconfig_path": facts.Kubeconfig,
		"wsu_ssh_known_hosts_file":  facts.KnownHosts,
		"wsu_payload_url":           facts.PayloadURL,
		"wsu_payload_ca_file":       facts.PayloadCAFile,
	}, mode)
}

func overSSH(host Host, facts Facts) map[string]any {
	return map[string]any{
		"ansible_host":                 host.Address,
		"ansible_user":                 "Administrator",
		"ansible_connection":           "ssh",
		"ansible_shell_type":           "cmd",
		"ansible_ssh_private_key_file": facts.PrivateKey,
		"ansible_ssh_common_args":      "-o UserKnownHostsFile=" + facts.KnownHosts,
	}
}

func overWinRM(host Host, facts Facts) map[string]any {
	return map[string]any{
		"ansible_host":                host.Address,
		"ansible_user":                "Administrator",
		"ansible_password":            host.Password,
		"ansible_connection":          "winrm",
		"ansible_port":                5986,
		"ansible_winrm_scheme":        "https",
		"ansible_winrm_transport":     "ntlm",
		"ansible_winrm_ca_trust_path": facts.WinRMCAFile,
	}
}

func writeYAML(file, title string, value any, mode fs.FileMode) error {
	content, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	header := "# " + title + " Written by `sandbox up`; changes are lost.\n---\n"
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // an old file would keep its mode
		return fmt.Errorf("inventory: %w", err)
	}
	if err := os.WriteFile(file, append([]byte(header), content...), mode); err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	return nil
}
