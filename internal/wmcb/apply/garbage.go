package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/store"
	"wsu.windows/internal/wmcb/state"
)

const (
	// partialLife is how long a transfer that broke off is kept for being continued.
	partialLife = 7 * 24 * time.Hour
	// strangerLife is how long a content that no release here ever had is kept: a transfer may have brought it for an apply to come.
	strangerLife = 24 * time.Hour
)

// older gives the releases to keep behind the one that becomes the previous, when spec becomes the current.
func older(s *state.State, spec *nodespec.NodeSpec) []*state.Applied {
	list := s.Older
	if s.Previous != nil {
		list = append([]*state.Applied{s.Previous}, list...)
	}
	list = slices.DeleteFunc(slices.Clone(list), func(a *state.Applied) bool {
		return strings.EqualFold(a.Release, spec.Release) || strings.EqualFold(a.Release, s.Current.Release)
	})
	return list[:min(len(list), spec.Keep()-1)]
}

// cleanUp removes what the transaction no longer needs. What it cannot remove it warns of, and the next change tries again.
func (b *builder) cleanUp() {
	b.discard(b.layout.undo)
	b.discard(b.layout.cniState + ".before-wsu")
	securefile.SweepAside(b.layout.install)
	securefile.SweepAside(b.layout.release)
	if b.restoring {
		return // what was left is worth a look
	}
	b.collectReleases()
	b.collectStore()
}

func (b *builder) discard(path string) {
	if err := os.RemoveAll(path); err != nil {
		b.warn("%s is no longer needed and cannot be deleted now: %v", path, err)
	}
}

func (b *builder) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// kept are the applied specifications whose files stay.
func kept(s *state.State) []*state.Applied {
	var list []*state.Applied
	if s == nil {
		return nil
	}
	for _, applied := range append([]*state.Applied{s.Current, s.Previous}, s.Older...) {
		if applied != nil {
			list = append(list, applied)
		}
	}
	return list
}

// collectReleases deletes the folders of releases that are not kept, unless something still runs from one.
func (b *builder) collectReleases() {
	entries, err := os.ReadDir(b.layout.releases)
	if err != nil {
		b.warn("old releases were not looked for: %v", err)
		return
	}
	for _, entry := range entries {
		path := filepath.Join(b.layout.releases, entry.Name())
		if slices.ContainsFunc(kept(b.before), func(a *state.Applied) bool { return strings.EqualFold(a.Release, entry.Name()) }) {
			continue
		}
		running, err := b.host.Processes.Under(path)
		switch {
		case err != nil:
			b.warn("%s is no longer needed and was not deleted: %v", path, err)
		case len(running) > 0:
			b.warn("%s is no longer needed and was not deleted: %s (process %d) still runs", path, running[0].Path, running[0].PID)
		default:
			b.discard(path)
		}
	}
}

// collectStore deletes the contents that no kept release needs, and transfers that were never finished. A transfer that is at work has
// the store to itself; the next change then collects.
func (b *builder) collectStore() {
	s := store.At(b.layout.install)
	contents, err := s.Contents()
	if err != nil || len(contents) == 0 {
		return
	}
	needed, complete := contentsOf(kept(b.before))
	if !complete {
		return // a newer release's specification may need what this one knows nothing of
	}
	unlock, err := s.Lock("")
	if err != nil {
		return
	}
	defer unlock()
	dropped, _ := contentsOf(kept(b.replaced))
	for _, content := range contents {
		path := s.Path(content.SHA256)
		if !needed[content.SHA256] && (dropped[content.SHA256] || olderThan(path, strangerLife)) {
			b.discard(path)
		}
	}
	b.collectPartials()
}

func (b *builder) collectPartials() {
	for _, pattern := range []string{"*.partial", "*.chunks"} {
		left, _ := filepath.Glob(filepath.Join(b.layout.store, pattern)) // the pattern is good
		for _, path := range left {
			if olderThan(path, partialLife) {
				b.discard(path)
			}
		}
	}
}

func olderThan(path string, age time.Duration) bool {
	info, err := os.Lstat(path)
	return err == nil && time.Since(info.ModTime()) > age
}

// contentsOf gives the digests that specifications need; complete is false where one has fields that this release does not know.
func contentsOf(list []*state.Applied) (digests map[string]bool, complete bool) {
	digests, complete = map[string]bool{}, true
	for _, applied := range list {
		spec, err := applied.NodeSpec()
		if err != nil {
			complete = false
			continue
		}
		digests[spec.Bootstrap.IgnitionSHA256] = true
		files := spec.Files
		if applied.Made != nil {
			files = append(slices.Clone(files), applied.Made.Files...)
		}
		for _, f := range files {
			digests[f.SHA256] = true
		}
	}
	return digests, complete
}
