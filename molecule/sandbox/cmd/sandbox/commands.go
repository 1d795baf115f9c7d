package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"wsu.windows/sandbox/internal/lifecycle"
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
	return usageErr("sandbox: " + message + "\n\n" + usage())
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
		{name: "mirror", does: "let the payload mirror serve what build/payload holds now",
			run: plain(func(s *lifecycle.Sandbox, _ context.Context) error { return s.Mirror() })},
		{name: "serve", hidden: true, run: plain((*lifecycle.Sandbox).Serve)},
	}
}

func find(name string) (command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// arguments checks how many there are.
func (c command) arguments(given []string) error {
	want := len(strings.Fields(c.takes))
	if len(given) != want {
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
		"  SANDBOX_SUBNET  its network (10.99.0.0/24)\n")
	return text.String()
}
