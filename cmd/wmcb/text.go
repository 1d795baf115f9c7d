package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"wsu.windows/internal/nodereport"
)

// printText shows a document to people: its checks or steps as lines, anything else as indented JSON.
func printText(w io.Writer, name string, document any) error {
	var text strings.Builder
	var header nodereport.Header
	switch d := document.(type) {
	case *nodereport.Preflight:
		header = d.Header
		for _, check := range d.Checks {
			fmt.Fprintf(&text, "%-5s %-18s %s\n", check.Result, check.Name, check.Seen)
			if check.Result != nodereport.Pass {
				fmt.Fprintf(&text, "%25s%s\n", "", check.Remedy)
			}
		}
	case *nodereport.Status:
		header = d.Header
		writeStatus(&text, d)
	case *nodereport.Apply:
		header = d.Header
		writeApply(&text, d)
	default:
		raw, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	if header.Error != nil {
		fmt.Fprintf(&text, "%s failed (%s): %v\n", name, header.Error.Code, header.Error)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func writeApply(text *strings.Builder, d *nodereport.Apply) {
	for _, step := range d.Steps {
		mark := "ok"
		if step.Changed {
			mark = "changed"
		}
		fmt.Fprintf(text, "%-8s %-20s %s\n", mark, step.Name, strings.Join(append([]string{step.Action}, step.Drift...), "; "))
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(text, "%-8s %s\n", "warning", warning)
	}
	for _, line := range d.KubeletLog {
		fmt.Fprintf(text, "%-8s %s\n", "log", line)
	}
	if d.RolledBack {
		text.WriteString("What was begun was undone; the machine is as it was.\n")
	}
}

func writeStatus(text *strings.Builder, d *nodereport.Status) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(text, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	if d.Joined == nil {
		row("node", "this machine is none")
	} else {
		row("node", "%s, release %s, kubelet %s", d.Joined.NodeName, d.Joined.Release, d.Joined.KubeletVersion)
	}
	if d.RollbackTo != "" {
		row("rollback", "goes to release %s", d.RollbackTo)
	}
	if d.RolledBackFrom != "" {
		row("rolled back", "from release %s", d.RolledBackFrom)
	}
	for _, service := range d.Services {
		row("service", "%s is %s, start type %s, process %d", service.Name, service.State, service.StartType, service.PID)
	}
	for _, certificate := range [][2]string{{"client", d.ClientCertificateNotAfter}, {"serving", d.ServingCertificateNotAfter}} {
		if certificate[1] != "" {
			row("certificate", "%s, until %s", certificate[0], certificate[1])
		}
	}
	for _, difference := range d.Differences {
		row("differs", "%s", strings.TrimPrefix(difference.Object+": ", ": ")+difference.String())
	}
	if d.OK && d.Joined != nil && len(d.Differences) == 0 {
		row("differs", "nothing: everything is as it was applied")
	}
	for _, line := range d.KubeletLog {
		row("log", "%s", line)
	}
}
