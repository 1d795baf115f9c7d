package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"wsu.windows/tests/line"
)

// join joins both hosts over lines that are cut while apply is at work on them: the commands go on, their outcome is fetched under the same
// name afterwards, and the hosts are Ready in the same run. WinRM ends everything in a session's job with the session, so that breaking away from
// the job is what counts there.
func (c *chaos) join() error {
	row := c.row("join, cut during apply")
	defer row.done()
	lines := map[string]*line.Line{}
	for name, port := range map[string]int{"winhost1": 22, "winhost2": 5985} {
		l, err := line.New(fmt.Sprintf("%s:%d", c.hosts[name].Address, port), 0)
		if err != nil {
			return err
		}
		defer l.Close()
		lines[name] = l
	}
	inventory, err := c.inventory(lines)
	if err != nil {
		return err
	}
	said, err := c.play(inventory, "scaleup.yml", func(text string) {
		for name, l := range lines {
			if l != nil && strings.HasPrefix(text, name+" | apply:") {
				l.Cut()
				lines[name], row.Cuts = nil, row.Cuts+1
			}
		}
	})
	row.Transfers, row.Runs, row.Attempts = len(c.hosts), 1, 1+strings.Count(said, "the connection was lost; asking again")
	if err != nil {
		row.fail("%v", err)
		return nil
	}
	if row.Cuts != len(c.hosts) || row.Attempts <= row.Cuts {
		row.fail("it was cut %d times, and lost %d connections:\n%s", row.Cuts, row.Attempts-1, said)
	}
	nodes, err := exec.Command(filepath.Join(c.sandbox, "bin", "kubectl"), "--kubeconfig", filepath.Join(c.sandbox, "kubeconfig"), "get", "nodes", "--no-headers").CombinedOutput() //nolint:gosec,noctx // the sandbox's own
	if ready := strings.Count(string(nodes), " Ready "); err != nil || ready != len(c.hosts) {
		row.fail("%d nodes are Ready: %v: %s", ready, err, nodes)
	}
	for name, h := range c.hosts {
		if err := h.ranOnce(); err != nil {
			row.fail("%s: %v", name, err)
		}
	}
	_, err = c.play(inventory, "playbooks/remove.yml", func(string) {}, "-e", "wsu_remove_hosts=winhost1,winhost2")
	return err
}

// ranOnce checks that apply was begun once on the host: each detached run has a folder.
func (h *host) ranOnce() error {
	names, err := h.names(`C:\Windows\Temp`)
	runs := 0
	for _, name := range names {
		if strings.HasPrefix(name, "wsu-run-") {
			runs++
		}
	}
	if err == nil && runs != 1 {
		err = fmt.Errorf("there were %d detached runs", runs)
	}
	return err
}

// inventory is the sandbox's, with the lines in place of the hosts.
func (c *chaos) inventory(lines map[string]*line.Line) (string, error) {
	raw, err := os.ReadFile(filepath.Join(c.sandbox, "inventory", "hosts.yml"))
	if err != nil {
		return "", err
	}
	var document map[string]map[string]map[string]map[string]map[string]map[string]any
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return "", err
	}
	hosts := document["all"]["children"]["windows"]["hosts"]
	for name, l := range lines {
		h := hosts[name]
		if h["ansible_connection"] == "ssh" {
			h["ansible_ssh_common_args"] = fmt.Sprint(h["ansible_ssh_common_args"], " -o HostKeyAlias=", h["ansible_host"])
		} else {
			h["ansible_winrm_scheme"] = "http"
		}
		h["ansible_host"], h["ansible_port"] = "127.0.0.1", l.Port()
	}
	folder := filepath.Join(c.work, "inventory")
	if raw, err = yaml.Marshal(document); err != nil {
		return "", err
	}
	return folder, errorsOf(os.CopyFS(folder, os.DirFS(filepath.Join(c.sandbox, "inventory"))), os.WriteFile(filepath.Join(folder, "hosts.yml"), raw, 0o600))
}

// play runs a playbook and shows each line that it says.
func (c *chaos) play(inventory, playbook string, hear func(text string), arguments ...string) (string, error) {
	cmd := exec.Command(c.ansible, append([]string{"-i", inventory, playbook}, arguments...)...) //nolint:gosec,noctx // the program to test
	cmd.Env = append(os.Environ(), "HOME="+c.work)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		hear(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return said.String(), fmt.Errorf("%s: %w:\n%s", playbook, err, said.String())
	}
	return said.String(), nil
}
