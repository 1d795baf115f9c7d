package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"wsu.windows/sandbox/internal/network"
)

// endWithin is how long a process gets to end by itself.
const endWithin = 10 * time.Second

// perishable are the parts of the sandbox's folder that a sandbox that does not run must not have: whoever finds a kubeconfig
// believes in a cluster. Programs, the Windows base prefix and the logs stay.
var perishable = []string{"kubeconfig", "inventory", "ssh", "pki", "etcd", "mirror", "hosts", "krb5", "krb5.conf"}

// Down ends what the sandbox started, whatever state it is in.
func (s *Sandbox) Down(ctx context.Context) error {
	if err := requireRoot(); err != nil {
		return err
	}
	if !exists(s.Config.Dir) {
		if err := s.load(); err != nil {
			return err
		}
		if s.state == nil && !network.Exists(s.Config.Bridge()) {
			s.Log.Phase("No sandbox runs in " + s.Config.Dir)
			return nil
		}
	}
	return s.locked(func() error {
		if err := s.load(); err != nil {
			return err
		}
		if s.state == nil && !network.Exists(s.Config.Bridge()) {
			s.Log.Phase("No sandbox runs in " + s.Config.Dir)
		} else {
			s.Log.Phase("Taking the sandbox down")
		}
		return s.teardown(ctx)
	})
}

// teardown goes on after errors, so that as little as possible stays, and reports them together. The record is forgotten only
// when nothing is left of what it names.
func (s *Sandbox) teardown(ctx context.Context) error {
	problems := []error{s.stopHosts(ctx)}
	if s.state != nil {
		for _, process := range slices.Backward(s.state.Processes) {
			if !process.Running() {
				continue
			}
			problems = append(problems, s.Log.Step(process.Name, func() error { return process.End(ctx, endWithin) }))
		}
		if s.state.Bridge != s.Config.Bridge() {
			problems = append(problems, network.Down(ctx, s.state.Bridge))
		}
	}
	problems = append(problems, network.Down(ctx, s.Config.Bridge()))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, name := range perishable {
		if err := os.RemoveAll(s.Config.Path(name)); err != nil {
			problems = append(problems, fmt.Errorf("sandbox folder: %w", err))
		}
	}
	s.state = nil
	return errors.Join(append(problems, s.store.Remove())...)
}
