// Package state is what wmcb remembers of a machine between its runs: state.json in the install folder. It is replaced in one rename, so
// it is never torn, and its replacement is what commits a transaction.
//
// An older release meets the state of a newer one when playbooks are downgraded. Fields that it does not know it keeps as they are; a
// format that it does not know it refuses, because guessing would break a node.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
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
	// Current is what the node runs, Previous what it ran before: what a roll-back applies again.
	Current  *Applied `json:"current,omitempty"`
	Previous *Applied `json:"previous,omitempty"`
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

// NodeSpec decodes the specification that was applied.
func (a *Applied) NodeSpec() (*nodespec.NodeSpec, error) {
	spec, err := nodespec.Decode(a.Spec)
	if err != nil {
		return nil, reason.New(reason.StateUnreadable, FileName, "the specification of release "+a.Release+": "+reason.Of(err).Error(), "")
	}
	return spec, nil
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

// plain has State's fields without its methods.
type plain State

// UnmarshalJSON keeps the fields that this release does not know.
func (s *State) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, (*plain)(s)); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &s.unknown); err != nil {
		return err
	}
	for field := range reflect.TypeFor[State]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(s.unknown, name)
	}
	return nil
}

// MarshalJSON writes them again.
func (s *State) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal((*plain)(s))
	if err != nil || len(s.unknown) == 0 {
		return raw, err
	}
	all := maps.Clone(s.unknown)
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
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
