// Package status says what is installed, what runs and what drifted. It runs the checks of apply's own steps and changes nothing.
package status

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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
		Services: []nodereport.ServiceStatus{}, Drift: []string{},
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
		report.Drift = append(report.Drift, "a transaction is unfinished; the next apply or remove settles it")
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
	spec, err := current.NodeSpec()
	if err != nil {
		return err
	}
	report.ClientCertificateNotAfter = notAfter(apply.ClientCertificate(spec.Paths.KubeletData), report)
	report.ServingCertificateNotAfter = notAfter(apply.ServingCertificate(spec.Paths.KubeletData), report)
	if options.LogLines > 0 {
		report.KubeletLog = apply.Tail(apply.LogFile(spec.Paths.Logs), 0, options.LogLines)
	}
	drift, err := apply.Drift(ctx, spec, found, options.Host)
	report.Drift = append(report.Drift, drift...)
	return err
}

func notAfter(path string, report *nodereport.Status) string {
	certificate, err := apply.Certificate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		report.Drift = append(report.Drift, "certificate: "+err.Error())
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
