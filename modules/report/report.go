// Package report is the module report: what a run did to each host, as a table for people and as a JSON file for scripts.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
)

// Module is the module.
var Module = ansible.New("report", Run)

// Args are the module's arguments.
type Args struct {
	Title string `json:"title" default:"Windows nodes"`
	Hosts []Host `json:"hosts" required:"true"`
	// PhaseOrder names phases in the order in which they run; others follow by name.
	PhaseOrder []string `json:"phase_order"`
	Dest       string   `json:"dest" path:"true"`
}

// Host is one line of the report.
type Host struct {
	Host           string `json:"host" required:"true"`
	Node           string `json:"node"`
	Release        string `json:"release"`
	KubeletVersion string `json:"kubelet_version"`
	Result         string `json:"result" required:"true" choices:"joined,unchanged,updated,upgraded,downgraded,rolled back,not reached,failed,removed,would change,checked,gathered,as made,drifted"`
	FailedPhase    string `json:"failed_phase"`
	Reason         string `json:"reason"`
	Msg            string `json:"msg"`
	// Note is something to know about the host.
	Note string `json:"note"`
	// Differences are those from what was made, a sentence each.
	Differences []string `json:"differences"`
	Archive     string   `json:"archive"`
	// Phases maps a phase to the seconds that it took.
	Phases map[string]float64 `json:"phases"`
}

// Result is what the module returns.
type Result struct {
	Table string `json:"table"`
	Path  string `json:"path"`
	// Totals counts hosts by result.
	Totals map[string]int `json:"totals"`
}

// document is the report file.
type document struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Title      string         `json:"title"`
	Time       string         `json:"time"`
	Release    string         `json:"release"`
	CheckMode  bool           `json:"check_mode"`
	Totals     map[string]int `json:"totals"`
	Hosts      []Host         `json:"hosts"`
}

// Run makes the report. The file is neither host nor cluster: check mode writes it too, and nothing counts as changed.
func Run(_ context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	totals := map[string]int{}
	for _, host := range args.Hosts {
		maps.DeleteFunc(host.Phases, func(_ string, seconds float64) bool { return seconds == 0 }) // a phase that was skipped
		totals[host.Result]++
	}
	result := Result{Table: table(args.Title, args.Hosts, args.PhaseOrder), Totals: totals}
	now := time.Now().UTC()
	if args.Dest != "" {
		path, err := write(destination(args.Dest, now), document{
			APIVersion: nodespec.APIVersion, Kind: "Report", Title: args.Title, Time: now.Format(time.RFC3339), Release: version.Release,
			CheckMode: env.CheckMode, Totals: totals, Hosts: args.Hosts,
		})
		if err != nil {
			return ansible.Result{Data: result}, err
		}
		result.Path = path
	}
	shown := result.Table
	if result.Path != "" {
		shown += "The same as JSON: " + result.Path + "\n"
	}
	env.Progress.Say("report", shown)
	return ansible.Result{Msg: countText(args.Hosts), Data: result}, nil
}

// destination makes of a folder a file in it.
func destination(dest string, now time.Time) string {
	info, err := os.Stat(dest)
	if strings.HasSuffix(dest, "/") || (err == nil && info.IsDir()) {
		return filepath.Join(dest, "wsu-report-"+now.Format("20060102T150405Z")+".json")
	}
	return dest
}

// write puts the file in place whole, readable by its owner: messages may name what is nobody else's business.
func write(path string, content document) (string, error) {
	remedy := "Set wsu_report_dir to a folder that you can write to."
	object := "report " + path
	encoded, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the folder may be anybody's
		return "", reason.Wrap(reason.AccessDenied, object, err, remedy)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".wsu-report-*") // 0600
	if err != nil {
		return "", reason.Wrap(reason.AccessDenied, object, err, remedy)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(append(encoded, '\n'))
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return "", reason.Wrap(reason.AccessDenied, object, err, remedy)
	}
	return path, nil
}
