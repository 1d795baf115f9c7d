package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/winhost"
)

// Status tells what runs. It fails with config.ErrNotRunning if nothing does.
func (s *Sandbox) Status(ctx context.Context) error {
	if err := s.load(); err != nil {
		return err
	}
	if s.state == nil {
		return config.ErrNotRunning
	}
	s.Log.Phase("Sandbox in " + s.state.Dir + ", since " + s.state.Created.Local().Format("2006-01-02 15:04:05"))
	for _, process := range s.state.Processes {
		word := "runs"
		if !process.Running() {
			word = "GONE, see " + process.Log
		}
		s.Log.Say("%-24s pid %-8d %s", process.Name, process.PID, word)
	}
	s.hostStates(ctx)
	s.describe()
	if missing := s.missing(ctx); len(missing) > 0 {
		s.Log.Phase("The sandbox is half dead; `sandbox up` (make sandbox) removes it and starts a new one. Missing:")
		for _, what := range missing {
			s.Log.Say("%s", what)
		}
	}
	return nil
}

func (s *Sandbox) hostStates(ctx context.Context) {
	for _, recorded := range s.state.Hosts {
		host, err := s.host(recorded, "")
		if err != nil {
			s.Log.Say("%-24s %v", recorded.Name, err)
			continue
		}
		// A frozen or cut-off host does not answer: do not wait for it long.
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		status, err := host.Status(limited)
		cancel()
		if err != nil {
			s.Log.Say("%-24s %v", recorded.Name, err)
			continue
		}
		s.Log.Say("%-24s %-12s %s", recorded.Name, recorded.Address, words(status))
	}
}

func words(status winhost.Status) string {
	switch {
	case !status.Running:
		return "DOWN"
	case status.Frozen:
		return "frozen"
	case !status.SSH:
		return "runs, no SSH answer (cut off?)"
	}
	text := fmt.Sprintf("runs, up %s, boot %d", status.UpFor.Round(time.Second), status.Boots)
	for _, name := range slices.Sorted(maps.Keys(status.Services)) {
		text += ", " + name + " " + status.Services[name]
	}
	return text
}
