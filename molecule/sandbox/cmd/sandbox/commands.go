package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"wsu.windows/sandbox/internal/lifecycle"
	"wsu.windows/sandbox/internal/programs"
	"wsu.windows/sandbox/winhost"
)

// command is one word of the command line.
type command struct {
	name, takes, does string
	hidden            bool
	run               func(ctx context.Context, s *lifecycle.Sandbox, arguments []string) error
}

// usageErr is a mistake on the command line.
type usageErr string

func (e usageErr) Error() string { return string(e) }

func usageError(message string) error {
	return usageErr("sandbox: " + message + "; `sandbox help` lists the commands")
}

func plain(do func(*lifecycle.Sandbox, context.Context) error) func(context.Context, *lifecycle.Sandbox, []string) error {
	return func(ctx context.Context, s *lifecycle.Sandbox, _ []string) error { return do(s, ctx) }
}

func commands() []command {
	return []command{
		{name: "up", does: "build what is missing and start the sandbox", run: plain((*lifecycle.Sandbox).Up)},
		{name: "down", does: "end everything that up started", run: plain((*lifecycle.Sandbox).Down)},
		{name: "status", does: "tell what runs", run: plain((*lifecycle.Sandbox).Status)},
		{name: "build", does: "build the programs only", run: plain((*lifecycle.Sandbox).Build)},
		{name: "mirror", does: "let the payload mirror serve what build/payload and build/release hold now",
			run: plain(func(s *lifecycle.Sandbox, _ context.Context) error { return s.Mirror() })},
		{name: "packages", does: "list the Debian packages that are needed, and fail if one is missing", run: packages},
		onHost("reboot", "shut a Windows host down and boot it", "is up again", (*winhost.Host).Reboot),
		onHost("power-cut", "take its power away and boot it", "is up again after the power cut", (*winhost.Host).PowerCut),
		onHost("freeze", "stop all its processes where they are", "is frozen", (*winhost.Host).Freeze),
		onHost("thaw", "let them go on", "goes on", (*winhost.Host).Thaw),
		onHost("cut", "take it off the network", "is off the network", (*winhost.Host).Cut),
		onHost("mend", "put it back on the network", "is on the network", (*winhost.Host).Mend),
		{name: "fill", takes: "HOST [--leave BYTES]", does: "fill its drive C:, all but BYTES (0)", run: fill},
		onHost("unfill", "give its disk space back", "has its disk space back", (*winhost.Host).Unfill),
		{name: "serve", hidden: true, run: plain((*lifecycle.Sandbox).Serve)},
	}
}

func onHost(name, does, done string, action func(*winhost.Host, context.Context) error) command {
	return command{name: name, takes: "HOST", does: does, run: func(ctx context.Context, s *lifecycle.Sandbox, arguments []string) error {
		return s.HostAction(ctx, arguments[0], done, action)
	}}
}

func fill(ctx context.Context, s *lifecycle.Sandbox, arguments []string) error {
	var leave int64
	if len(arguments) > 1 {
		var err error
		if leave, err = strconv.ParseInt(arguments[len(arguments)-1], 10, 64); err != nil || leave < 0 || len(arguments) != 3 || arguments[1] != "--leave" {
			return usageError("usage: sandbox fill HOST [--leave BYTES], BYTES being a number")
		}
	}
	return s.HostAction(ctx, arguments[0], "has a full disk", func(host *winhost.Host, ctx context.Context) error { return host.Fill(ctx, leave) })
}

func packages(_ context.Context, s *lifecycle.Sandbox, _ []string) error {
	list, err := programs.Packages(s.Config.Repository)
	if err != nil {
		return err
	}
	for _, one := range list {
		fmt.Printf("%-24s %s\n", one.Name, one.For)
	}
	return programs.Explain(programs.Missing(list, true))
}

func find(name string) (command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// arguments checks how many there are; what stands in brackets may be missing.
func (c command) arguments(given []string) error {
	required, _, _ := strings.Cut(c.takes, "[")
	least, most := len(strings.Fields(required)), len(strings.Fields(c.takes))
	if len(given) < least || len(given) > most {
		return fmt.Errorf("%d arguments", len(given))
	}
	return nil
}

func usage() string {
	var text strings.Builder
	text.WriteString("A small OpenShift cluster and Windows hosts on this machine.\n\nUsage: sandbox COMMAND\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(&text, "  %-28s %s\n", strings.TrimSpace(c.name+" "+c.takes), c.does)
		}
	}
	text.WriteString("\nEnvironment:\n" +
		"  SANDBOX_HOSTS   number of Windows hosts (2)\n" +
		"  SANDBOX_DIR     folder of the sandbox (.sandbox in the checkout)\n" +
		"  SANDBOX_SUBNET  its network (10.99.0.0/24)\n" +
		"  SANDBOX_ODD     hosts that cannot become nodes, as 2=linux,3=no-containerd,4=build:14393\n")
	return text.String()
}
