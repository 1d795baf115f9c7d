package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"sigs.k8s.io/yaml"
)

// host is a host of the sandbox. What the tests look at and damage there, they reach by an SSH connection of their own, which is not the
// project's.
type host struct {
	Name     string
	Address  string `json:"ansible_host"`
	Password string `json:"ansible_password"`
	sandbox  string
	client   *ssh.Client
	files    *sftp.Client
}

func readHosts(sandbox string) (map[string]*host, error) {
	raw, err := os.ReadFile(filepath.Join(sandbox, "inventory", "hosts.yml"))
	if err != nil {
		return nil, err
	}
	var inventory struct {
		All struct {
			Children struct {
				Windows struct {
					Hosts map[string]*host `json:"hosts"`
				} `json:"windows"`
			} `json:"children"`
		} `json:"all"`
	}
	if err := yaml.Unmarshal(raw, &inventory); err != nil {
		return nil, err
	}
	hosts := inventory.All.Children.Windows.Hosts
	for name, h := range hosts {
		h.Name, h.sandbox = name, sandbox
		if err := h.connect(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return hosts, nil
}

func (h *host) connect() error {
	key, err := os.ReadFile(filepath.Join(h.sandbox, "ssh", "id_ed25519"))
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return err
	}
	known, err := knownhosts.New(filepath.Join(h.sandbox, "ssh", "known_hosts"))
	if err != nil {
		return err
	}
	h.client, err = ssh.Dial("tcp", net.JoinHostPort(h.Address, "22"), &ssh.ClientConfig{
		User: "Administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: known, HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		return err
	}
	h.files, err = sftp.NewClient(h.client)
	return err
}

// remote is a path of the host as SFTP has it.
func remote(windows string) string { return "/" + strings.ReplaceAll(windows, `\`, "/") }

// remove takes a folder off the host, whatever is in it.
func (h *host) remove(windows string) error {
	err := h.files.RemoveAll(remote(windows))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// digest reads a file of the host.
func (h *host) digest(windows string) (string, error) {
	file, err := h.files.Open(remote(windows))
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := file.WriteTo(sum); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// names lists a folder; one that is not there is empty.
func (h *host) names(windows string) ([]string, error) {
	entries, err := h.files.ReadDir(remote(windows))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// flip changes one bit of a file.
func (h *host) flip(windows string, at int64, bit uint) error {
	file, err := h.files.OpenFile(remote(windows), os.O_RDWR)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, file.Close())
	}
	b[0] ^= 1 << (bit % 8)
	_, err = file.WriteAt(b, at)
	return errors.Join(err, file.Close())
}

var digestName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// whole checks that a store has exactly the contents that it should have, and nothing that is not whole.
func (h *host) whole(install string, files []file) error {
	names, err := h.names(install + `\store`)
	if err != nil {
		return err
	}
	for _, f := range files {
		seen, err := h.digest(install + `\store\` + f.SHA256)
		if err != nil {
			return fmt.Errorf("%s: content %s: %w", h.Name, f.Name, err)
		}
		if seen != f.SHA256 {
			return fmt.Errorf("%s: content %s has the digest %s", h.Name, f.Name, seen)
		}
	}
	for _, name := range names {
		known := slices.ContainsFunc(files, func(f file) bool { return f.SHA256 == name })
		if !known && name != ".lock" && name != ".session" {
			return fmt.Errorf("%s: %s was left in the store", h.Name, name)
		}
	}
	return nil
}

// honest checks that what is visible in a store is what its name says: whatever went wrong, no wrong file appears.
func (h *host) honest(install string) error {
	names, err := h.names(install + `\store`)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !digestName.MatchString(name) {
			continue
		}
		seen, err := h.digest(install + `\store\` + name)
		if err != nil {
			return err
		}
		if seen != name {
			return fmt.Errorf("%s: content %s has the digest %s", h.Name, name, seen)
		}
	}
	return nil
}

// ssh is the connection of the module, over a line.
func (h *host) ssh(port int) map[string]any {
	return map[string]any{"inventory_hostname": h.Name, "kind": "ssh", "host": "127.0.0.1", "port": port, "user": "Administrator", "ssh": map[string]any{
		"private_key_file": filepath.Join(h.sandbox, "ssh", "id_ed25519"), "common_args": "-o HostKeyAlias=" + h.Address,
		"known_hosts_file": filepath.Join(h.sandbox, "ssh", "known_hosts"),
	}}
}

// winrm is one with sealed messages over HTTP, so that a line sees no TLS.
func (h *host) winrm(port int) map[string]any {
	return map[string]any{"inventory_hostname": h.Name, "kind": "winrm", "host": "127.0.0.1", "port": port, "user": "Administrator", "password": h.Password,
		"winrm": map[string]any{"scheme": "http", "transport": []string{"ntlm"}}}
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
