// Package wmcb is the module wmcb: one subcommand of wmcb.exe on a Windows host, its document as the task's result.
package wmcb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/remotewmcb"
	"wsu.windows/internal/transport"
)

// Module is the module.
var Module = ansible.New("wmcb", Run)

// Args are the module's arguments. Timeout is in seconds.
type Args struct {
	Connection *transport.Config `json:"connection" opaque:"true"`
	WMCB       remotewmcb.Binary `json:"wmcb" required:"true"`
	InstallDir string            `json:"install_dir" default:"C:\\k"`
	Command    string            `json:"command" required:"true" choices:"preflight,enroll,apply,rollback,status,remove,collect"`
	// Spec is the NodeSpec of enroll and apply, and the request of preflight.
	Spec    map[string]any `json:"spec"`
	Options Options        `json:"options"`
	// Dest is the local file of collect.
	Dest    string `json:"dest" path:"true"`
	Timeout int    `json:"timeout" default:"1800"`
}

// Options are those of the subcommands; each knows some of them.
type Options struct {
	// Wait is how long enroll and apply wait for a certificate, in seconds.
	Wait           int    `json:"wait"`
	LogLines       int    `json:"log_lines"`
	LogDir         string `json:"log_dir"`
	KubeletDataDir string `json:"kubelet_data_dir"`
	KeepLogs       bool   `json:"keep_logs"`
}

// Result is what the module returns.
type Result struct {
	// Document is what wmcb printed; null where check mode did not run it.
	Document map[string]any `json:"document"`
}

// Validate says what does not go together.
func (a *Args) Validate() error {
	needsSpec := a.Command == "preflight" || a.Command == "enroll" || a.Command == "apply"
	switch {
	case needsSpec && len(a.Spec) == 0:
		return reason.New(reason.ArgumentInvalid, "argument spec", a.Command+" needs it", "")
	case !needsSpec && len(a.Spec) > 0:
		return reason.New(reason.ArgumentInvalid, "argument spec", a.Command+" has no use for it", "")
	case (a.Command == "collect") != (a.Dest != ""):
		return reason.New(reason.ArgumentInvalid, "argument dest", "it is for the command collect, and required there", "")
	}
	return nil
}

// Run runs the subcommand.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(args.Timeout)*time.Second)
	defer cancel()
	c := &call{args: args, env: env}
	if env.CheckMode && args.Command == "enroll" {
		return c.wouldEnroll(ctx)
	}
	if args.Command == "collect" {
		return c.collect(ctx)
	}
	document := newDocument(args.Command)
	err := c.run(ctx, c.line(), document)
	if args.Command == "remove" && err == nil && !env.CheckMode {
		err = c.removeProgram(ctx)
	}
	c.close(ctx)
	return result(env.Host, document, c.ran), withLog(err, document)
}

// withLog adds to a failed apply what became of the node, and the end of the kubelet's log: few people open a support archive first.
func withLog(err error, document any) error {
	apply, ok := document.(*nodereport.Apply)
	var failure *reason.Error
	if !ok || !errors.As(err, &failure) {
		return err
	}
	told := *failure
	if apply.RolledBack {
		told.Problem += "; what was begun was undone, and the machine is as before"
	}
	if n := len(apply.KubeletLog); n > 0 {
		const most = 3
		told.Problem += "; the kubelet's log ends with: " + remotewmcb.Clean(strings.Join(apply.KubeletLog[max(0, n-most):], " | "))
	}
	return &told
}

// newDocument gives the type that a subcommand's document has; decoding into it is what checks it.
func newDocument(command string) any {
	switch command {
	case "preflight":
		return &nodereport.Preflight{}
	case "enroll":
		return &nodereport.Enroll{}
	case "apply", "rollback", "remove":
		return &nodereport.Apply{}
	case "status":
		return &nodereport.Status{}
	}
	return &nodereport.Collect{}
}

// line is the subcommand with its arguments.
func (c *call) line() []string {
	o, line := c.args.Options, []string{c.args.Command}
	flag := func(name, value string) { line = append(line, name, value) }
	switch c.args.Command {
	case "preflight":
		flag("-f", "-")
	case "enroll", "apply":
		flag("-f", "-")
		flag("--wait", fmt.Sprintf("%ds", o.Wait))
	case "status":
		flag("--install-dir", c.args.InstallDir)
		flag("--log-lines", fmt.Sprint(o.LogLines))
	case "rollback":
		flag("--install-dir", c.args.InstallDir)
	case "remove":
		flag("--install-dir", c.args.InstallDir)
		if o.KubeletDataDir != "" {
			flag("--kubelet-data-dir", o.KubeletDataDir)
		}
		if o.KeepLogs {
			line = append(line, "--keep-logs")
		}
	}
	if o.LogDir != "" && c.args.Command == "remove" {
		flag("--log-dir", o.LogDir)
	}
	if _, changes := newDocument(c.args.Command).(*nodereport.Apply); changes && c.env.CheckMode {
		line = append(line, "--dry-run")
	}
	return line
}

// result shows a document; one that never came stays null.
func result(host string, document any, ran bool) ansible.Result {
	if !ran {
		return ansible.Result{Data: Result{}}
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return ansible.Result{Data: Result{}}
	}
	var shown map[string]any
	if json.Unmarshal(raw, &shown) != nil || shown["kind"] == "" {
		return ansible.Result{Data: Result{}}
	}
	remotewmcb.CleanDocument(shown)
	r := ansible.Result{Data: Result{Document: shown}}
	r.Changed, _ = shown["changed"].(bool)
	if apply, ok := document.(*nodereport.Apply); ok {
		r.Diff, r.Msg, r.Warnings = diffs(apply.Steps), summary(apply), apply.Warnings
	}
	if preflight, ok := document.(*nodereport.Preflight); ok {
		r.Warnings = warnings(preflight.Checks)
	}
	for i := range r.Warnings { // Ansible shows them without the host
		r.Warnings[i] = host + ": " + remotewmcb.Clean(r.Warnings[i])
	}
	return r
}

func warnings(checks []nodereport.Check) []string {
	var texts []string
	for _, check := range checks {
		if check.Result == nodereport.Warn {
			texts = append(texts, check.Name+": "+check.Seen+". "+check.Remedy)
		}
	}
	return texts
}

func diffs(steps []nodereport.Step) []ansible.Diff {
	var list []ansible.Diff
	for _, step := range steps {
		if step.Changed {
			before, after := step.Before, step.After
			if before == "" && after == "" {
				after = step.Action + "\n"
			}
			list = append(list, ansible.Diff{BeforeHeader: step.Name, AfterHeader: step.Name, Before: before, After: after})
		}
	}
	return list
}

func summary(document *nodereport.Apply) string {
	changed := 0
	for _, step := range document.Steps {
		if step.Changed {
			changed++
		}
	}
	if changed == 0 {
		return "nothing to change"
	}
	verb := "changed"
	if document.DryRun {
		verb = "would change"
	}
	return fmt.Sprintf("%s %d of %d", verb, changed, len(document.Steps))
}

// spec is the standard input; nil where there is none. Templates make strings of numbers and truths; the document's own types say what was
// meant.
func (c *call) spec() (io.Reader, error) {
	if len(c.args.Spec) == 0 {
		return nil, nil
	}
	var typed any = &nodespec.NodeSpec{}
	if c.args.Command == "preflight" {
		typed = &nodespec.Preflight{}
	}
	if err := ansible.Decode(c.args.Spec, typed); err != nil {
		known := reason.Of(err)
		return nil, reason.New(reason.ArgumentInvalid, "argument spec: "+strings.TrimPrefix(known.Object, "argument "), known.Problem, known.Remedy)
	}
	raw, err := json.Marshal(typed)
	if err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument spec", err, "")
	}
	return bytes.NewReader(raw), nil
}
