// Package status says what is installed, what runs and what drifted. It runs the checks of apply's own steps and changes nothing.
package status

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
)

// Options of one run.
type Options struct {
	// Install is the install folder; empty: the default.
	Install string
	// LogLines is how many lines of the kubelet's log to give; 0: none.
	LogLines int
	Host     apply.Host
}

// Run reports the machine's status. Drift is no error: what cannot be found out is.
func Run(ctx context.Context, options Options) (nodereport.Status, error) {
	report := nodereport.Status{
		Header:   nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Status", WMCB: version.Release},
		Services: []nodereport.ServiceStatus{}, Drift: []string{}, Differences: []nodereport.Difference{},
	}
	if options.Install == "" {
		options.Install = nodespec.DefaultInstall
	}
	err := run(ctx, options, &report)
	if err != nil {
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

func run(ctx context.Context, options Options, report *nodereport.Status) error {
	if _, err := os.Stat(filepath.Join(options.Install, state.JournalName)); err == nil {
		add(report, "transaction", "", drift.Whole("it is unfinished; the next apply, rollback or remove settles it")...)
	}
	found, err := state.Load(options.Install)
	if err != nil {
		return err
	}
	if err := services(options, report); err != nil {
		return err
	}
	if found == nil || found.Current == nil {
		return nil
	}
	current := found.Current
	report.Joined = &nodereport.Joined{
		Release: current.Release, NodeName: current.NodeName, Cluster: current.Cluster, KubeletVersion: current.KubeletVersion,
	}
	if found.Previous != nil {
		report.RollbackTo = found.Previous.Release
	}
	if found.RolledBack != nil {
		report.RolledBackFrom = found.RolledBack.From
	}
	spec, err := current.NodeSpec()
	if err != nil {
		// An older wmcb.exe on a newer release's node: it says what it can say for certain.
		add(report, "state", state.FileName, drift.Whole("nothing was compared: "+err.Error())...)
		return nil //nolint:nilerr // the report has it
	}
	report.ClientCertificateNotAfter = notAfter(apply.ClientCertificate(spec.Paths.KubeletData), report)
	report.ServingCertificateNotAfter = notAfter(apply.ServingCertificate(spec.Paths.KubeletData), report)
	if options.LogLines > 0 {
		report.KubeletLog = apply.Tail(apply.LogFile(spec.Paths.Logs), 0, options.LogLines)
	}
	steps, err := apply.Drift(ctx, spec, found, options.Host)
	objects := apply.Objects(spec)
	for _, step := range steps {
		add(report, step.Name, objects[step.Name], step.Drift...)
	}
	return err
}

// add names differences twice: as lines for people, and in parts.
func add(report *nodereport.Status, step, object string, differences ...drift.Difference) {
	for _, d := range differences {
		report.Drift = append(report.Drift, step+": "+d.String())
		report.Differences = append(report.Differences, nodereport.Difference{Step: step, Object: object, Difference: d})
	}
}

func notAfter(path string, report *nodereport.Status) string {
	certificate, err := apply.Certificate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		add(report, "certificate", path, drift.Whole(err.Error())...)
		return ""
	}
	return certificate.NotAfter.UTC().Format(time.RFC3339)
}

func services(options Options, report *nodereport.Status) error {
	for _, name := range []string{apply.KubeletService} {
		config, err := options.Host.Services.Config(name)
		if err != nil {
			return err
		}
		if config == nil {
			continue
		}
		status, err := options.Host.Services.Status(name)
		var gone *winservice.NotFoundError
		if errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return err
		}
		report.Services = append(report.Services, nodereport.ServiceStatus{
			Name: name, State: status.State, StartType: config.StartType, PID: status.PID,
		})
	}
	return nil
}
