// Package winservice reads and changes Windows services through the Service Control Manager's API, behind a small interface. Times are
// time.Durations; the SCM's own resolution is a millisecond for delays and a second for the reset period.
package winservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/drift"
)

// Start types.
const (
	StartAuto     = "auto"
	StartManual   = "manual"
	StartDisabled = "disabled"
)

// States of a service.
const (
	Stopped         = "stopped"
	StartPending    = "start-pending"
	StopPending     = "stop-pending"
	Running         = "running"
	ContinuePending = "continue-pending"
	PausePending    = "pause-pending"
	Paused          = "paused"
)

// Config is a service's definition. The empty Account means LocalSystem.
type Config struct {
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	// CommandLine is the program with its arguments, quoted: see CommandLine.
	CommandLine  string   `json:"commandLine"`
	StartType    string   `json:"startType"`
	Account      string   `json:"account"`
	Dependencies []string `json:"dependencies"`
	// Environment is NAME=VALUE, sorted; it is added to the system's.
	Environment []string `json:"environment"`
	Recovery    Recovery `json:"recovery"`
}

// Recovery says what the SCM does when the service's process ends without saying so.
type Recovery struct {
	// Restarts are the delays before the first, second and every further restart.
	Restarts []time.Duration `json:"restarts"`
	// ResetAfter without a failure begins to count again.
	ResetAfter time.Duration `json:"resetAfter"`
	// OnErrors restarts the service too when it stops with an error code.
	OnErrors bool `json:"onErrors"`
}

// Status is what a service does.
type Status struct {
	State string
	// PID is 0 where the service does not run.
	PID uint32
	// ExitCode is the last run's Win32 exit code, where it is stopped.
	ExitCode uint32
}

// Services is the Service Control Manager. Names know no case. Stop and Delete are no errors where there is nothing to do.
type Services interface {
	// Config gives nil where there is no such service.
	Config(name string) (*Config, error)
	// Status gives an error of ErrNotFound where there is no such service.
	Status(name string) (Status, error)
	Create(ctx context.Context, name string, c Config) error
	Update(name string, c Config) error
	Delete(ctx context.Context, name string) error
	// Dependants gives the services that depend on it and run, in the order in which to start them.
	Dependants(name string) ([]string, error)
	// Start asks for the start and returns when the service is no longer stopped; running already is no error.
	Start(ctx context.Context, name string) error
	// Stop stops what depends on the service and then the service, and returns when the SCM says that it is stopped. The process may
	// still be there: see Processes. It gives the dependants that it stopped.
	Stop(ctx context.Context, name string) (dependants []string, err error)
}

// NotFoundError says that there is no such service.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return "service " + e.Name + " does not exist" }

// ErrDied is in the chain of Start's error where the service's process ended, or did not answer the SCM, before it was running.
var ErrDied = errors.New("its process ended, or did not answer, before it ran")

// Process is a running program.
type Process struct {
	PID  uint32
	Path string
}

// Processes looks at running programs.
type Processes interface {
	// Under gives the processes whose program lies below the folder.
	Under(folder string) ([]Process, error)
	// Wait returns when none of them runs any more, or with the context's error.
	Wait(ctx context.Context, processes []Process) error
	// Kill ends them.
	Kill(processes []Process) error
}

// Diff names what in have differs from want, field by field.
func Diff(have, want Config) []drift.Difference {
	list := commandDrift(have.CommandLine, want.CommandLine)
	add := func(field string, have, want any) {
		if fmt.Sprint(have) != fmt.Sprint(want) {
			list = append(list, drift.Difference{Field: field, Seen: shown(have), Desired: shown(want)})
		}
	}
	add("start type", have.StartType, want.StartType)
	add("account", Account(have.Account), Account(want.Account))
	add("dependencies", lower(have.Dependencies), lower(want.Dependencies))
	if !slices.Equal(have.Environment, want.Environment) {
		list = append(list, drift.Difference{Field: "environment", Seen: "it differs"}) // a proxy's URL may hold a password
	}
	add("recovery actions", have.Recovery.Restarts, want.Recovery.Restarts)
	add("recovery reset period", have.Recovery.ResetAfter, want.Recovery.ResetAfter)
	add("recovery on errors", have.Recovery.OnErrors, want.Recovery.OnErrors)
	add("display name", have.DisplayName, want.DisplayName)
	add("description", have.Description, want.Description)
	return list
}

// NeedsRestart reports whether the difference matters to the running process.
func NeedsRestart(have, want Config) bool {
	return have.CommandLine != want.CommandLine || Account(have.Account) != Account(want.Account) ||
		!slices.Equal(have.Environment, want.Environment)
}

// Account gives the one name of the account, which Windows reports as LocalSystem.
func Account(name string) string {
	if name == "" || strings.EqualFold(name, "LocalSystem") {
		return "LocalSystem"
	}
	return name
}

func lower(names []string) []string {
	out := []string{}
	for _, name := range names {
		out = append(out, strings.ToLower(name))
	}
	return out
}

func shown(value any) string {
	if text, ok := value.(string); ok {
		return "'" + text + "'"
	}
	return fmt.Sprint(value)
}

// CommandLine quotes a program and its arguments as CommandLineToArgvW and the Microsoft C runtime take them apart
// (https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments).
func CommandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = escape(arg)
	}
	return strings.Join(quoted, " ")
}

// escape is windows.EscapeArg, which exists on Windows alone.
func escape(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\v\"") {
		return arg
	}
	var out strings.Builder
	out.WriteByte('"')
	backslashes := 0
	for i := range len(arg) {
		switch arg[i] {
		case '\\':
			backslashes++
		case '"': // each backslash in front is doubled, and the quote gets one more
			out.WriteString(strings.Repeat(`\`, backslashes+1))
			backslashes = 0
		default:
			backslashes = 0
		}
		out.WriteByte(arg[i])
	}
	out.WriteString(strings.Repeat(`\`, backslashes)) // they stand before the closing quote
	out.WriteByte('"')
	return out.String()
}
