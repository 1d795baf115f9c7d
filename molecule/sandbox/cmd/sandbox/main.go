// Command sandbox builds and runs a small OpenShift cluster and Windows hosts on one Linux machine, for trying and testing the project.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/lifecycle"
	"wsu.windows/sandbox/internal/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		var mistake usageErr
		if errors.As(err, &mistake) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return usageError("no command given")
	}
	name, rest := arguments[0], arguments[1:]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Print(usage())
		return nil
	}
	command, ok := find(name)
	if !ok {
		return usageError(fmt.Sprintf("unknown command %q", name))
	}
	if command.arguments(rest) != nil {
		return usageError(strings.TrimSpace(fmt.Sprintf("usage: sandbox %s %s", command.name, command.takes)))
	}
	workDir, err := os.Getwd()
	if err != nil {
		return err
	}
	settings, err := config.FromEnvironment(os.Getenv, workDir)
	if err != nil {
		return err
	}
	return command.run(ctx, lifecycle.New(settings, progress.New(os.Stdout)), rest)
}
