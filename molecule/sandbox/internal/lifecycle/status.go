package lifecycle

import (
	"context"

	"wsu.windows/sandbox/internal/config"
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
	s.describe()
	if missing := s.missing(ctx); len(missing) > 0 {
		s.Log.Phase("The sandbox is half dead; `sandbox up` (make sandbox) removes it and starts a new one. Missing:")
		for _, what := range missing {
			s.Log.Say("%s", what)
		}
	}
	return nil
}
