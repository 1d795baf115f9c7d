package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/firewall"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/foreign"
)

// KubeletService is the name that the kubelet gives the SCM for itself (k8s.io/kubernetes cmd/kubelet/app/init_windows.go).
const KubeletService = "kubelet"

// Names of steps that others speak of.
const (
	serviceName = "kubelet-service"
	stopName    = "kubelet-stop"
	runningName = "kubelet-running"
	recordName  = "state"
)

const (
	firewallRuleName = "wsu-kubelet"
	kubeletPort      = 10250
)

// kubeletService is the definition of the service.
func kubeletService(spec *nodespec.NodeSpec, command []string) winservice.Config {
	return winservice.Config{
		DisplayName:  "Kubernetes kubelet",
		Description:  "Runs this machine as a node of a Kubernetes cluster. Installed by wmcb.",
		CommandLine:  winservice.CommandLine(command),
		StartType:    winservice.StartAuto,
		Account:      winservice.Account(""),
		Dependencies: []string{spec.Runtime.Service},
		Environment:  proxyEnvironment(spec.Proxy),
		Recovery: winservice.Recovery{
			Restarts:   []time.Duration{5 * time.Second, 15 * time.Second, 60 * time.Second},
			ResetAfter: time.Hour,
			OnErrors:   true,
		},
	}
}

func proxyEnvironment(proxy *nodespec.Proxy) []string {
	var environment []string
	if proxy == nil {
		return nil
	}
	for _, variable := range [][2]string{{"HTTPS_PROXY", proxy.HTTPS}, {"HTTP_PROXY", proxy.HTTP}, {"NO_PROXY", proxy.NoProxy}} {
		if variable[1] != "" {
			environment = append(environment, variable[0]+"="+variable[1])
		}
	}
	return environment
}

func (b *builder) serviceStep(want winservice.Config) transaction.Step {
	services := b.host.Services
	return transaction.Step{
		Name: serviceName, Action: "Define the Windows service " + KubeletService,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			have, err := services.Config(KubeletService)
			if err != nil {
				return transaction.Finding{}, err
			}
			if have == nil {
				return transaction.Finding{Drift: drift.Whole(drift.Missing), Restart: true, After: want.CommandLine + "\n"}, nil
			}
			if err := b.refuseForeign(have); err != nil {
				return transaction.Finding{}, err
			}
			finding := transaction.Finding{Drift: winservice.Diff(*have, want), Restart: winservice.NeedsRestart(*have, want)}
			if have.CommandLine != want.CommandLine {
				finding.Before, finding.After = have.CommandLine+"\n", want.CommandLine+"\n"
			}
			return finding, nil
		},
		Prepare: func(context.Context) (transaction.Undo, error) {
			have, err := services.Config(KubeletService)
			return transaction.NewUndo(undoService, serviceUndo{Name: KubeletService, Config: have, Folder: b.layout.releases}), err
		},
		Do: func(ctx context.Context) error { return putService(ctx, services, KubeletService, want) },
	}
}

// refuseForeign leaves another tool's kubelet alone, even where it has taken this machine over from us. One of ours is told by where its
// programs lie; another one on a node of ours was changed by hand, and is put right.
func (b *builder) refuseForeign(have *winservice.Config) error {
	if err := foreign.Check(b.host.Services, b.layout.install); err != nil {
		return err
	}
	program := strings.ToLower(strings.TrimPrefix(have.CommandLine, `"`))
	if strings.HasPrefix(program, strings.ToLower(b.layout.releases)) || b.before != nil && b.before.Current != nil {
		return nil
	}
	return foreign.Unknown(have)
}

func (b *builder) firewallStep() transaction.Step {
	want := firewall.NewRule(firewallRuleName, "The API server's connections to the kubelet. Installed by wmcb.", kubeletPort)
	return transaction.Step{
		Name: "firewall-rule", Action: fmt.Sprintf("Let TCP port %d in", kubeletPort),
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			have, err := b.host.Firewall.Rule(want.Name)
			if errors.Is(err, firewall.ErrAbsent) {
				return transaction.Finding{Warning: err.Error() + fmt.Sprintf(": port %d was not opened", kubeletPort)}, nil
			}
			if err != nil {
				return transaction.Finding{}, err
			}
			if have == nil {
				return transaction.Finding{Drift: drift.Whole(drift.Missing)}, nil
			}
			return transaction.Finding{Drift: firewall.Diff(*have, want)}, nil
		},
		Prepare: func(context.Context) (transaction.Undo, error) {
			have, err := b.host.Firewall.Rule(want.Name)
			return transaction.NewUndo(undoFirewall, firewallUndo{Name: want.Name, Rule: have}), err
		},
		Do: func(context.Context) error { return b.host.Firewall.Put(want) },
	}
}

// stopStep comes before everything that the running kubelet must not see half done.
func (b *builder) stopStep() transaction.Step {
	return transaction.Step{
		Name: stopName, Action: "Stop the kubelet for the change", CheckLast: true,
		Check: func(_ context.Context, plan *transaction.Plan) (transaction.Finding, error) {
			running, err := b.isRunning()
			if err != nil || !running || !plan.Restart() {
				return transaction.Finding{}, err
			}
			return transaction.Finding{Drift: drift.Whole("it runs with what is to be changed")}, nil
		},
		Prepare: func(context.Context) (transaction.Undo, error) {
			dependants, err := b.host.Services.Dependants(KubeletService)
			return transaction.NewUndo(undoServiceStop, serviceUndo{Name: KubeletService, Dependants: dependants}), err
		},
		Do: func(ctx context.Context) error {
			if err := b.requireAPIServer(ctx); err != nil {
				return err
			}
			return b.stopKubelet(ctx)
		},
	}
}

// requireAPIServer keeps a kubelet that works running where the proof of the new one could only fail. A roll-back does without that proof.
func (b *builder) requireAPIServer(ctx context.Context) error {
	if b.restoring {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if _, err := b.host.Heard(ctx, b.layout.kubeconfig, b.spec.Node.Name); isUnreachable(err) {
		return fmt.Errorf("the kubelet was not stopped: %w", err)
	}
	return nil
}

func (b *builder) stopKubelet(ctx context.Context) error {
	dependants, err := b.host.Services.Dependants(KubeletService)
	if err != nil {
		return err
	}
	b.dependants = append(b.dependants, dependants...)
	killed, err := StopService(ctx, b.host, KubeletService, b.layout.releases, StopTimeout)
	for _, process := range killed {
		b.warn("%s (process %d) did not end within %v and was killed", process.Path, process.PID, StopTimeout)
	}
	return err
}

func (b *builder) isRunning() (bool, error) {
	config, err := b.host.Services.Config(KubeletService)
	if err != nil || config == nil {
		return false, err
	}
	status, err := b.host.Services.Status(KubeletService)
	if err != nil {
		return false, err
	}
	if status.State != winservice.Stopped {
		return true, nil
	}
	// An orphan: its log runner was killed and it was not.
	left, err := b.host.Processes.Under(b.layout.releases)
	return len(left) > 0, err
}

// StopService returns when the service is stopped and no program of the folder runs any more. The SCM says "stopped" before the process
// has gone, and a kubelet whose log runner was killed is no longer the service's process at all: both would keep files locked. What has
// not ended within the limit is killed, and named.
func StopService(ctx context.Context, host Host, name, folder string, limit time.Duration) (killed []winservice.Process, err error) {
	processes, err := host.Processes.Under(folder)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, stopErr := host.Services.Stop(limited, name)
	if stopErr == nil && host.Processes.Wait(limited, processes) == nil {
		if processes, err = host.Processes.Under(folder); err != nil || len(processes) == 0 {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if processes, err = host.Processes.Under(folder); err != nil {
		return nil, err
	}
	limited, cancelKill := context.WithTimeout(ctx, killTimeout)
	defer cancelKill()
	if err = host.Processes.Kill(processes); err == nil {
		err = host.Processes.Wait(limited, processes)
	}
	if err == nil {
		_, err = host.Services.Stop(limited, name) // the SCM notices that the process is gone
	}
	if err != nil {
		return processes, reason.Wrap(reason.ServiceFailed, "service "+name, errors.Join(stopErr, err), "")
	}
	return processes, nil
}
