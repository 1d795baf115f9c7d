package winhost

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
)

//go:embed scripts/*.sh
var scripts embed.FS

// DefaultDiskBytes is the size of a host's drive C:. The file behind it is sparse.
const DefaultDiskBytes = 32 << 30

// Host is one Windows host. The fields are read by Start, and by the other methods Dir alone unless they say otherwise.
type Host struct {
	// Name is the host name (letters, digits and dashes, at most 15 so that the NetBIOS name is the same).
	Name string
	// Address is the host's address with the subnet's length, Gateway the next hop of its default route (none if invalid).
	Address netip.Prefix
	Gateway netip.Addr
	// Bridge is the existing bridge that the host's interface is attached to.
	Bridge string
	// Link names the interface on the real machine's side (at most 15 characters); empty: "win" and a digest of Dir.
	Link string
	// Dir holds everything of the host. BaseDir is where Prepare made the base prefix.
	Dir, BaseDir string
	// Hosts are names beside its own that the host resolves (its hosts file); Nameserver is the DNS server, none if invalid.
	Hosts      map[string]netip.Addr
	Nameserver netip.Addr
	// AuthorizedKey is an authorized_keys file for Administrator, Password its password; each way in is closed if empty.
	AuthorizedKey string
	Password      string
	// DiskBytes is the size of drive C:, 0 for DefaultDiskBytes.
	DiskBytes int64
	// Build is the reported build of Windows, 0 for 20348 (Server 2022).
	Build int
	// NoContainerd leaves the container runtime out. NotWindows makes it a Linux machine: SSH sessions get /bin/sh, and Wine is not started.
	NoContainerd, NotWindows bool
	// WinRM is the endpoint for Windows Remote Management, nil for none. The host is reached over SSH too.
	WinRM *WinRM
	// Wine is where Wine is found; the zero value means the folders of Debian's packages.
	Wine Wine
}

var validName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,13}[A-Za-z0-9])?$`)

func (h *Host) validate() error {
	switch {
	case !validName.MatchString(h.Name):
		return fmt.Errorf("host %q: not a windows host name: use 1 to 15 letters, digits and dashes", h.Name)
	case !h.Address.IsValid() || !h.Address.Addr().Is4():
		return fmt.Errorf("host %s: address %s: an IPv4 address with its subnet's length is needed, like 10.98.0.11/16", h.Name, h.Address)
	case h.Bridge == "":
		return fmt.Errorf("host %s: no bridge: make one and name it", h.Name)
	case len(h.Link) > 15:
		return fmt.Errorf("host %s: link %s: use at most 15 characters", h.Name, h.Link)
	case h.Dir == "" || h.BaseDir == "":
		return fmt.Errorf("host %s: Dir and BaseDir have to be set", h.Name)
	case h.AuthorizedKey == "" && h.Password == "":
		return fmt.Errorf("host %s: neither key nor password: nobody could log in", h.Name)
	}
	if err := h.validateWinRM(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(h.BaseDir, digestFile)); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("host %s: no base prefix in %s: call Prepare first", h.Name, h.BaseDir)
	} else if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

// path is a file of the host's directory, as the real machine sees it.
func (h *Host) path(elements ...string) string {
	return filepath.Join(append([]string{h.Dir}, elements...)...)
}

// Log is the path of one of the host's logs: "init.log", "boot.log", "sshd.log" or "winrm.log".
func (h *Host) Log(name string) string { return h.path("log", name) }

// token is the part of names on the real machine that is different for every host directory: eight hexadecimal digits.
func (h *Host) token() string {
	absolute, err := filepath.Abs(h.Dir)
	if err != nil {
		absolute = h.Dir
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(absolute)))[:8]
}

// veth is the name of the host's interface on the real machine's side.
func (h *Host) veth() string {
	if h.Link != "" {
		return h.Link
	}
	return "win" + h.token()
}

// mac is a locally administered address made of the host's IPv4 address, so that it is the same after every start.
func (h *Host) mac() string {
	a := h.Address.Addr().As4()
	return fmt.Sprintf("02:57:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// hardwareGUID is unique to the host and stays the same: the kubelet reports it as its system UUID.
func (h *Host) hardwareGUID() string {
	sum := sha256.Sum256([]byte(h.Name + " " + h.Address.Addr().String() + " " + h.token()))
	return fmt.Sprintf("{%x-%x-4%s-8%s-%x}", sum[0:4], sum[4:6], fmt.Sprintf("%x", sum[6:8])[1:], fmt.Sprintf("%x", sum[8:10])[1:], sum[10:16])
}
