package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// host is what the sandbox's inventory says of one.
type host struct {
	Name          string
	Address       string `json:"ansible_host"`
	Password      string `json:"ansible_password"`
	CATrust       string `json:"ansible_winrm_ca_trust_path"`
	sandbox       string
	latencyOfEach string
}

func readHosts(path string) (map[string]host, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var inventory struct {
		All struct {
			Children struct {
				Windows struct {
					Hosts map[string]host `json:"hosts"`
				} `json:"windows"`
			} `json:"children"`
		} `json:"all"`
	}
	if err := yaml.Unmarshal(raw, &inventory); err != nil {
		return nil, err
	}
	hosts := inventory.All.Children.Windows.Hosts
	for name, h := range hosts {
		h.Name, h.sandbox = name, filepath.Dir(filepath.Dir(path))
		h.latencyOfEach = filepath.Join(h.sandbox, "hosts", name, "etc", "winrm-latency-ms")
		hosts[name] = h
	}
	return hosts, nil
}

func (h host) sshOptions(port int) []string {
	return []string{"-i", filepath.Join(h.sandbox, "ssh", "id_ed25519"), "-o", "UserKnownHostsFile=" + filepath.Join(h.sandbox, "ssh", "known_hosts"),
		"-o", "HostKeyAlias=" + h.Address, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "Port=" + strconv.Itoa(port)}
}

// cmd runs a command line in the host's cmd.exe.
func (h host) cmd(line string) error {
	out, err := exec.Command("ssh", append(h.sshOptions(22), "Administrator@"+h.Address, line)...).CombinedOutput() //nolint:gosec // a benchmark's host
	if err != nil {
		return fmt.Errorf("%s: %s: %w: %s", h.Name, line, err, out)
	}
	return nil
}

// empty takes everything off the host that a transfer brings.
func (h host) empty() error {
	return h.cmd(`if exist C:\k rmdir /s /q C:\k & if exist C:\bench rmdir /s /q C:\bench & mkdir C:\bench`)
}

// file is one of a transfer.
type file struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// cached puts a file into the bench's cache, where contents lie under their digests.
func (b *bench) cached(path string) (file, error) {
	in, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	if err != nil {
		return file{}, err
	}
	f := file{Name: filepath.Base(path), SHA256: hex.EncodeToString(sum.Sum(nil)), Size: size}
	f.Path = filepath.Join(b.work, f.SHA256)
	if _, err := os.Stat(f.Path); err == nil {
		return f, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	return f, os.WriteFile(f.Path, content, 0o600)
}

// release gives the release's files. Ours come as the playbook sends them: wmcb.exe is the first file, and not among the contents.
func (b *bench) release() (ours, all []file, total int64, err error) {
	for _, name := range []string{"kubelet.exe", "kube-log-runner.exe", "wmcb.exe"} {
		f, err := b.cached(filepath.Join(b.payload, name))
		if err != nil {
			return nil, nil, 0, err
		}
		all, total = append(all, f), total+f.Size
	}
	return all[:2], all, total, nil
}

// outcome is what the module says, and what it took.
type outcome struct {
	Failed      bool     `json:"failed"`
	Msg         string   `json:"msg"`
	SentBytes   int64    `json:"sent_bytes"`
	WireBytes   int64    `json:"wire_bytes"`
	Lanes       int      `json:"lanes"`
	FirstFile   string   `json:"first_file"`
	Differences []string `json:"differences"`
	took        time.Duration
	// The most memory, in bytes: of the module, and of one wmcb.exe, which has Wine's libraries in it.
	control, wmcb int64
}

// memory says both.
func (o outcome) memory() string {
	return fmt.Sprintf("control host %d MiB, wmcb.exe %d MiB", o.control>>20, o.wmcb>>20)
}

// transfer runs the module as Ansible does.
func (b *bench) transfer(connection map[string]any, files []file) (outcome, error) {
	wmcb, err := b.cached(filepath.Join(b.payload, "wmcb.exe"))
	if err != nil {
		return outcome{}, err
	}
	raw, err := json.Marshal(map[string]any{"connection": connection, "wmcb": map[string]any{"path": wmcb.Path, "sha256": wmcb.SHA256, "size": wmcb.Size}, "files": files, "_ansible_inventory_hostname": connection["inventory_hostname"]})
	if err != nil {
		return outcome{}, err
	}
	arguments, err := os.CreateTemp(b.work, "arguments")
	if err != nil {
		return outcome{}, err
	}
	defer os.Remove(arguments.Name())
	if _, err := arguments.Write(raw); err != nil {
		return outcome{}, err
	}
	arguments.Close()
	cmd := exec.Command(b.module, "transfer", arguments.Name()) //nolint:gosec // the program to measure
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	watched := watch(cmd.Process.Pid)
	err = cmd.Wait()
	o := outcome{took: time.Since(begin)}
	o.control, o.wmcb = watched()
	if jsonErr := json.Unmarshal(out.Bytes(), &o); jsonErr != nil || o.Failed || err != nil {
		return o, fmt.Errorf("transfer: %w: %s %s", err, o.Msg, strings.TrimSpace(said.String()))
	}
	return o, nil
}

func (h host) ssh(port int) map[string]any {
	address := h.Address
	if port != 22 {
		address = "127.0.0.1" // a line to the host
	}
	return map[string]any{"inventory_hostname": h.Name, "kind": "ssh", "host": address, "port": port, "user": "Administrator", "ssh": map[string]any{
		"private_key_file": filepath.Join(h.sandbox, "ssh", "id_ed25519"), "common_args": "-o HostKeyAlias=" + h.Address,
		"known_hosts_file": filepath.Join(h.sandbox, "ssh", "known_hosts"),
	}}
}

func (h host) winrm(scheme string, port int) map[string]any {
	return map[string]any{"inventory_hostname": h.Name, "kind": "winrm", "host": h.Address, "port": port, "user": "Administrator", "password": h.Password,
		"winrm": map[string]any{"scheme": scheme, "transport": []string{"ntlm"}, "ca_trust_path": h.CATrust}}
}
