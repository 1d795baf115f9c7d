package apply

import (
	"context"
	"encoding/json"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/wmcb/state"
)

// Restore makes the machine what found.Previous was: its programs, its configuration and its service, as one transaction. The node's
// identity and trust (kubeconfig, certificate, kubelet-ca.crt, bootstrap-kubeconfig) belong to no release and stay. A dry run has no engine.
func Restore(ctx context.Context, engine *transaction.Engine, found *state.State, host Host, say *progress.Reporter, report *nodereport.Apply) error {
	target := found.Previous
	spec, err := target.NodeSpec()
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx, Options{Spec: spec, Host: host}, found, target)
	if err != nil {
		return err
	}
	b.restoring = true
	changed := report.Changed
	plan, err := b.plan(ctx)
	if err != nil || engine == nil {
		fillSteps(report, plan)
		if err != nil {
			report.Changed = changed
		}
		return err
	}
	return b.transact(ctx, engine, plan, say, report, func(id string) error { return b.commitRestored(id, target) })
}

// commitRestored leaves nothing to roll back to: a second roll-back would otherwise go to the release that was just left.
func (b *builder) commitRestored(id string, target *state.Applied) error {
	next := b.next(id)
	next.RolledBack = &state.RolledBack{From: b.before.Current.Release, At: time.Now().UTC().Format(time.RFC3339)}
	current := *target
	if left, err := b.before.Current.NodeSpec(); err == nil {
		// What the node trusts came from this one's Ignition and stays.
		spec := *b.spec
		spec.Bootstrap = left.Bootstrap
		if current.Spec, err = json.Marshal(spec); err != nil {
			return err
		}
	}
	next.Current, next.Previous = &current, nil
	return b.save(next)
}

// Reason gives an error of a run its reason; object is what failed where nothing closer is known.
func Reason(object string, err error) error { return asReason(object, err) }

// Objects names the files, services and rules that the steps of a specification are about, by the steps' names.
func Objects(spec *nodespec.NodeSpec) map[string]string {
	l := layoutOf(spec)
	objects := map[string]string{
		"bootstrap-kubeconfig": l.bootstrap, "kubelet-ca": l.kubeletCA, "kubelet-config": l.kubeletConfig, "client-certificate": ClientCertificate(l.kubeletData),
		"firewall-rule": firewallRuleName, serviceName: KubeletService, runningName: KubeletService, "cni-state": l.cniState, "cloud-config": l.release,
	}
	for _, f := range spec.Files {
		objects["release-file "+f.Name] = l.release + `\` + f.Name
	}
	for _, folder := range folders(spec) {
		objects["folder "+folder.path] = folder.path
	}
	return objects
}
