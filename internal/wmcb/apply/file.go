package apply

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/wmcb/state"
)

func newName(base string) string {
	var name [6]byte
	_, _ = rand.Read(name[:]) // crypto/rand never fails since Go 1.24
	return hex.EncodeToString(name[:]) + "-" + base
}

// file is a small file with known content.
type file struct {
	name, action, path string
	// content is nil where it is not known: in a dry run that has no Ignition yet, and in a status that no longer has it.
	content []byte
	// secret content is never shown; yaml content is compared field by field.
	secret, yaml bool
	// restart: the kubelet reads it at its start only.
	restart bool
}

func (f file) step(install string) transaction.Step {
	return transaction.Step{
		Name: f.name, Action: f.action,
		Check:   func(context.Context, *transaction.Plan) (transaction.Finding, error) { return f.check() },
		Prepare: func(context.Context) (transaction.Undo, error) { return backUp(install, f.path) },
		Do:      func(context.Context) error { return securefile.Write(f.path, f.content) },
	}
}

func (f file) check() (transaction.Finding, error) {
	have, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return transaction.Finding{Drift: drift.Whole(drift.Missing), Restart: f.restart, After: f.shown(f.content)}, nil
	}
	if err != nil {
		return transaction.Finding{}, err
	}
	if f.content == nil {
		return transaction.Finding{}, nil
	}
	finding := transaction.Finding{}
	if !bytes.Equal(have, f.content) {
		finding = transaction.Finding{Drift: f.drift(have), Restart: f.restart, Before: f.shown(have), After: f.shown(f.content)}
	}
	access, err := accessDrift(f.path)
	finding.Drift = append(finding.Drift, access...)
	return finding, err
}

func (f file) shown(content []byte) string {
	if f.secret {
		return ""
	}
	return string(content)
}

// drift names the fields of YAML that differ, else the digests.
func (f file) drift(have []byte) []drift.Difference {
	if f.yaml {
		if fields := yamlDrift(have, f.content); len(fields) > 0 {
			return fields
		}
	}
	return contentDrift(digestOf(have), digestOf(f.content))
}

func contentDrift(have, want string) []drift.Difference {
	return []drift.Difference{{Field: "content", Seen: "SHA-256 " + have, Desired: want}}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func yamlDrift(have, want []byte) []drift.Difference {
	var before, after map[string]any
	if yaml.Unmarshal(have, &before) != nil || yaml.Unmarshal(want, &after) != nil {
		return nil
	}
	list := fieldDrift("", before, after)
	slices.SortFunc(list, func(a, b drift.Difference) int { return strings.Compare(a.Field, b.Field) })
	return list
}

// fieldDrift goes into objects, so that it names authentication.anonymous.enabled and not all of authentication.
func fieldDrift(prefix string, before, after map[string]any) []drift.Difference {
	var list []drift.Difference
	for name, want := range after {
		have, found := before[name]
		haveObject, isObject := have.(map[string]any)
		wantObject, both := want.(map[string]any)
		switch {
		case !found:
			list = append(list, drift.Difference{Field: prefix + name, Seen: drift.Missing, Desired: fmt.Sprint(want)})
		case isObject && both:
			list = append(list, fieldDrift(prefix+name+".", haveObject, wantObject)...)
		case fmt.Sprint(have) != fmt.Sprint(want):
			list = append(list, drift.Difference{Field: prefix + name, Seen: fmt.Sprint(have), Desired: fmt.Sprint(want)})
		}
	}
	for name, have := range before {
		if _, found := after[name]; !found {
			list = append(list, drift.Difference{Field: prefix + name, Seen: fmt.Sprintf("it is there (%v) and shall not be", have)})
		}
	}
	return list
}

func accessDrift(path string) ([]drift.Difference, error) {
	extra, err := securefile.CheckAccess(path)
	if err != nil {
		return nil, err
	}
	var list []drift.Difference
	for _, who := range extra {
		list = append(list, drift.Difference{Field: "access", Seen: "it is open to " + who})
	}
	return list, nil
}

// folderStep makes one folder; protected ones are for SYSTEM and Administrators alone, others inherit.
func folderStep(path string, protected bool) transaction.Step {
	return transaction.Step{
		Name: "folder " + path, Action: "Make the folder " + path,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				return transaction.Finding{Drift: drift.Whole(drift.Missing)}, nil
			}
			if err != nil {
				return transaction.Finding{}, err
			}
			if !info.IsDir() {
				return transaction.Finding{}, reason.New(reason.ApplyFailed, path, "it is a file and has to be a folder", "Move the file away.")
			}
			if !protected {
				return transaction.Finding{}, nil
			}
			access, err := accessDrift(path)
			return transaction.Finding{Drift: access}, err
		},
		Prepare: func(context.Context) (transaction.Undo, error) {
			return transaction.NewUndo(undoFolderKind, folderUndo{Path: path}), nil
		},
		Do: func(context.Context) error {
			if !protected {
				err := os.Mkdir(path, 0o755)
				if errors.Is(err, fs.ErrExist) {
					return nil
				}
				return err
			}
			if err := securefile.MakeFolder(path); err != nil {
				return err
			}
			return securefile.Protect(path)
		},
	}
}

// releaseFile puts one file of the release in place, from the store.
func releaseFile(l layout, f nodespec.File) transaction.Step {
	path, source := filepath.Join(l.release, f.Name), filepath.Join(l.store, f.SHA256)
	return transaction.Step{
		Name: "release-file " + f.Name, Action: fmt.Sprintf("Put %s %s into %s", f.Name, f.Version, l.release),
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			sum, err := securefile.Digest(path)
			if errors.Is(err, fs.ErrNotExist) {
				return transaction.Finding{Drift: drift.Whole(drift.Missing), Restart: true, After: f.SHA256 + "\n"}, nil
			}
			if err != nil {
				return transaction.Finding{}, err
			}
			var finding transaction.Finding
			if sum != f.SHA256 {
				finding = transaction.Finding{Drift: contentDrift(sum, f.SHA256), Restart: true,
					Before: sum + "\n", After: f.SHA256 + "\n"}
			}
			access, err := accessDrift(path)
			finding.Drift = append(finding.Drift, access...)
			return finding, err
		},
		Prepare: func(context.Context) (transaction.Undo, error) { return backUp(l.install, path) },
		Do:      func(context.Context) error { return place(source, path, f) },
	}
}

func place(source, path string, f nodespec.File) error {
	if sum, err := securefile.Digest(path); err == nil && sum == f.SHA256 {
		return securefile.Protect(path) // its access rights were all that differed
	}
	sum, err := securefile.Digest(source)
	if errors.Is(err, fs.ErrNotExist) {
		return reason.New(reason.FileMissing, f.Name, "its content "+f.SHA256+" is not in the store", "")
	}
	if err != nil {
		return err
	}
	if sum != f.SHA256 {
		// It goes, so that the next transfer sends it again.
		return errors.Join(reason.New(reason.FileMissing, f.Name, fmt.Sprintf("its content in the store is damaged: SHA-256 %s, not %s", sum, f.SHA256),
			"Transfer the release's files again."), os.Remove(source))
	}
	if err := securefile.Place(source, path, f.SHA256); err != nil {
		return err
	}
	return securefile.Protect(path)
}

// purgeStep takes the state of earlier CNI plugins away, which would give addresses out twice.
func purgeStep(l layout, first bool) transaction.Step {
	aside := l.cniState + ".before-wsu"
	return transaction.Step{
		Name: "cni-state", Action: "Remove the CNI state of an earlier life, " + l.cniState,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			if _, err := os.Stat(l.cniState); err != nil || !first {
				return transaction.Finding{}, nil //nolint:nilerr // what cannot be seen is not there
			}
			return transaction.Finding{Drift: drift.Whole("it is there and shall not be")}, nil
		},
		Prepare: func(context.Context) (transaction.Undo, error) {
			return transaction.NewUndo(undoRename, renameUndo{From: l.cniState, To: aside}), os.RemoveAll(aside)
		},
		Do: func(context.Context) error { return os.Rename(l.cniState, aside) },
	}
}

// ownedOf says what each applied specification makes.
func ownedOf(l layout, spec *nodespec.NodeSpec) []state.Owned {
	return []state.Owned{
		{Kind: state.OwnedTree, Name: l.releases},
		{Kind: state.OwnedFile, Name: l.bootstrap},
		{Kind: state.OwnedFile, Name: l.kubeconfig},
		{Kind: state.OwnedFile, Name: l.kubeletCA},
		{Kind: state.OwnedTree, Name: l.pki},
		{Kind: state.OwnedTree, Name: l.logs},
		{Kind: state.OwnedService, Name: KubeletService},
		{Kind: state.OwnedFirewallRule, Name: firewallRuleName},
	}
}
