// Package transaction runs a list of steps so that it happens wholly or not at all, across failures, crashes and power cuts.
//
// The plan, the journal, the roll-back and the report come from the one list. Before a step is done the journal says, durably, how to
// undo it; the transaction ends with one atomic write of the caller's state (Commit), which names the transaction. So a journal that
// is found at the next start decides itself: if the state names its transaction the work is complete and the journal is only removed,
// otherwise everything that it holds is undone in reverse. Undoing works from the journal alone, without the list of steps, and any
// number of times, because a crash may come in the middle of it.
package transaction

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/reason"
)

// Finding is how a thing differs from what it shall be.
type Finding struct {
	// Drift has the differences, field by field; for a thing that is not there it has one. Empty: it is as it shall be.
	Drift []drift.Difference
	// Restart is true where a running service has to be restarted to notice the change.
	Restart bool
	// Before and After are texts for a diff, without secrets.
	Before, After string
	// Warning is for people: something that could not be done and does not stop the transaction.
	Warning string
}

// Differs reports whether there is anything to do.
func (f Finding) Differs() bool { return len(f.Drift) > 0 }

// Undo says how a step is taken back: a kind that the engine has an undoer for, and its data.
type Undo struct {
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
}

// NewUndo packs data. Data is a plain struct of this project, so packing cannot fail.
func NewUndo(kind string, data any) Undo {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("undo %s: %v", kind, err))
	}
	return Undo{Kind: kind, Data: raw}
}

// Undoer takes a step back. It succeeds where there is nothing (left) to take back.
type Undoer func(ctx context.Context, data json.RawMessage) error

// Step is one thing that shall be so.
type Step struct {
	// Name is stable, for example kubelet-config; Action is a sentence.
	Name, Action string
	// Check compares, and changes nothing.
	Check func(ctx context.Context, plan *Plan) (Finding, error)
	// CheckLast is for steps whose need depends on what the others found (Plan.Restart).
	CheckLast bool
	// Prepare says how to undo, and puts aside what that needs; it changes nothing else. Nil: there is nothing to undo.
	Prepare func(ctx context.Context) (Undo, error)
	// Do makes it so. It must be safe to do again.
	Do func(ctx context.Context) error
}

// Planned is a step with what its check found.
type Planned struct {
	Step
	Finding Finding
	// Took is how long checking and doing took.
	Took time.Duration
}

// Plan is what has to be done, in order.
type Plan struct {
	Steps []*Planned
}

// Restart reports whether any step checked so far needs a restart.
func (p *Plan) Restart() bool {
	for _, step := range p.Steps {
		if step.Finding.Restart {
			return true
		}
	}
	return false
}

// Changes reports whether there is anything to do.
func (p *Plan) Changes() bool {
	for _, step := range p.Steps {
		if step.Finding.Differs() {
			return true
		}
	}
	return false
}

// StepError says which step failed.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return "step " + e.Step + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *StepError) Unwrap() error { return e.Err }

// NewPlan checks every step and changes nothing.
func NewPlan(ctx context.Context, steps []Step) (*Plan, error) {
	plan := &Plan{}
	for _, step := range steps {
		plan.Steps = append(plan.Steps, &Planned{Step: step})
	}
	for _, last := range []bool{false, true} {
		for _, planned := range plan.Steps {
			if planned.CheckLast != last {
				continue
			}
			if err := planned.check(ctx, plan); err != nil {
				return plan, err
			}
		}
	}
	return plan, nil
}

func (p *Planned) check(ctx context.Context, plan *Plan) error {
	if err := ctx.Err(); err != nil {
		return &StepError{p.Name, err}
	}
	begin := time.Now()
	finding, err := p.Check(ctx, plan)
	p.Took += time.Since(begin)
	if err != nil {
		return &StepError{p.Name, err}
	}
	p.Finding = finding
	return nil
}

// Engine does plans.
type Engine struct {
	Journal Journal
	// Undoers by Undo.Kind.
	Undoers map[string]Undoer
	// Committed reports whether the state names this transaction.
	Committed func(id string) (bool, error)
}

// Run does what the plan says differs, then commits. On failure everything is undone in reverse; the error then is a *Failure.
// The caller has called Recover before it made the plan.
func (e *Engine) Run(ctx context.Context, label string, plan *Plan, commit func(id string) error) error {
	id := newID()
	if err := e.Journal.Begin(id, label); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	err := e.do(ctx, plan)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if err = commit(id); err != nil {
			err = &StepError{"commit", err}
		}
	}
	if err != nil {
		// Undoing must go on where the context is what failed. Recover also finds out whether the commit came through after all.
		undone, undoErr := e.recover(context.WithoutCancel(ctx))
		if undoErr == nil && !undone {
			return nil
		}
		return &Failure{Err: err, UndoErr: undoErr}
	}
	if err := e.Journal.Remove(); err != nil {
		return fmt.Errorf("journal: %w", err) // the next run removes it: the state names the transaction
	}
	return nil
}

// Failure is a transaction that failed and was undone (UndoErr is nil), or could not be undone wholly and will be at the next run.
type Failure struct {
	Err, UndoErr error
}

func (f *Failure) Error() string {
	if f.UndoErr != nil {
		return fmt.Sprintf("%v; and undoing it failed: %v", f.Err, f.UndoErr)
	}
	return f.Err.Error()
}

// Unwrap gives the cause of the failure.
func (f *Failure) Unwrap() error { return f.Err }

func (e *Engine) do(ctx context.Context, plan *Plan) error {
	for n, planned := range plan.Steps {
		if !planned.Finding.Differs() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return &StepError{planned.Name, err}
		}
		begin := time.Now()
		err := e.doStep(ctx, n, planned, plan)
		planned.Took += time.Since(begin)
		if err != nil {
			return &StepError{planned.Name, err}
		}
	}
	return nil
}

func (e *Engine) doStep(ctx context.Context, n int, planned *Planned, plan *Plan) error {
	if planned.Prepare != nil {
		undo, err := planned.Prepare(ctx)
		if err != nil {
			return fmt.Errorf("prepare to undo: %w", err)
		}
		if _, known := e.Undoers[undo.Kind]; !known {
			return fmt.Errorf("nothing can undo %q", undo.Kind)
		}
		if err := e.Journal.Intend(Entry{Number: n, Step: planned.Name, Undo: undo}); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if err := planned.Do(ctx); err != nil {
		return err
	}
	if planned.CheckLast {
		return nil // it is about the change itself, not about a state that lasts
	}
	after, err := planned.Check(ctx, plan)
	if err != nil {
		return fmt.Errorf("check afterwards: %w", err)
	}
	if after.Differs() {
		return fmt.Errorf("it was done and still differs: %v", after.Drift[0])
	}
	return nil
}

// Recover settles a transaction that an earlier run left unfinished: forward where it was committed, else back. It reports whether it
// undid anything.
func (e *Engine) Recover(ctx context.Context) (bool, error) {
	return e.recover(ctx)
}

func (e *Engine) recover(ctx context.Context) (undone bool, err error) {
	record, err := e.Journal.Read()
	if err != nil || record == nil {
		return false, err
	}
	committed, err := e.Committed(record.ID)
	if err != nil {
		return false, err
	}
	if !committed {
		if err := e.undo(ctx, record); err != nil {
			return true, err
		}
	}
	if err := e.Journal.Remove(); err != nil {
		return !committed, fmt.Errorf("journal: %w", err)
	}
	return !committed, nil
}

// undo stops at the first error: going on could take away the files of a service that is still there. The journal then stays, and the
// next run tries again. A journal with a step that this release cannot undo is left to the newer one that wrote it, whole.
func (e *Engine) undo(ctx context.Context, record *Record) error {
	for _, entry := range record.Entries {
		if _, known := e.Undoers[entry.Undo.Kind]; !known {
			return reason.New(reason.StateUnreadable, "unfinished transaction ("+record.Label+")",
				fmt.Sprintf("a newer release wrote it: this one does not know how to undo step %s (%q)", entry.Step, entry.Undo.Kind), "")
		}
	}
	for i := len(record.Entries) - 1; i >= 0; i-- {
		entry := record.Entries[i]
		if err := e.Undoers[entry.Undo.Kind](ctx, entry.Undo.Data); err != nil {
			return fmt.Errorf("undo step %s: %w", entry.Step, err)
		}
	}
	return nil
}

func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // crypto/rand never fails since Go 1.24
	return hex.EncodeToString(id[:])
}
