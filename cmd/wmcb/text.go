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
	case *nodereport.Apply:
		header = d.Header
		for _, step := range d.Steps {
			mark := "ok"
			if step.Changed {
				mark = "changed"
			}
			fmt.Fprintf(&text, "%-8s %-20s %s\n", mark, step.Name, strings.Join(append([]string{step.Action}, step.Drift...), "; "))
		}
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
