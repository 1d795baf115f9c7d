package winhost

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const home = "/run/winhost" // the host's directory, as its own namespaces see it

// writeAccounts writes passwd and group. Everything in a prefix belongs to uid 0, whose first name is Administrator's.
func writeAccounts(etc, shell string) error {
	passwd := "Administrator:x:0:0:Administrator:" + home + "/home:" + shell + "\n" +
		"sshd:x:105:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	if err := writeFile(filepath.Join(etc, "passwd"), passwd, 0o644); err != nil {
		return err
	}
	return writeFile(filepath.Join(etc, "group"), "Administrators:x:0:\ntty:x:5:\nnogroup:x:65534:\n", 0o644)
}

// writeEtc writes the files that take the place of those of /etc in the host, and what its sshd needs.
func (h *Host) writeEtc(ctx context.Context, wine Wine) error {
	etc, shell := h.path("etc"), home+"/etc/session.sh"
	if h.NotWindows {
		shell = "/bin/sh"
	}
	if err := writeAccounts(etc, shell); err != nil {
		return err
	}
	hash, err := passwordHash(ctx, h.Password)
	if err != nil {
		return err
	}
	resolv := ""
	if h.Nameserver.IsValid() {
		resolv = "nameserver " + h.Nameserver.String() + "\n"
	}
	files := []struct {
		name, content string
		mode          fs.FileMode
	}{
		{"shadow", "Administrator:" + hash + ":19000:0:99999:7:::\nsshd:*:19000::::::\n", 0o600},
		{"hosts", h.hostsFile(), 0o644},
		{"resolv.conf", resolv, 0o644},
		{"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n", 0o644},
		{"pam-sshd", "auth required pam_unix.so\naccount required pam_permit.so\nsession required pam_permit.so\n", 0o644},
		{"authorized_keys", strings.TrimSpace(h.AuthorizedKey) + "\n", 0o600},
		{"sshd_config", h.sshdConfig(), 0o600},
		{"wine.env", wine.environment(), 0o644},
	}
	for _, file := range files {
		if err := writeFile(filepath.Join(etc, file.name), file.content, file.mode); err != nil {
			return err
		}
	}
	for _, script := range []string{"init.sh", "session.sh", "sftp.sh"} {
		content, err := scripts.ReadFile("scripts/" + script)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(etc, script), string(content), 0o755); err != nil {
			return err
		}
	}
	if err := h.writeWinRM(); err != nil {
		return err
	}
	return h.hostKey(ctx)
}

// environment is what a program needs to run in the host's Wine, for a shell to read.
func (w Wine) environment() string {
	return strings.Join([]string{
		"export WINE='" + w.Loader + "' WINESERVER='" + w.Server + "'",
		"export WINEPREFIX=" + home + "/prefix HOME=" + home + "/home PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"export WINEDEBUG=-all WINEARCH=win64 WINEDLLOVERRIDES='mscoree,mshtml=' LANG=C.UTF-8 LC_ALL=C.UTF-8",
		"unset DISPLAY",
	}, "\n") + "\n"
}

func (h *Host) hostsFile() string {
	var content strings.Builder
	fmt.Fprintf(&content, "127.0.0.1 localhost\n%s %s\n", h.Address.Addr(), h.Name)
	for _, name := range slices.Sorted(maps.Keys(h.Hosts)) {
		fmt.Fprintf(&content, "%s %s\n", h.Hosts[name], name)
	}
	return content.String()
}

func (h *Host) sshdConfig() string {
	password := "no"
	if h.Password != "" {
		password = "yes"
	}
	return strings.Join([]string{
		"Port 22",
		"ListenAddress " + h.Address.Addr().String(),
		"HostKey " + home + "/etc/ssh_host_ed25519_key",
		"PidFile none",
		"AuthorizedKeysFile " + home + "/etc/authorized_keys",
		"StrictModes no",
		"PermitRootLogin yes", // Administrator is uid 0
		"AllowUsers Administrator",
		"PasswordAuthentication " + password,
		"KbdInteractiveAuthentication " + password,
		"UsePAM yes", // keyboard-interactive needs it
		"UseDNS no",
		"PrintMotd no",
		"PrintLastLog no",
		"PermitUserRC no",
		"X11Forwarding no",
		"MaxStartups 200",
		"MaxSessions 100",
		"LogLevel VERBOSE",
		"Subsystem sftp " + home + "/etc/sftp.sh",
	}, "\n") + "\n"
}

// passwordHash makes the line of the shadow file; the password goes through a pipe, never a command line.
func passwordHash(ctx context.Context, password string) (string, error) {
	if password == "" {
		return "*", nil
	}
	cmd := exec.CommandContext(ctx, "openssl", "passwd", "-6", "-stdin")
	cmd.Stdin = strings.NewReader(password + "\n")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("openssl passwd: %w: install the package openssl", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// hostKey makes the SSH host key unless the host has one: like a machine's, it outlives reboots.
func (h *Host) hostKey(ctx context.Context) error {
	path := h.path("etc", "ssh_host_ed25519_key")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", h.Name, "-f", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen: %w: install the package openssh-client\n%s", err, out)
	}
	return nil
}

// KnownHostsLine is the line of a known_hosts file for this host, once it was started.
func (h *Host) KnownHostsLine() (string, error) {
	public, err := os.ReadFile(h.path("etc", "ssh_host_ed25519_key.pub"))
	if err != nil {
		return "", fmt.Errorf("host %s: no host key yet: start it first: %w", h.Name, err)
	}
	fields := strings.Fields(string(public))
	if len(fields) < 2 {
		return "", fmt.Errorf("host %s: %s is no public key: remove it and start the host again", h.Name, h.path("etc", "ssh_host_ed25519_key.pub"))
	}
	return h.Address.Addr().String() + " " + fields[0] + " " + fields[1], nil
}
