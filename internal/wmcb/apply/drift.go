package apply

import (
	"context"

	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/wmcb/state"
)

// Drift names every difference between the machine and the specification that was applied, as STEP: WHAT. It changes nothing.
func Drift(ctx context.Context, spec *nodespec.NodeSpec, found *state.State, host Host) ([]string, error) {
	b, plan, err := newPlan(ctx, Options{Spec: spec, Host: host}, found, true)
	if err != nil {
		return nil, err
	}
	var drift []string
	if b.worker == nil {
		drift = append(drift, "ignition: it is no longer in the store, so the files made of it were not compared")
	}
	for _, step := range plan.Steps {
		if step.Name == stopName || step.Name == recordName {
			continue
		}
		if step.Name == runningName && plan.Restart() {
			continue // it would be restarted for the other differences
		}
		if b.worker == nil && step.Name == serviceName {
			continue // the command line takes flags from it
		}
		for _, what := range step.Finding.Drift {
			drift = append(drift, step.Name+": "+what)
		}
	}
	return drift, nil
}
