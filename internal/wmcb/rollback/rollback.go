// Package rollback takes a machine back to the release before, as the same kind of transaction as apply. It goes back once: only an apply
// makes another roll-back possible, so that running it twice by mistake does not bring back what somebody wanted to leave.
package rollback

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/version"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
)

// Options of one run.
type Options struct {
	// Install is the install folder; empty: the default.
	Install string
	// DryRun plans and changes nothing.
	DryRun   bool
	Host     apply.Host
	Progress *progress.Reporter
}

// Run goes back to the release before and reports every step.
func Run(ctx context.Context, options Options) (nodereport.Apply, error) {
	report := nodereport.Apply{
		Header: nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Rollback", WMCB: version.Release},
		DryRun: options.DryRun, Steps: []nodereport.Step{},
	}
	if options.Install == "" {
		options.Install = nodespec.DefaultInstall
	}
	err := run(ctx, options, &report)
	if err != nil {
		err = apply.Reason("rollback", err)
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

func run(ctx context.Context, options Options, report *nodereport.Apply) error {
	if _, err := os.Stat(options.Install); errors.Is(err, fs.ErrNotExist) {
		return nothing(options.Install, "wmcb never made this machine a node", "Nothing has to be done.")
	}
	if options.DryRun {
		found, err := target(options.Install, report)
		if err != nil {
			return err
		}
		return apply.Restore(ctx, nil, found, options.Host, nil, report)
	}
	unlock, err := transaction.Lock(filepath.Join(options.Install, state.LockName))
	if err != nil {
		return err
	}
	defer unlock()
	engine, err := apply.Settle(ctx, options.Install, options.Host, report)
	if err != nil {
		return err
	}
	found, err := target(options.Install, report)
	if err != nil {
		return err
	}
	return apply.Restore(ctx, engine, found, options.Host, options.Progress, report)
}

// target reads the state and refuses where there is nowhere to go.
func target(install string, report *nodereport.Apply) (*state.State, error) {
	found, err := state.Load(install)
	if err != nil {
		return nil, err
	}
	if found == nil || found.Current == nil {
		return nil, nothing(install, "no release is applied here", "Join the machine first.")
	}
	current, previous := found.Current, found.Previous
	report.PreviousRelease, report.NodeName = current.Release, current.NodeName
	object := "release " + current.Release
	switch {
	case previous == nil && found.RolledBack != nil:
		return nil, nothing(object, fmt.Sprintf("it was gone back to from release %s at %s, and one roll-back is all there is", found.RolledBack.From, found.RolledBack.At),
			"Run the playbook of the release that the machine shall have; an apply makes a roll-back possible again.")
	case previous == nil:
		return nil, nothing(object, "it is the first one on this machine: no release before it is kept", "Run the playbook of the release that the machine shall have.")
	case previous.NodeName != current.NodeName || previous.Cluster != current.Cluster:
		return nil, nothing(object, fmt.Sprintf("with release %s the machine was node %s of cluster %q, and now it is node %s of cluster %q",
			previous.Release, previous.NodeName, previous.Cluster, current.NodeName, current.Cluster), "Remove the node and join it again.")
	}
	report.Release, report.RollbackTo = previous.Release, previous.Release
	return found, nil
}

func nothing(object, problem, remedy string) error {
	return reason.New(reason.RollbackUnavailable, object, "there is nothing to go back to: "+problem, remedy)
}
