// Package ansible speaks Ansible's binary-module protocol, so that a module is three things and nothing else: a struct
// of arguments, a function, and its documentation.
//
// The first command line argument names a JSON file (or /dev/fd/N) of bare arguments with `_ansible_*` keys beside them;
// one JSON object goes to stdout, progress lines to stderr. See
// https://docs.ansible.com/ansible/latest/dev_guide/developing_program_flow_modules.html (binary modules).
package ansible

import (
	"context"
	"io"

	"wsu.windows/internal/progress"
)

// Module is one Ansible module. Make it with New.
type Module struct {
	// Name is the module's own, without the collection's.
	Name string
	// Options are the arguments, for documentation and its check.
	Options []Option

	run func(ctx context.Context, env *Env, raw map[string]any) (Result, error)
}

// New makes a module out of its function. A is a struct whose fields are the arguments, by these tags:
//
//	json:"name"        the argument's name; fields without it are no arguments
//	default:"text"     the value where the argument is absent or null, written as a user would
//	required:"true"    must be given and not empty
//	choices:"a,b"      the only values
//	secret:"true"      never shown; names with password, passphrase, token or secret_key are secret anyway
//	path:"true"        a file path on the control host: ~ and $VAR are expanded
//	opaque:"true"      a struct that the action plugin fills, whose parts are not documented one by one
//
// If *A has a method Validate() error, it is called after decoding. run gets a context that a signal cancels.
// A Result that is returned beside an error is reported too (changed, Data), with failed set.
func New[A any](name string, run func(ctx context.Context, env *Env, args *A) (Result, error)) Module {
	var zero A
	return Module{
		Name:    name,
		Options: OptionsOf(zero),
		run: func(ctx context.Context, env *Env, raw map[string]any) (Result, error) {
			args := new(A)
			if err := Decode(raw, args); err != nil {
				return Result{}, err
			}
			if v, ok := any(args).(interface{ Validate() error }); ok {
				if err := v.Validate(); err != nil {
					return Result{}, err
				}
			}
			return run(ctx, env, args)
		},
	}
}

// Env is what a module knows of the run besides its arguments.
type Env struct {
	// CheckMode: say what would be done, change nothing.
	CheckMode bool
	// DiffMode: fill Result.Diff.
	DiffMode bool
	// Verbosity is the number of -v.
	Verbosity int
	// Host is the inventory's name of the host that the task is for, or empty.
	Host string
	// Progress writes progress lines; never nil in a run of Main, and a nil one is harmless.
	Progress *progress.Reporter
	// Log takes text for -vvv: it goes to stderr as it is, without secrets.
	Log io.Writer

	redactor *redactor
}

// Secret tells the run a secret that did not come as an argument, so that it is replaced wherever it would be shown.
func (e *Env) Secret(values ...string) {
	if e != nil && e.redactor != nil {
		e.redactor.add(values...)
	}
}

// Diff is shown by --diff.
type Diff struct {
	BeforeHeader string `json:"before_header,omitempty"`
	AfterHeader  string `json:"after_header,omitempty"`
	Before       string `json:"before"`
	After        string `json:"after"`
}

// Result is what a module reports.
type Result struct {
	Changed bool
	// Msg is one sentence for people; on failure the error's text takes its place.
	Msg string
	// Warnings are shown by Ansible in the run's output.
	Warnings []string
	Diff     []Diff
	// Data is a struct or map whose fields stand at the result's top level.
	Data any
}
