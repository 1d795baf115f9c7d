// Package state records what a sandbox started, so that exactly that can be ended: processes by pid and start time,
// never by name.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// runDir holds a copy of every sandbox's state, so that a sandbox whose folder was deleted can still be ended. It is a tmpfs:
// a reboot, which ends the sandbox too, empties it.
const runDir = "/run/wsu-sandbox"

// State is what runs; it is written after every change.
type State struct {
	Dir       string    `json:"dir"`
	ID        string    `json:"id"`
	Subnet    string    `json:"subnet"`
	Bridge    string    `json:"bridge,omitempty"`
	Hosts     []Host    `json:"hosts"`
	Processes []Process `json:"processes"`
	Created   time.Time `json:"created"`
	Ready     bool      `json:"ready"` // up went through to its end
}

// Store reads and writes one sandbox's state, in its folder and in /run.
type Store struct{ files []string }

// NewStore is the store of the sandbox in dir that goes by id.
func NewStore(dir, id string) Store {
	return Store{files: []string{filepath.Join(dir, "state.json"), filepath.Join(runDir, id+".json")}}
}

// Load returns the recorded state, and nil if there is none. The folder's own copy wins.
func (s Store) Load() (*State, error) {
	for _, file := range s.files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox state: %w", err)
		}
		var state State
		if err := json.Unmarshal(content, &state); err != nil {
			// Half a file cannot come from Save. Whoever edited it left the copy in /run untouched.
			continue
		}
		return &state, nil
	}
	return nil, nil
}

// Save writes the state whole or not at all.
func (s Store) Save(state *State) error {
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("sandbox state: %w", err)
	}
	for _, file := range s.files {
		if err := writeAtomically(file, append(content, '\n')); err != nil {
			return fmt.Errorf("sandbox state: %w", err)
		}
	}
	return nil
}

// Remove forgets the sandbox.
func (s Store) Remove() error {
	var problems []error
	for _, file := range s.files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("sandbox state: %w", err))
		}
	}
	_ = os.Remove(runDir) // only if no other sandbox has its state there
	return errors.Join(problems...)
}

func writeAtomically(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// Gone names the recorded processes that no longer run.
func (s *State) Gone() []string {
	var names []string
	for _, process := range s.Processes {
		if !process.Running() {
			names = append(names, process.Name)
		}
	}
	return names
}

// Process returns the recorded process of that name.
func (s *State) Process(name string) (Process, bool) {
	i := slices.IndexFunc(s.Processes, func(p Process) bool { return p.Name == name })
	if i < 0 {
		return Process{}, false
	}
	return s.Processes[i], true
}
