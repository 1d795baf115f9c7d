package apply

import (
	"context"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/wmcb/state"
)

// Step is a step with what it found different.
type Step struct {
	Name  string
	Drift []drift.Difference
}

// Drift names every difference between the machine and what was applied. It changes nothing.
func Drift(ctx context.Context, spec *nodespec.NodeSpec, found *state.State, host Host) ([]Step, error) {
	b, plan, err := newPlan(ctx, Options{Spec: spec, Host: host}, found, found.Current)
	if err != nil {
		return nil, err
	}
	var steps []Step
	if b.worker == nil {
		steps = append(steps, Step{"ignition", drift.Whole("it is no longer in the store, so not everything that was made of it was compared")})
	}
	for _, step := range plan.Steps {
		if step.Name == stopName || step.Name == recordName {
			continue
		}
		if step.Name == runningName && plan.Restart() {
			continue // it would be restarted for the other differences
		}
		if b.made == nil && b.worker == nil && step.Name == serviceName {
			continue // the command line takes flags from it
		}
		if step.Finding.Differs() {
			steps = append(steps, Step{step.Name, step.Finding.Drift})
		}
	}
	return steps, nil
}
