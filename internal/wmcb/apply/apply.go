package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/version"
	"wsu.windows/internal/wmcb/state"
)

// logLines is how much of the kubelet's log a failure shows.
const logLines = 30

// Run makes the machine what the specification says and reports every step. The report is complete on failure too; its Error is the
// error that is returned.
func Run(ctx context.Context, options Options) (nodereport.Apply, error) {
	report := nodereport.Apply{
		Header:  nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Apply", WMCB: version.Release},
		DryRun:  options.DryRun,
		Release: options.Spec.Release, NodeName: options.Spec.Node.Name, Steps: []nodereport.Step{},
	}
	err := run(ctx, options, &report)
	if err != nil {
		report.Error = reason.Of(asReason(err))
	}
	report.OK = err == nil
	return report, err
}

// asReason gives step errors without a reason the reason ApplyFailed; a broken off run is Interrupted.
func asReason(err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return reason.Wrap(reason.Interrupted, "apply", err, "")
	}
	object := "apply"
	var step *transaction.StepError
	if errors.As(err, &step) {
		object, err = "step "+step.Step, step.Err
	}
	return reason.Wrap(reason.ApplyFailed, object, err, "")
}

func run(ctx context.Context, options Options, report *nodereport.Apply) error {
	install := options.Spec.Paths.Install
	if options.DryRun {
		return dryRun(ctx, options, report)
	}
	if err := makeInstallFolder(install); err != nil {
		return err
	}
	unlock, err := transaction.Lock(filepath.Join(install, state.LockName))
	if err != nil {
		return err
	}
	defer unlock()
	engine := NewEngine(install, options.Host)
	recovered, err := Recover(ctx, engine, install)
	if err != nil {
		return err
	}
	if recovered {
		report.Changed = true
		report.Warnings = append(report.Warnings, "an earlier run had been broken off; what it had done was undone first")
	}
	return settle(ctx, options, engine, report)
}

// Recover settles what an earlier run left, and removes what it had put aside.
func Recover(ctx context.Context, engine *transaction.Engine, install string) (bool, error) {
	undone, err := engine.Recover(ctx)
	if err != nil {
		if reason.Is(err, reason.StateUnreadable) {
			return undone, err
		}
		return undone, reason.Wrap(reason.ApplyFailed, "unfinished transaction", err, "")
	}
	return undone, os.RemoveAll(undoFolder(install))
}

func makeInstallFolder(install string) error {
	for _, parent := range parents(install) {
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	return securefile.MakeFolder(install)
}

func dryRun(ctx context.Context, options Options, report *nodereport.Apply) error {
	before, err := state.Load(options.Spec.Paths.Install)
	if err != nil {
		return err
	}
	_, plan, err := newPlan(ctx, options, before, true)
	fillSteps(report, plan)
	return err
}

func newPlan(ctx context.Context, options Options, before *state.State, mayLack bool) (*builder, *transaction.Plan, error) {
	b, err := newBuilder(ctx, options, before, mayLack)
	if err != nil {
		return nil, nil, err
	}
	steps, err := b.steps()
	if err != nil {
		return b, nil, err
	}
	plan, err := transaction.NewPlan(ctx, steps)
	return b, plan, err
}

func settle(ctx context.Context, options Options, engine *transaction.Engine, report *nodereport.Apply) error {
	install := options.Spec.Paths.Install
	before, err := state.Load(install)
	if err != nil {
		return err
	}
	b, plan, err := newPlan(ctx, options, before, false)
	if err != nil {
		fillSteps(report, plan)
		return err
	}
	report.ServingCertificate = hasServingCertificate(options)
	if !plan.Changes() {
		fillSteps(report, plan)
		return nil
	}
	if err := b.claimData(); err != nil {
		return err
	}
	watched := withProgress(plan, options)
	err = engine.Run(ctx, "apply release "+options.Spec.Release, watched, func(id string) error { return b.commit(id) })
	fillSteps(report, plan)
	report.ServingCertificate = hasServingCertificate(options)
	if err != nil {
		return b.failed(err, report)
	}
	report.Changed = true
	b.cleanUp()
	return nil
}

// failed reports a transaction that was undone, with what the kubelet said.
func (b *builder) failed(err error, report *nodereport.Apply) error {
	var failure *transaction.Failure
	if errors.As(err, &failure) {
		report.RolledBack = failure.UndoErr == nil
		report.Changed = failure.UndoErr != nil
		if failure.UndoErr != nil {
			report.Warnings = append(report.Warnings, "undoing failed and is tried again at the next run: "+failure.UndoErr.Error())
		} else {
			_ = os.RemoveAll(b.layout.undo) // the next run does it otherwise
		}
	}
	report.KubeletLog = b.failureLog
	return err
}

// withProgress says each step as it begins.
func withProgress(plan *transaction.Plan, options Options) *transaction.Plan {
	for _, step := range plan.Steps {
		do, action := step.Do, step.Action
		step.Do = func(ctx context.Context) error {
			options.Progress.Say("apply", action)
			return do(ctx)
		}
	}
	return plan
}

func hasServingCertificate(options Options) bool {
	certificate, err := Certificate(ServingCertificate(options.Spec.Paths.KubeletData))
	return err == nil && time.Now().Before(certificate.NotAfter)
}

func fillSteps(report *nodereport.Apply, plan *transaction.Plan) {
	if plan == nil {
		return
	}
	report.Steps = []nodereport.Step{}
	for _, planned := range plan.Steps {
		if planned.Finding.Warning != "" {
			report.Warnings = append(report.Warnings, planned.Finding.Warning)
		}
		report.Steps = append(report.Steps, nodereport.Step{
			Name: planned.Name, Action: planned.Action, Changed: planned.Finding.Differs(), Drift: planned.Finding.Drift,
			Before: planned.Finding.Before, After: planned.Finding.After, Millis: planned.Took.Milliseconds(),
		})
	}
	report.Changed = report.Changed || plan.Changes()
}

// claimData records, before anything is made, that the folders that are to be made are ours. Unlike files and services they are not
// undone once the kubelet has written into them, and remove must find them even if no apply ever succeeds.
func (b *builder) claimData() error {
	claimed := b.before
	if claimed == nil {
		claimed = &state.State{Owned: []state.Owned{}}
	}
	count := len(claimed.Owned)
	for _, folder := range folders(b.spec) {
		kind := state.OwnedFolder
		switch folder.path {
		case b.layout.install:
			continue // the transfer makes it, and whoever removes wmcb.exe removes it
		case b.layout.release:
			continue // it is in the tree of releases
		case b.layout.releases, b.layout.kubeletData, b.layout.pki, b.layout.logs:
			kind = state.OwnedTree
		}
		if isNew(folder.path) {
			claimed.Own(state.Owned{Kind: kind, Name: folder.path})
		}
	}
	if len(claimed.Owned) == count {
		return nil
	}
	b.before = claimed
	return claimed.Save(b.layout.install)
}

// isNew: it is not there, or holds nothing but the keys that enroll made.
func isNew(path string) bool {
	entries, err := os.ReadDir(path)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	return len(entries) == 1 && entries[0].Name() == "pki"
}

// commit is the one write that makes the transaction so.
func (b *builder) commit(id string) error {
	raw, err := json.Marshal(b.spec)
	if err != nil {
		return err
	}
	next := &state.State{Owned: []state.Owned{}}
	if b.before != nil {
		*next = *b.before
		next.Owned = slices.Clone(b.before.Owned)
	}
	if next.Current != nil && next.Current.Release != b.spec.Release {
		next.Previous = next.Current
	}
	next.Transaction, next.AppliedAt = id, time.Now().UTC().Format(time.RFC3339)
	next.Current = &state.Applied{
		Release: b.spec.Release, NodeName: b.spec.Node.Name, Cluster: b.spec.Cluster.ID, KubeletVersion: b.spec.Kubelet.Version,
		NodeIP: b.nodeIP, Spec: raw,
	}
	for _, thing := range ownedOf(b.layout, b.spec) {
		next.Own(thing)
	}
	if err := next.Save(b.layout.install); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	b.before = next
	return nil
}

// cleanUp removes what the transaction no longer needs. What it cannot remove, the next run does.
func (b *builder) cleanUp() {
	_ = os.RemoveAll(b.layout.undo)
	_ = os.RemoveAll(b.layout.cniState + ".before-wsu")
	securefile.SweepAside(b.layout.install)
	securefile.SweepAside(b.layout.release)
	entries, err := os.ReadDir(b.layout.releases)
	if err != nil {
		return
	}
	for _, entry := range entries {
		current := strings.EqualFold(entry.Name(), b.before.Current.Release)
		previous := b.before.Previous != nil && strings.EqualFold(entry.Name(), b.before.Previous.Release)
		if !current && !previous {
			_ = os.RemoveAll(filepath.Join(b.layout.releases, entry.Name()))
		}
	}
}
