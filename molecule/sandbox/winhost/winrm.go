package winhost

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wsu.windows/sandbox/winrm"
)

// WinRM is the host's endpoint for Windows Remote Management, on ports 5985 (HTTP) and 5986 (HTTPS) of its address. Administrator's
// password is the host's. All fields but Keytab and Kerberos are needed; they are paths of files that are read when the host is made.
type WinRM struct {
	// Python is the interpreter of a virtual environment with requirements-sandbox.txt.
	Python string
	// Certificate and Key are the server's, ClientCA the authority of clients' certificates.
	Certificate, Key, ClientCA string
	// Keytab has the host's keys and Kerberos is a krb5.conf; without them there is no Kerberos.
	Keytab, Kerberos string
}

func (h *Host) validateWinRM() error {
	if h.WinRM == nil {
		return nil
	}
	if h.Password == "" {
		return fmt.Errorf("host %s: WinRM without a password: nobody could log in", h.Name)
	}
	if _, err := os.Stat(h.WinRM.Python); err != nil {
		return fmt.Errorf("host %s: WinRM: no Python environment: %w: make it with scripts/setup-venvs.sh (make setup)", h.Name, err)
	}
	return nil
}

// writeWinRM lays out etc/winrm: the endpoint itself, so that a running host does not change with the checkout, and its secrets.
func (h *Host) writeWinRM() error {
	folder := h.path("etc", "winrm")
	if err := os.RemoveAll(folder); err != nil || h.WinRM == nil {
		return err
	}
	err := fs.WalkDir(winrm.Package, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := winrm.Package.ReadFile(name)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(folder, filepath.FromSlash(name)), string(content), 0o644)
	})
	if err != nil {
		return err
	}
	for name, source := range map[string]string{
		"winrm-server.crt": h.WinRM.Certificate, "winrm-server.key": h.WinRM.Key, "client-ca.crt": h.WinRM.ClientCA,
		"keytab": h.WinRM.Keytab, "krb5.conf": h.WinRM.Kerberos,
	} {
		if source == "" {
			continue
		}
		if err := copyFile(source, filepath.Join(folder, name), 0o600); err != nil {
			return fmt.Errorf("WinRM: %w", err)
		}
	}
	return writeFile(filepath.Join(folder, "users"), h.winrmUsers(), 0o600)
}

// winrmUsers has a line for each domain name that clients put before the user's: none, the host's own, and what stands for it.
func (h *Host) winrmUsers() string {
	var lines strings.Builder
	for _, domain := range []string{"", h.Name, ".", "localhost", "WORKSTATION"} {
		fmt.Fprintf(&lines, "%s:Administrator:%s\n", domain, h.Password)
	}
	return lines.String()
}
