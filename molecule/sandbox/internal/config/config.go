// Package config reads the sandbox's settings out of the environment and derives every name and address from them, so that
// two sandboxes with different folders and subnets can live beside each other.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Defaults of the environment variables.
const (
	DefaultHosts  = 2
	DefaultDir    = ".sandbox"
	DefaultSubnet = "10.99.0.0/24"
)

// Ports of the sandbox's servers. All but etcd's and the controller manager's listen on the bridge address.
const (
	APIPort               = 6443
	MachineConfigPort     = 22623
	MirrorPort            = 8443
	KerberosPort          = 88
	EtcdPort              = 2379
	EtcdPeerPort          = 2380
	ControllerManagerPort = 10257
)

// Names that the sandbox's cluster goes by. api-int is resolved by the Windows hosts' own hosts file.
const (
	Domain  = "sandbox.test"
	APIInt  = "api-int." + Domain
	API     = "api." + Domain
	Version = "v1.36.3" // of Kubernetes; one of the folders of payload/kubernetes
)

// firstHost is the last byte of the first Windows host's address: .11, .12, ...
const firstHost = 11

// Config is one sandbox: where it lies and what its parts are called.
type Config struct {
	Repository string       // the checkout, absolute
	Dir        string       // SANDBOX_DIR, absolute
	Hosts      int          // SANDBOX_HOSTS
	Subnet     netip.Prefix // SANDBOX_SUBNET
	// Odd says what is wrong with some hosts, by their number from 1: SANDBOX_ODD, as 2=linux,3=no-containerd,4=build:14393.
	Odd map[int]Oddity
	// AllWinRM and SomeWinRM say which hosts Ansible reaches over WinRM, by their number from 1: SANDBOX_WINRM, `all` or a list as 2,3.
	AllWinRM  bool
	SomeWinRM map[int]bool
}

// Oddity is what keeps a host from becoming a node.
type Oddity struct {
	NotWindows, NoContainerd bool
	Build                    int // 0 is the usual one
}

// WinRM says whether Ansible reaches host number i, counted from 0, over WinRM. A Linux machine has none.
func (c Config) WinRM(i int) bool { return (c.AllWinRM || c.SomeWinRM[i+1]) && !c.Odd[i+1].NotWindows }

// AnyWinRM says whether there is such a host.
func (c Config) AnyWinRM() bool { return c.Hosts > 0 && (c.AllWinRM || len(c.SomeWinRM) > 0) }

// FromEnvironment reads SANDBOX_HOSTS, SANDBOX_DIR, SANDBOX_SUBNET, SANDBOX_ODD and SANDBOX_WINRM; the errors name the variable. A relative
// SANDBOX_DIR is relative to the repository's root.
func FromEnvironment(getenv func(string) string, workDir string) (Config, error) {
	repository, err := findRepository(workDir)
	if err != nil {
		return Config{}, err
	}
	c := Config{Repository: repository, Hosts: DefaultHosts}
	c.Dir = orDefault(getenv("SANDBOX_DIR"), DefaultDir)
	if !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(repository, c.Dir)
	}
	c.Dir = filepath.Clean(c.Dir)
	if c.Dir == "/" || c.Dir == repository {
		return Config{}, fmt.Errorf("SANDBOX_DIR %q: the sandbox owns its folder and empties it; name one of its own", c.Dir)
	}
	if c.Subnet, err = parseSubnet(orDefault(getenv("SANDBOX_SUBNET"), DefaultSubnet)); err != nil {
		return Config{}, err
	}
	if text := getenv("SANDBOX_HOSTS"); text != "" {
		if c.Hosts, err = strconv.Atoi(text); err != nil || c.Hosts < 0 {
			return Config{}, fmt.Errorf("SANDBOX_HOSTS %q: give a number of Windows hosts, 0 or more", text)
		}
	}
	if most := c.mostHosts(); c.Hosts > most {
		return Config{}, fmt.Errorf("SANDBOX_HOSTS %d: %s has addresses for %d hosts (.%d and up); ask for fewer or set a larger SANDBOX_SUBNET",
			c.Hosts, c.Subnet, most, firstHost)
	}
	if c.Odd, err = parseOdd(getenv("SANDBOX_ODD")); err != nil {
		return Config{}, err
	}
	if getenv("SANDBOX_WINRM") == "all" {
		c.AllWinRM = true
		return c, nil
	}
	c.SomeWinRM, err = parseNumbers("SANDBOX_WINRM", getenv("SANDBOX_WINRM"))
	return c, err
}

func parseNumbers(variable, text string) (map[int]bool, error) {
	numbers := map[int]bool{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		n, err := strconv.Atoi(item)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s %q: give `all`, or numbers of hosts from 1, as 2,3", variable, text)
		}
		numbers[n] = true
	}
	return numbers, nil
}

func parseOdd(text string) (map[int]Oddity, error) {
	odd := map[int]Oddity{}
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		number, what, _ := strings.Cut(item, "=")
		n, err := strconv.Atoi(number)
		var o Oddity
		switch build, isBuild := strings.CutPrefix(what, "build:"); {
		case what == "linux":
			o.NotWindows = true
		case what == "no-containerd":
			o.NoContainerd = true
		case isBuild:
			o.Build, err = strconv.Atoi(build)
		default:
			err = strconv.ErrSyntax
		}
		if err != nil || n < 1 {
			return nil, fmt.Errorf("SANDBOX_ODD %q: give HOST=WHAT, as 2=linux,3=no-containerd,4=build:14393", item)
		}
		odd[n] = o
	}
	return odd, nil
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func parseSubnet(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("SANDBOX_SUBNET %q: give an IPv4 network such as %s: %w", text, DefaultSubnet, err)
	}
	if !prefix.Addr().Is4() || prefix.Bits() < 16 || prefix.Bits() > 27 {
		return netip.Prefix{}, fmt.Errorf("SANDBOX_SUBNET %q: give an IPv4 network between /16 and /27, such as %s", text, DefaultSubnet)
	}
	if prefix.Masked() != prefix {
		return netip.Prefix{}, fmt.Errorf("SANDBOX_SUBNET %q: that is an address inside a network; did you mean %s?", text, prefix.Masked())
	}
	if !prefix.Addr().IsPrivate() {
		return netip.Prefix{}, fmt.Errorf("SANDBOX_SUBNET %q: give a private network (inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16)", text)
	}
	return prefix, nil
}

// findRepository walks up from dir to the folder that holds molecule/sandbox.
func findRepository(dir string) (string, error) {
	start := dir
	for {
		if _, err := os.Stat(filepath.Join(dir, "molecule", "sandbox", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s lies outside the project: run this from the checkout (no molecule/sandbox/go.mod found above)", start)
		}
		dir = parent
	}
}

// ID names this sandbox in the kernel's namespace of names (bridge, veths): 10 characters, out of the folder's path.
func (c Config) ID() string {
	sum := sha256.Sum256([]byte(c.Dir))
	return "wsu-" + hex.EncodeToString(sum[:3])
}

// Bridge is the name of the network bridge (at most 15 bytes, Linux' limit).
func (c Config) Bridge() string { return c.ID() + "-br" }

// Gateway is the bridge's address, on which the control plane and the mirror listen: the first of the subnet.
func (c Config) Gateway() netip.Addr { return c.Subnet.Addr().Next() }

// HostName names the Windows host number i, counted from 0: winhost1, winhost2, ...
func (c Config) HostName(i int) string { return fmt.Sprintf("winhost%d", i+1) }

// HostAddress is the address of the Windows host number i, counted from 0.
func (c Config) HostAddress(i int) netip.Addr {
	bytes := c.Subnet.Addr().As4()
	value := uint32(bytes[0])<<24 | uint32(bytes[1])<<16 | uint32(bytes[2])<<8 | uint32(bytes[3])
	value += uint32(firstHost + i)
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)})
}

func (c Config) mostHosts() int { return 1<<(32-c.Subnet.Bits()) - firstHost - 1 }

// Loopback is where etcd and the controller manager listen: an address of 127.0.0.0/8 that the subnet gives, so that
// sandboxes beside each other (and an etcd of the machine itself) do not meet.
func (c Config) Loopback() netip.Addr {
	b := c.Subnet.Addr().As4()
	return netip.AddrFrom4([4]byte{127, b[1], b[2], b[3] + 1})
}

// Path joins names to the sandbox's folder.
func (c Config) Path(names ...string) string {
	return filepath.Join(append([]string{c.Dir}, names...)...)
}

// APIURL is how the control host reaches the API server.
func (c Config) APIURL() string { return c.url(APIPort) }

// MachineConfigURL is the Machine Config Server's base.
func (c Config) MachineConfigURL() string { return c.url(MachineConfigPort) }

// MirrorURL is the payload mirror's base.
func (c Config) MirrorURL() string { return c.url(MirrorPort) }

func (c Config) url(port int) string {
	return "https://" + netip.AddrPortFrom(c.Gateway(), uint16(port)).String()
}

// ErrNotRunning says that a command needs a sandbox that runs.
var ErrNotRunning = errors.New("no sandbox runs here; start one with `sandbox up` (make sandbox)")
