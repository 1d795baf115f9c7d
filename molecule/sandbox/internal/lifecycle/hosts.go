package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/state"
	"wsu.windows/sandbox/winhost"
)

// recordFile is where a host keeps, in its folder, what identifies its processes.
const recordFile = "host.json"

// containerdWithin bounds the wait for the container runtime after the boot; twenty hosts on two cores take their turns.
const containerdWithin = 3 * time.Minute

func (s *Sandbox) knownHosts() string { return s.Config.Path("ssh", "known_hosts") }
func (s *Sandbox) privateKey() string { return s.Config.Path("ssh", "id_ed25519") }
func (s *Sandbox) baseDir() string    { return s.Config.Path("base") }

// host is the Windows host that was recorded.
func (s *Sandbox) host(recorded state.Host, authorizedKey string) (*winhost.Host, error) {
	address, err := netip.ParseAddr(recorded.Address)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", recorded.Name, err)
	}
	gateway := s.Config.Gateway()
	return &winhost.Host{
		Name: recorded.Name, Dir: recorded.Dir, BaseDir: s.baseDir(),
		Address: netip.PrefixFrom(address, s.Config.Subnet.Bits()), Gateway: gateway, Bridge: s.Config.Bridge(),
		Hosts:         map[string]netip.Addr{config.APIInt: gateway, config.API: gateway, "mirror." + config.Domain: gateway},
		AuthorizedKey: authorizedKey,
	}, nil
}

// startHosts starts all Windows hosts at once and waits until each answers over SSH and runs containerd.
func (s *Sandbox) startHosts(ctx context.Context) error {
	if s.Config.Hosts == 0 {
		return nil
	}
	s.Log.Phase(fmt.Sprintf("Windows hosts (%d)", s.Config.Hosts))
	err := s.Log.Step("base prefix", func() error {
		return winhost.Prepare(ctx, winhost.PrepareConfig{
			BaseDir: s.baseDir(), ModuleDir: filepath.Join(s.Config.Repository, "molecule", "sandbox"), Containerd: s.Config.Path("bin", "containerd.exe"),
		})
	})
	if err != nil {
		return err
	}
	key, err := s.newKey(ctx)
	if err != nil {
		return err
	}
	if s.Config.AnyWinRM() {
		if err := s.startWinRM(ctx); err != nil {
			return err
		}
	}
	// Recorded before they exist: ending a host that was never started is no error.
	err = s.record(func(st *state.State) {
		for i := range s.Config.Hosts {
			name := s.Config.HostName(i)
			st.Hosts = append(st.Hosts, state.Host{Name: name, Address: s.Config.HostAddress(i).String(), Dir: s.Config.Path("hosts", name)})
		}
	})
	if err != nil {
		return err
	}
	return s.startEach(ctx, key)
}

func (s *Sandbox) startEach(ctx context.Context, key string) error {
	lines := make([]string, len(s.state.Hosts))
	problems := make([]error, len(s.state.Hosts))
	var group sync.WaitGroup
	for i := range s.state.Hosts {
		group.Go(func() { lines[i], problems[i] = s.startHost(ctx, i, key) })
	}
	group.Wait()
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return os.WriteFile(s.knownHosts(), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// startHost returns the host's line for known_hosts.
func (s *Sandbox) startHost(ctx context.Context, i int, key string) (string, error) {
	recorded := s.state.Hosts[i]
	host, err := s.host(recorded, key)
	if err != nil {
		return "", err
	}
	odd := s.Config.Odd[i+1]
	host.NotWindows, host.NoContainerd, host.Build = odd.NotWindows, odd.NoContainerd, odd.Build
	reached := "SSH"
	if s.Config.WinRM(i) {
		reached = "SSH and WinRM"
		if err := s.addWinRM(ctx, host); err != nil {
			return "", err
		}
	}
	err = s.Log.Step(fmt.Sprintf("%s %s: %s", recorded.Name, recorded.Address, reached), func() error {
		startErr := host.Start(ctx)
		return errors.Join(startErr, s.recordHost(i))
	})
	if err != nil {
		return "", err
	}
	if odd.NotWindows || odd.NoContainerd {
		return host.KnownHostsLine()
	}
	if err := s.Log.Step(recorded.Name+": containerd", func() error { return awaitContainerd(ctx, host) }); err != nil {
		return "", err
	}
	return host.KnownHostsLine()
}

// recordHost keeps a copy of the host's own record.
func (s *Sandbox) recordHost(i int) error {
	content, err := os.ReadFile(filepath.Join(s.state.Hosts[i].Dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it never came to a process
	}
	if err != nil {
		return fmt.Errorf("host %s: %w", s.state.Hosts[i].Name, err)
	}
	return s.record(func(st *state.State) { st.Hosts[i].Record = json.RawMessage(content) })
}

func awaitContainerd(ctx context.Context, host *winhost.Host) error {
	deadline := time.Now().Add(containerdWithin)
	for {
		services, err := host.Services(ctx, "containerd")
		if err == nil && strings.EqualFold(services["containerd"], "running") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("host %s: containerd does not run after %s (state %q): see C:\\ProgramData\\containerd in the host and %s: %w",
				host.Name, containerdWithin, services["containerd"], host.Log("init.log"), errors.Join(err, context.DeadlineExceeded))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s: %w", host.Name, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// newKey makes the administrator's SSH key and returns its public half.
func (s *Sandbox) newKey(ctx context.Context) (string, error) {
	if err := os.MkdirAll(filepath.Dir(s.privateKey()), 0o700); err != nil {
		return "", fmt.Errorf("ssh key: %w", err)
	}
	command := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", s.privateKey())
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("ssh-keygen: %w: %s", err, strings.TrimSpace(string(output)))
	}
	public, err := os.ReadFile(s.privateKey() + ".pub")
	if err != nil {
		return "", fmt.Errorf("ssh key: %w", err)
	}
	return string(public), nil
}

// stopHosts ends all recorded hosts at once and deletes them.
func (s *Sandbox) stopHosts(ctx context.Context) error {
	if s.state == nil {
		return nil
	}
	problems := make([]error, len(s.state.Hosts))
	var group sync.WaitGroup
	for i, recorded := range s.state.Hosts {
		group.Go(func() { problems[i] = s.stopHost(ctx, recorded) })
	}
	group.Wait()
	return errors.Join(problems...)
}

func (s *Sandbox) stopHost(ctx context.Context, recorded state.Host) error {
	if err := restoreRecord(recorded); err != nil {
		return err
	}
	if !exists(recorded.Dir) {
		return nil
	}
	host, err := s.host(recorded, "")
	if err != nil {
		return err
	}
	return s.Log.Step(recorded.Name, func() error { return host.Destroy(ctx) })
}

// restoreRecord puts the host's record back if somebody deleted the folder under the running host.
func restoreRecord(recorded state.Host) error {
	file := filepath.Join(recorded.Dir, recordFile)
	if recorded.Record == nil || exists(file) {
		return nil
	}
	if err := os.MkdirAll(recorded.Dir, 0o700); err != nil {
		return fmt.Errorf("host %s: %w", recorded.Name, err)
	}
	if err := os.WriteFile(file, recorded.Record, 0o600); err != nil {
		return fmt.Errorf("host %s: %w", recorded.Name, err)
	}
	return nil
}

// hostsDown names the recorded hosts that do not run. One that is frozen or cut off runs.
func (s *Sandbox) hostsDown(ctx context.Context) []string {
	var down []string
	for _, recorded := range s.state.Hosts {
		host, err := s.host(recorded, "")
		if err == nil {
			var status winhost.Status
			if status, err = host.Status(ctx); err == nil && status.Running {
				continue
			}
		}
		down = append(down, recorded.Name)
	}
	return down
}

// HostAction does something to one host and says what came of it.
func (s *Sandbox) HostAction(ctx context.Context, name, done string, action func(*winhost.Host, context.Context) error) error {
	if err := requireRoot(); err != nil {
		return err
	}
	return s.locked(func() error {
		i, err := s.find(name)
		if err != nil {
			return err
		}
		host, err := s.host(s.state.Hosts[i], "")
		if err != nil {
			return err
		}
		if err := s.Log.Step(name+" "+done, func() error { return action(host, ctx) }); err != nil {
			return err
		}
		return s.recordHost(i) // a reboot or a power cut may give it another first process
	})
}

func (s *Sandbox) find(name string) (int, error) {
	if err := s.load(); err != nil {
		return 0, err
	}
	if s.state == nil {
		return 0, config.ErrNotRunning
	}
	var names []string
	for i, host := range s.state.Hosts {
		if host.Name == name {
			return i, nil
		}
		names = append(names, host.Name)
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("host %q: this sandbox runs without Windows hosts (SANDBOX_HOSTS=0)", name)
	}
	return 0, fmt.Errorf("host %q: no such host; there are %s", name, strings.Join(names, ", "))
}
