// Command winhost starts one Windows host with a bridge of its own, for work on what runs in it. See the package winhost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/sandbox/winhost"
)

const usage = `usage: winhost COMMAND [flags] [arguments]
commands: up down status reboot powercut freeze thaw cut mend fill unfill
          exec PROGRAM [ARGUMENT...]   runs a Windows program in the host
flags:`

type settings struct {
	dir, bridge, module, containerd string
	address, gateway                netip.Prefix
	host                            winhost.Host
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if exit, itself := err.(*exec.ExitError); itself { //nolint:errorlint // the program's that was run, not a wrapped one
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "winhost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	s, flags := parser()
	if len(args) == 0 {
		flags.Usage()
		return errors.New("no command")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := s.complete(); err != nil {
		return err
	}
	h := &s.host
	commands := map[string]func(context.Context) error{
		"up": s.up, "down": s.down, "status": s.status, "reboot": h.Reboot, "powercut": h.PowerCut, "freeze": h.Freeze, "thaw": h.Thaw,
		"cut": h.Cut, "mend": h.Mend, "unfill": h.Unfill,
		"fill": func(ctx context.Context) error { return h.Fill(ctx, 0) },
		"exec": func(ctx context.Context) error { return s.exec(ctx, flags.Args()) },
	}
	command, known := commands[args[0]]
	if !known {
		flags.Usage()
		return fmt.Errorf("%s: no such command", args[0])
	}
	return command(ctx)
}

func parser() (*settings, *flag.FlagSet) {
	s := &settings{}
	flags := flag.NewFlagSet("winhost", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", ".winhost", "`folder` for the base prefix, the host and its keys")
	flags.StringVar(&s.bridge, "bridge", "winhost0", "`name` of the bridge, made if absent")
	flags.StringVar(&s.module, "module", ".", "`folder` of the module wsu.windows/sandbox")
	flags.StringVar(&s.containerd, "containerd", "", "`path` of containerd.exe; without it the host has no container runtime")
	flags.TextVar(&s.address, "address", netip.MustParsePrefix("10.98.0.11/24"), "`address` of the host with the subnet's length")
	flags.TextVar(&s.gateway, "gateway", netip.MustParsePrefix("10.98.0.1/24"), "`address` of the bridge with the subnet's length")
	flags.StringVar(&s.host.Name, "name", "winhost1", "host `name`")
	flags.StringVar(&s.host.Password, "password", "", "Administrator's `password` (of a machine that nobody else reaches)")
	flags.IntVar(&s.host.Build, "build", 0, "reported `build` of Windows")
	flags.BoolVar(&s.host.NotWindows, "linux", false, "a host that is not Windows")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), usage)
		flags.PrintDefaults()
	}
	return s, flags
}

func (s *settings) complete() error {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.dir = dir
	s.host.Address, s.host.Gateway, s.host.Bridge = s.address, s.gateway.Addr(), s.bridge
	s.host.Dir, s.host.BaseDir = filepath.Join(dir, "hosts", s.host.Name), filepath.Join(dir, "base")
	s.host.NoContainerd = s.containerd == ""
	return nil
}

func (s *settings) up(ctx context.Context) error {
	if err := winhost.Prepare(ctx, winhost.PrepareConfig{BaseDir: s.host.BaseDir, ModuleDir: s.module, Containerd: s.containerd}); err != nil {
		return err
	}
	if err := s.key(ctx); err != nil {
		return err
	}
	if err := s.makeBridge(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := s.host.Start(ctx); err != nil {
		return err
	}
	known, err := s.host.KnownHostsLine()
	if err != nil {
		return err
	}
	knownHosts := filepath.Join(s.dir, "known_hosts")
	if err := os.WriteFile(knownHosts, []byte(known+"\n"), 0o600); err != nil {
		return err
	}
	fmt.Printf("up in %s:\n  ssh -i %s -o UserKnownHostsFile=%s Administrator@%s ver\n",
		time.Since(began).Round(time.Millisecond), filepath.Join(s.dir, "id_ed25519"), knownHosts, s.address.Addr())
	return nil
}

func (s *settings) key(ctx context.Context) error {
	path := filepath.Join(s.dir, "id_ed25519")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	public, err := os.ReadFile(path + ".pub")
	s.host.AuthorizedKey = string(public)
	return err
}

func (s *settings) makeBridge(ctx context.Context) error {
	if _, err := os.Stat("/sys/class/net/" + s.bridge); err == nil {
		return nil
	}
	for _, args := range [][]string{
		{"link", "add", s.bridge, "type", "bridge"}, {"addr", "add", s.gateway.String(), "dev", s.bridge}, {"link", "set", s.bridge, "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// down ends the host, deletes its directory and the bridge; the base prefix stays for the next time.
func (s *settings) down(ctx context.Context) error {
	if err := s.host.Destroy(ctx); err != nil {
		return err
	}
	if _, err := os.Stat("/sys/class/net/" + s.bridge); err != nil {
		return nil //nolint:nilerr // there is none to end
	}
	left, err := filepath.Glob("/sys/class/net/" + s.bridge + "/brif/*")
	if err != nil || len(left) > 0 {
		return err // another host is still on it
	}
	return exec.CommandContext(ctx, "ip", "link", "del", s.bridge).Run()
}

func (s *settings) status(ctx context.Context) error {
	status, err := s.host.Status(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s: running %t, frozen %t, boots %d, up for %s, ssh %t\n", status.Name, status.Running, status.Frozen, status.Boots,
		status.UpFor, status.SSH)
	for name, state := range status.Services {
		fmt.Printf("  %-20s %s\n", name, state)
	}
	return nil
}

func (s *settings) exec(ctx context.Context, args []string) error {
	cmd, err := s.host.Command(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
