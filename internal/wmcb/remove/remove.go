// Package remove takes a node apart: it stops and deletes what apply, enroll and the transfer made, by the ownership that state.json
// records, and nothing else. It can be broken off and run again, it works after a half apply (which is undone first), and where there is
// nothing it says so. What it leaves is wmcb.exe itself, because a running program cannot be deleted, and the install folder around it:
// whoever called it removes them.
package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/firewall"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/version"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
)

// Options of one run. Paths are needed where no state tells them; empty ones are the defaults.
type Options struct {
	Paths nodespec.Paths
	// KeepLogs leaves the logs.
	KeepLogs bool
	// DryRun plans and changes nothing.
	DryRun   bool
	Host     apply.Host
	Progress *progress.Reporter
}

// remover knows what was found.
type remover struct {
	Options
	state *state.State
}

// Run removes the node and reports every step.
func Run(ctx context.Context, options Options) (nodereport.Apply, error) {
	spec := &nodespec.NodeSpec{Paths: options.Paths}
	nodespec.Default(spec)
	options.Paths = spec.Paths
	report := nodereport.Apply{
		Header: nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Remove", WMCB: version.Release},
		DryRun: options.DryRun, Steps: []nodereport.Step{},
	}
	err := run(ctx, options, &report)
	if err != nil {
		err = apply.Reason("remove", err)
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

func run(ctx context.Context, options Options, report *nodereport.Apply) error {
	install := options.Paths.Install
	if _, err := os.Stat(install); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !options.DryRun {
		unlock, err := transaction.Lock(filepath.Join(install, state.LockName))
		if err != nil {
			return err
		}
		defer os.Remove(filepath.Join(install, state.LockName))
		defer unlock()
		undone, err := apply.Recover(ctx, apply.NewEngine(install, options.Host), install)
		if err != nil {
			return err
		}
		report.Changed = undone
	}
	found, err := state.Load(install)
	if err != nil {
		return err
	}
	r := &remover{Options: options, state: found}
	if found != nil && found.Current != nil {
		report.Release, report.NodeName = found.Current.Release, found.Current.NodeName
		r.Paths.Logs = cmp.Or(found.Current.Paths().Logs, r.Paths.Logs)
		r.Paths.KubeletData = cmp.Or(found.Current.Paths().KubeletData, r.Paths.KubeletData)
	}
	if err := refuseUnknown(found); err != nil {
		return err
	}
	return r.do(ctx, report)
}

// refuseUnknown leaves a node that has things of a kind that this release cannot remove: they would stay for ever, since nothing would
// remember them.
func refuseUnknown(found *state.State) error {
	if found == nil {
		return nil
	}
	for _, thing := range found.Owned {
		if !slices.Contains([]string{state.OwnedFile, state.OwnedTree, state.OwnedFolder, state.OwnedService, state.OwnedFirewallRule}, thing.Kind) {
			return reason.New(reason.StateUnreadable, state.FileName,
				fmt.Sprintf("a newer release made %q, a thing of the kind %q, which this release cannot remove; nothing was removed", thing.Name, thing.Kind), "")
		}
	}
	return nil
}

// do goes through the steps in order. There is nothing to undo: the next run goes on where this one stopped.
func (r *remover) do(ctx context.Context, report *nodereport.Apply) error {
	plan, err := transaction.NewPlan(ctx, r.steps())
	if err != nil {
		return err
	}
	for _, step := range plan.Steps {
		begin := time.Now()
		if step.Finding.Differs() && !r.DryRun {
			if err = ctx.Err(); err == nil {
				r.Progress.Say("remove", step.Action)
				err = step.Do(ctx)
			}
		}
		report.Steps = append(report.Steps, nodereport.Step{
			Name: step.Name, Action: step.Action, Changed: step.Finding.Differs(), Drift: drift.Texts(step.Finding.Drift),
			Millis: (step.Took + time.Since(begin)).Milliseconds(),
		})
		report.Changed = report.Changed || step.Finding.Differs()
		if step.Finding.Warning != "" {
			report.Warnings = append(report.Warnings, step.Finding.Warning)
		}
		if err != nil {
			return fmt.Errorf("step %s: %w", step.Name, err)
		}
	}
	return nil
}

func (r *remover) steps() []transaction.Step {
	var steps []transaction.Step
	owned := r.owned()
	for _, kind := range []func(state.Owned) (transaction.Step, bool){r.service, r.rule, r.file, r.tree} {
		for _, thing := range owned {
			if step, ours := kind(thing); ours {
				steps = append(steps, step)
			}
		}
	}
	for _, thing := range deepestFirst(owned) {
		steps = append(steps, r.folder(thing))
	}
	// The state goes last: as long as it is there, a run that was broken off knows what is left.
	return append(steps, r.path("state", filepath.Join(r.Paths.Install, state.FileName)))
}

// owned adds to what the state records what was there before any state: the store, and what enroll made.
func (r *remover) owned() []state.Owned {
	var list []state.Owned
	if r.state != nil {
		list = slices.Clone(r.state.Owned)
	}
	client := apply.ClientCertificate(r.Paths.KubeletData)
	for _, thing := range []state.Owned{
		{Kind: state.OwnedFile, Name: client},
		{Kind: state.OwnedFile, Name: filepath.Join(r.Paths.Install, "kubeconfig")},
		{Kind: state.OwnedTree, Name: filepath.Join(r.Paths.Install, "store")},
	} {
		if !slices.Contains(list, thing) {
			list = append(list, thing)
		}
	}
	return list
}

// deepestFirst gives the folders that are removed only when they are empty.
func deepestFirst(owned []state.Owned) []string {
	var folders []string
	for _, thing := range owned {
		if thing.Kind == state.OwnedFolder {
			folders = append(folders, thing.Name)
		}
	}
	slices.SortFunc(folders, func(a, b string) int { return len(b) - len(a) })
	return folders
}

const present = "it is there"

func (r *remover) service(thing state.Owned) (transaction.Step, bool) {
	releases := filepath.Join(r.Paths.Install, "releases")
	return transaction.Step{
		Name: "service " + thing.Name, Action: "Stop and delete the Windows service " + thing.Name,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			config, err := r.Host.Services.Config(thing.Name)
			if err != nil {
				return transaction.Finding{}, err
			}
			if config == nil {
				left, err := r.Host.Processes.Under(releases)
				return isThere(len(left) > 0), err
			}
			if !strings.Contains(strings.ToLower(config.CommandLine), strings.ToLower(releases)) {
				return transaction.Finding{Warning: "service " + thing.Name + " is another tool's by now and stays"}, nil
			}
			return isThere(true), nil
		},
		Do: func(ctx context.Context) error { return r.deleteService(ctx, thing.Name, releases) },
	}, thing.Kind == state.OwnedService
}

// deleteService disables the service first, so that its recovery actions or a reboot do not start it again in between.
func (r *remover) deleteService(ctx context.Context, name, releases string) error {
	config, err := r.Host.Services.Config(name)
	if err != nil {
		return err
	}
	if config != nil {
		config.StartType = winservice.StartDisabled
		if err := r.Host.Services.Update(name, *config); err != nil {
			return err
		}
	}
	if _, err := apply.StopService(ctx, r.Host, name, releases, apply.StopTimeout); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return r.Host.Services.Delete(ctx, name)
}

func isThere(differs bool) transaction.Finding {
	if differs {
		return transaction.Finding{Drift: drift.Whole(present)}
	}
	return transaction.Finding{}
}

func (r *remover) rule(thing state.Owned) (transaction.Step, bool) {
	return transaction.Step{
		Name: "firewall-rule " + thing.Name, Action: "Delete the firewall rule " + thing.Name,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			rule, err := r.Host.Firewall.Rule(thing.Name)
			if errors.Is(err, firewall.ErrAbsent) {
				return transaction.Finding{}, nil
			}
			return isThere(rule != nil), err
		},
		Do: func(context.Context) error { return r.Host.Firewall.Delete(thing.Name) },
	}, thing.Kind == state.OwnedFirewallRule
}

func (r *remover) file(thing state.Owned) (transaction.Step, bool) {
	return r.path("file "+thing.Name, thing.Name), thing.Kind == state.OwnedFile
}

func (r *remover) tree(thing state.Owned) (transaction.Step, bool) {
	if r.KeepLogs && isWithin(thing.Name, r.Paths.Logs) {
		return transaction.Step{}, false
	}
	return r.path("tree "+thing.Name, thing.Name), thing.Kind == state.OwnedTree
}

func isWithin(path, folder string) bool {
	return strings.HasPrefix(strings.ToLower(path), strings.ToLower(folder)+string(filepath.Separator))
}

// path removes a file or a whole folder. Links and junctions in it are removed, not followed.
func (r *remover) path(name, path string) transaction.Step {
	return transaction.Step{
		Name: name, Action: "Delete " + path,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			_, err := os.Lstat(path)
			if errors.Is(err, fs.ErrNotExist) {
				return transaction.Finding{}, nil
			}
			return isThere(true), err
		},
		Do: func(ctx context.Context) error { return removeAll(ctx, path) },
	}
}

// removeAll tries again for a while: scanners, and containers that are going down, hold files a moment longer.
func removeAll(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		return securefile.Remove(path)
	}
	for tries := 0; ; tries++ {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
		if tries == 10 || ctx.Err() != nil {
			return reason.Wrap(reason.FileLocked, path, err, "")
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (r *remover) folder(path string) transaction.Step {
	return transaction.Step{
		Name: "folder " + path, Action: "Delete the folder " + path + " if it is empty", CheckLast: true,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			_, err := os.Lstat(path)
			return isThere(err == nil), nil
		},
		Do: func(context.Context) error {
			entries, err := os.ReadDir(path)
			if err != nil || len(entries) > 0 {
				return nil //nolint:nilerr // somebody else's things are in it, or it is gone
			}
			return os.Remove(path)
		},
	}
}
