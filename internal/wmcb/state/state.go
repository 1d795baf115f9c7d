// Package state is what wmcb remembers of a machine between its runs: state.json in the install folder. It is replaced in one rename, so
// it is never torn, and its replacement is what commits a transaction.
//
// An older release meets the state of a newer one when playbooks are downgraded. Fields that it does not know it keeps as they are, at the
// top and in Current, Previous and Older; so a field may be added without a new format only if nothing goes wrong when it is ignored. A
// format that it does not know it refuses, because guessing would break a node; a specification with fields that it does not know it
// keeps, and neither applies nor compares; things of a kind that it does not know it keeps, and does not remove the node.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/winservice"
)

// Format is raised only where an older release would do harm with what a newer one wrote.
const Format = 1

// Names in the install folder.
const (
	FileName    = "state.json"
	JournalName = "journal.json"
	LockName    = "wmcb.lock"
	// UndoName is a folder for what an unfinished transaction put aside.
	UndoName = "undo"
)

// State is what is installed and what wmcb owns.
type State struct {
	Format int `json:"format"`
	// Transaction is the one that wrote this.
	Transaction string `json:"transaction"`
	// AppliedAt is RFC 3339, of the transaction.
	AppliedAt string `json:"appliedAt"`
	// Current is what the node runs, Previous the release that it ran before: where a roll-back goes. There is none after a roll-back.
	Current  *Applied `json:"current,omitempty"`
	Previous *Applied `json:"previous,omitempty"`
	// Older are the releases before Previous whose files are kept, the newest first.
	Older []*Applied `json:"older,omitempty"`
	// RolledBack is the roll-back that wrote this; nil where an apply did.
	RolledBack *RolledBack `json:"rolledBack,omitempty"`
	// Owned is what wmcb made; remove deletes this and nothing else.
	Owned []Owned `json:"owned"`

	// unknown holds the fields of a newer release.
	unknown map[string]json.RawMessage
}

// Applied is one specification that was proven healthy.
type Applied struct {
	Release        string `json:"release"`
	NodeName       string `json:"nodeName"`
	Cluster        string `json:"cluster,omitempty"`
	KubeletVersion string `json:"kubeletVersion"`
	// NodeIP is the address that the kubelet registered with.
	NodeIP string `json:"nodeIP,omitempty"`
	// Spec is the NodeSpec as it was applied. It is kept raw: a newer release's may have fields that this one does not know.
	Spec json.RawMessage `json:"spec"`
	// Made is nil where a release wrote it that did not record it.
	Made *Made `json:"made,omitempty"`

	unknown map[string]json.RawMessage
}

// Made is what apply made of a specification. Status compares with it and a roll-back restores it, whatever another wmcb.exe would make
// of the same specification.
type Made struct {
	// Files are those that were written into the release folder; their content is in the store too.
	Files []nodespec.File `json:"files"`
	// Service is the kubelet's, without its environment, which may hold a password and follows from the specification.
	Service winservice.Config `json:"service"`
}

// RolledBack says which release was left for Current, and when (RFC 3339).
type RolledBack struct {
	From string `json:"from"`
	At   string `json:"at"`
}

// Kinds of things that can be owned.
const (
	// OwnedFile is a file, OwnedTree a folder with all that is in it, OwnedFolder a folder that is removed only when it is empty.
	OwnedFile   = "file"
	OwnedTree   = "tree"
	OwnedFolder = "folder"
	// OwnedService is a Windows service, OwnedFirewallRule a rule of the Windows firewall.
	OwnedService      = "service"
	OwnedFirewallRule = "firewall-rule"
)

// Owned is one thing that wmcb made.
type Owned struct {
	Kind string `json:"kind"`
	// Name is a path or a name.
	Name string `json:"name"`
}

// NodeSpec decodes the specification that was applied. One with fields that this release does not know is an error with the reason
// StateUnreadable: obeying half of it would be guessing.
func (a *Applied) NodeSpec() (*nodespec.NodeSpec, error) {
	spec, err := nodespec.DecodeApplied(a.Spec)
	if err != nil {
		wrong := reason.Of(err)
		return nil, reason.New(reason.StateUnreadable, FileName, fmt.Sprintf("the specification of release %s: %s: %s", a.Release, wrong.Object, wrong.Problem),
			"Use the wmcb.exe of release "+a.Release+" or a newer one.")
	}
	return spec, nil
}

// Paths gives where the applied specification put things, whatever else is in it; empty ones where it does not say.
func (a *Applied) Paths() nodespec.Paths {
	var spec struct {
		Paths nodespec.Paths `json:"paths"`
	}
	_ = json.Unmarshal(a.Spec, &spec) // it is JSON, since it was a part of the state
	return spec.Paths
}

// Load reads state.json of an install folder; nil where there is none. A state that cannot be read is an error with the reason
// StateUnreadable.
func Load(install string) (*State, error) {
	path := filepath.Join(install, FileName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, reason.Wrap(reason.StateUnreadable, path, err, "")
	}
	var header struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(raw, &header); err != nil {
		return nil, reason.New(reason.StateUnreadable, path, "it is damaged: "+err.Error(), "")
	}
	if header.Format == nil || *header.Format < 1 {
		return nil, reason.New(reason.StateUnreadable, path, "it says no format", "")
	}
	if *header.Format > Format {
		return nil, reason.New(reason.StateUnreadable, path,
			fmt.Sprintf("a newer release wrote it: its format is %d and this release knows %d", *header.Format, Format), "")
	}
	s := &State{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, reason.New(reason.StateUnreadable, path, "it is damaged: "+err.Error(), "")
	}
	return s, nil
}

// Save replaces state.json, durably.
func (s *State) Save(install string) error {
	s.Format = Format
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return securefile.Write(filepath.Join(install, FileName), append(raw, '\n'))
}

// Own records that wmcb made a thing; twice is once.
func (s *State) Own(thing Owned) {
	if !s.Owns(thing) {
		s.Owned = append(s.Owned, thing)
	}
}

// Owns reports whether wmcb made a thing. Names on Windows know no case.
func (s *State) Owns(thing Owned) bool {
	if s == nil {
		return false
	}
	for _, owned := range s.Owned {
		if owned.Kind == thing.Kind && strings.EqualFold(owned.Name, thing.Name) {
			return true
		}
	}
	return false
}
