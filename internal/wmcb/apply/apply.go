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

	"wsu.windows/internal/drift"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/store"
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
		err = asReason("apply", err)
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

// asReason gives errors without a reason one: FileLocked, DiskFull, Interrupted where the run was broken off, else ApplyFailed.
func asReason(what string, err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return err
	}
	object := what
	var step *transaction.StepError
	if errors.As(err, &step) {
		object, err = "step "+step.Step, step.Err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return reason.Wrap(reason.Interrupted, what, err, "")
	case store.IsHeld(err):
		return reason.Wrap(reason.FileLocked, object, err, "")
	case store.IsFull(err):
		return reason.Wrap(reason.DiskFull, object, err, "")
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
	engine, err := Settle(ctx, install, options.Host, report)
	if err != nil {
		return err
	}
	before, err := state.Load(install)
	if err != nil {
		return err
	}
	sayBefore(report, before)
	changed := report.Changed
	b, plan, err := newPlan(ctx, options, before, nil)
	if err != nil {
		fillSteps(report, plan)
		report.Changed = changed // what the plan would have changed was not begun
		return err
	}
	return b.transact(ctx, engine, plan, options.Progress, report, func(id string) error { return b.commit(id) })
}

// Settle gives the engine of an install folder once what an earlier run left is settled. The caller holds the lock.
func Settle(ctx context.Context, install string, host Host, report *nodereport.Apply) (*transaction.Engine, error) {
	engine := NewEngine(install, host)
	recovered, err := Recover(ctx, engine, install)
	if err != nil {
		return nil, err
	}
	if recovered {
		report.Changed = true
		report.Warnings = append(report.Warnings, "an earlier run had been broken off; what it had done was undone first")
	}
	return engine, nil
}

// Recover settles what an earlier run left, and removes what it had put aside.
func Recover(ctx context.Context, engine *transaction.Engine, install string) (bool, error) {
	undone, err := engine.Recover(ctx)
	if err != nil {
		return undone, asReason("unfinished transaction", err)
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
	sayBefore(report, before)
	_, plan, err := newPlan(ctx, options, before, nil)
	fillSteps(report, plan)
	return err
}

// sayBefore says which release the machine had, and which one a roll-back would go back to.
func sayBefore(report *nodereport.Apply, found *state.State) {
	if found != nil && found.Current != nil {
		report.PreviousRelease = found.Current.Release
	}
	sayRollback(report, found)
}

func sayRollback(report *nodereport.Apply, found *state.State) {
	report.RollbackTo = ""
	if found != nil && found.Previous != nil {
		report.RollbackTo = found.Previous.Release
	}
}

func newPlan(ctx context.Context, options Options, before *state.State, recorded *state.Applied) (*builder, *transaction.Plan, error) {
	b, err := newBuilder(ctx, options, before, recorded)
	if err != nil {
		return nil, nil, err
	}
	plan, err := b.plan(ctx)
	return b, plan, err
}

func (b *builder) plan(ctx context.Context) (*transaction.Plan, error) {
	steps, err := b.steps()
	if err != nil {
		return nil, err
	}
	return transaction.NewPlan(ctx, steps)
}

// transact does the plan as one transaction and reports it.
func (b *builder) transact(ctx context.Context, engine *transaction.Engine, plan *transaction.Plan, say *progress.Reporter, report *nodereport.Apply,
	commit func(id string) error,
) error {
	report.ServingCertificate = b.hasServingCertificate()
	if !plan.Changes() {
		fillSteps(report, plan)
		return nil
	}
	if err := b.claimData(); err != nil {
		return err
	}
	phase := strings.ToLower(report.Kind)
	err := engine.Run(ctx, phase+" release "+b.spec.Release, withProgress(plan, phase, say), commit)
	fillSteps(report, plan)
	report.ServingCertificate = b.hasServingCertificate()
	if err != nil {
		err = b.failed(err, report)
	} else {
		report.Changed = true
		sayRollback(report, b.before)
		b.cleanUp()
	}
	report.Warnings = append(report.Warnings, b.warnings...)
	return err
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
func withProgress(plan *transaction.Plan, phase string, say *progress.Reporter) *transaction.Plan {
	for _, step := range plan.Steps {
		do, action := step.Do, step.Action
		step.Do = func(ctx context.Context) error {
			say.Say(phase, action)
			return do(ctx)
		}
	}
	return plan
}

func (b *builder) hasServingCertificate() bool {
	certificate, err := Certificate(ServingCertificate(b.spec.Paths.KubeletData))
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
			Name: planned.Name, Action: planned.Action, Changed: planned.Finding.Differs(), Drift: drift.Texts(planned.Finding.Drift),
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
	c, err := b.contents()
	if err != nil {
		return err
	}
	made, err := b.record(c)
	if err != nil {
		return fmt.Errorf("what a roll-back needs: %w", err)
	}
	next := b.next(id)
	if next.Current != nil && next.Current.Release != b.spec.Release {
		next.Older = older(next, b.spec)
		next.Previous = next.Current
	}
	next.RolledBack = nil
	next.Current = &state.Applied{
		Release: b.spec.Release, NodeName: b.spec.Node.Name, Cluster: b.spec.Cluster.ID, KubeletVersion: b.spec.Kubelet.Version,
		NodeIP: b.nodeIP, Spec: raw, Made: made,
	}
	for _, thing := range ownedOf(b.layout, b.spec) {
		next.Own(thing)
	}
	return b.save(next)
}

// next is the state that was found, to be changed.
func (b *builder) next(id string) *state.State {
	next := &state.State{Owned: []state.Owned{}}
	if b.before != nil {
		*next = *b.before
		next.Owned = slices.Clone(b.before.Owned)
	}
	next.Transaction, next.AppliedAt = id, time.Now().UTC().Format(time.RFC3339)
	return next
}

func (b *builder) save(next *state.State) error {
	if err := next.Save(b.layout.install); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	b.before, b.replaced = next, b.before
	return nil
}
