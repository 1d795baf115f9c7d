//go:build sandbox

package winhost_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"wsu.windows/sandbox/winhost"
)

// The tests' own bridge and subnet. containerd.exe comes in SANDBOX_CONTAINERD; the base prefix is kept in build/ between runs.
const (
	bridge   = "winhosttest0"
	gateway  = "10.98.77.1"
	password = "Not a secret: 10.98.77.0/24"
)

var (
	work       string // everything of the tests
	module     string // of wsu.windows/sandbox
	containerd = os.Getenv("SANDBOX_CONTAINERD")
	shared     *winhost.Host
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "windows host tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx := context.Background()
	var err error
	if module, err = filepath.Abs(".."); err != nil {
		return 1, err
	}
	cache := filepath.Join(module, "..", "..", "build", "winhost-test")
	if err := winhost.Prepare(ctx, winhost.PrepareConfig{BaseDir: filepath.Join(cache, "base"), ModuleDir: module, Containerd: containerd}); err != nil {
		return 1, err
	}
	if work, err = os.MkdirTemp(cache, "run"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(work)
	if err := makeBridge(); err != nil {
		return 1, err
	}
	defer exec.Command("ip", "link", "del", bridge).Run()
	if err := keygen(); err != nil {
		return 1, err
	}
	if shared, err = newHost("shared", 11); err != nil {
		return 1, err
	}
	defer shared.Destroy(ctx)
	if err := shared.Start(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func makeBridge() error {
	exec.Command("ip", "link", "del", bridge).Run() // of a run that was killed
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"}, {"addr", "add", gateway + "/24", "dev", bridge}, {"link", "set", bridge, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

func keygen() error {
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(work, "key")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	return nil
}

func newHost(name string, last int) (*winhost.Host, error) {
	key, err := os.ReadFile(filepath.Join(work, "key.pub"))
	return &winhost.Host{
		Name: name, Address: netip.MustParsePrefix(fmt.Sprintf("10.98.77.%d/24", last)), Gateway: netip.MustParseAddr(gateway),
		Bridge: bridge, Dir: filepath.Join(work, name), BaseDir: filepath.Join(filepath.Dir(work), "base"),
		AuthorizedKey: string(key), Password: password, NoContainerd: containerd == "",
		Hosts: map[string]netip.Addr{"api.example": netip.MustParseAddr(gateway)},
	}, err
}

// start makes a host of the test's own.
func start(t *testing.T, name string, last int, change func(*winhost.Host)) *winhost.Host {
	t.Helper()
	host, err := newHost(name, last)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(host)
	}
	t.Cleanup(func() {
		if err := host.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return host
}

func dial(host *winhost.Host, methods ...ssh.AuthMethod) (*ssh.Client, error) {
	if len(methods) == 0 {
		private, err := os.ReadFile(filepath.Join(work, "key"))
		if err != nil {
			return nil, err
		}
		signer, err := ssh.ParsePrivateKey(private)
		if err != nil {
			return nil, err
		}
		methods = []ssh.AuthMethod{ssh.PublicKeys(signer)}
	}
	line, err := host.KnownHostsLine()
	if err != nil {
		return nil, err
	}
	_, _, key, _, _, err := ssh.ParseKnownHosts([]byte(line + "\n"))
	if err != nil {
		return nil, err
	}
	return ssh.Dial("tcp", host.Address.Addr().String()+":22", &ssh.ClientConfig{
		User: "Administrator", Auth: methods, HostKeyCallback: ssh.FixedHostKey(key), Timeout: 10 * time.Second,
	})
}

// sshRun runs one command over a connection of its own and returns what it printed.
func sshRun(t *testing.T, host *winhost.Host, command string) (string, error) {
	t.Helper()
	client, err := dial(host)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	out, err := session.Output(command)
	return string(out), err
}
