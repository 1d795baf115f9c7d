// Package inventory writes the Ansible inventory of the sandbox: ready for `ansible-playbook -i`.
package inventory

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Host is a Windows host in the inventory.
type Host struct{ Name, Address string }

// Facts are what the inventory says beside the hosts. All are absolute paths but PayloadURL.
type Facts struct {
	Kubeconfig    string
	KnownHosts    string
	PrivateKey    string
	PayloadURL    string
	PayloadCAFile string
}

// Write makes hosts.yml and group_vars/all.yml in dir.
func Write(dir string, hosts []Host, facts Facts) error {
	variables := map[string]any{}
	names := map[string]any{}
	for _, host := range hosts {
		names[host.Name] = map[string]any{}
		variables[host.Name] = map[string]any{
			"ansible_host":                 host.Address,
			"ansible_user":                 "Administrator",
			"ansible_connection":           "ssh",
			"ansible_shell_type":           "cmd",
			"ansible_ssh_private_key_file": facts.PrivateKey,
			"ansible_ssh_common_args":      "-o UserKnownHostsFile=" + facts.KnownHosts,
		}
	}
	inventory := map[string]any{"all": map[string]any{"children": map[string]any{
		"windows":     map[string]any{"hosts": variables},
		"new_workers": map[string]any{"hosts": names},
		"workers":     map[string]any{"hosts": map[string]any{}},
	}}}
	if err := writeYAML(filepath.Join(dir, "hosts.yml"), "The sandbox's Windows hosts.", inventory); err != nil {
		return err
	}
	return writeYAML(filepath.Join(dir, "group_vars", "all.yml"), "The sandbox's cluster and payload mirror.", map[string]any{
		"openshift_kubeconfig_path": facts.Kubeconfig,
		"wsu_ssh_known_hosts_file":  facts.KnownHosts,
		"wsu_payload_url":           facts.PayloadURL,
		"wsu_payload_ca_file":       facts.PayloadCAFile,
	})
}

func writeYAML(file, title string, value any) error {
	content, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	header := "# " + title + " Written by `sandbox up`; changes are lost.\n---\n"
	if err := os.WriteFile(file, append([]byte(header), content...), 0o644); err != nil {
		return fmt.Errorf("inventory: %w", err)
	}
	return nil
}
