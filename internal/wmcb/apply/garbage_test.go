package apply_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
	"wsu.windows/internal/wmcb/wmcbtest"
)

func releases(t *testing.T, n *wmcbtest.Node) []string {
	t.Helper()
	entries, err := os.ReadDir(n.Path("k", "releases"))
	require.NoError(t, err)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func applyAll(t *testing.T, n *wmcbtest.Node, keep int, list ...string) {
	t.Helper()
	for _, release := range list {
		spec := n.Spec(release)
		spec.KeepReleases = keep
		report, err := n.Apply(spec)
		require.NoError(t, err)
		require.Empty(t, slices.DeleteFunc(report.Warnings, func(w string) bool { return strings.Contains(w, "firewall") }))
	}
}

func TestThePreviousReleaseStaysAndOlderOnesGo(t *testing.T) {
	n := wmcbtest.New(t)
	ones := n.Spec("1.0.0").Files
	applyAll(t, n, 0, "1.0.0", "2.0.0", "9.0.0")
	require.Equal(t, []string{"2.0.0", "9.0.0"}, releases(t, n))
	spec := n.Spec("2.0.0")
	for _, f := range spec.Files {
		require.FileExists(t, n.Path("k", "store", f.SHA256), "the previous release's contents stay")
	}
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	require.Empty(t, found.Older)
	for _, f := range ones {
		require.NoFileExists(t, n.Path("k", "store", f.SHA256), "1.0.0's own contents are gone")
	}
}

func TestAsManyReleasesStayAsTheSpecificationSays(t *testing.T) {
	n := wmcbtest.New(t)
	applyAll(t, n, 2, "1.0.0", "2.0.0", "9.0.0")
	require.Equal(t, []string{"1.0.0", "2.0.0", "9.0.0"}, releases(t, n))
	applyAll(t, n, 2, "1.0.0")
	require.Equal(t, []string{"1.0.0", "2.0.0", "9.0.0"}, releases(t, n))
	applyAll(t, n, 1, "2.0.0")
	require.Equal(t, []string{"1.0.0", "2.0.0"}, releases(t, n))
}

// lateProcesses has a program that somebody starts from the old release's folder just before it is collected.
type lateProcesses struct {
	winservice.Processes
	folder string
}

func (p lateProcesses) Under(folder string) ([]winservice.Process, error) {
	if folder == p.folder {
		return []winservice.Process{{PID: 7, Path: filepath.Join(folder, "late.exe")}}, nil
	}
	return p.Processes.Under(folder)
}

func TestWhatStillRunsStaysWithAWarning(t *testing.T) {
	n := wmcbtest.New(t)
	applyAll(t, n, 0, "1.0.0", "2.0.0")
	host := n.Host()
	host.Processes = lateProcesses{host.Processes, n.Path("k", "releases", "1.0.0")}
	report, err := apply.Run(t.Context(), apply.Options{Spec: n.Spec("9.0.0"), Enroll: n.Enroll, Host: host})
	require.NoError(t, err)
	require.Contains(t, strings.Join(report.Warnings, "\n"), "late.exe (process 7) still runs")
	require.DirExists(t, n.Path("k", "releases", "1.0.0"))
}

func TestAnOrphanThatHoldsFilesIsEndedBeforeTheSwapAndNamed(t *testing.T) {
	n := wmcbtest.New(t)
	applyAll(t, n, 0, "1.0.0")
	orphan := n.Path("k", "releases", "1.0.0", "orphan.exe")
	require.NoError(t, n.Machine.Create(t.Context(), "orphan", winservice.Config{CommandLine: orphan, StartType: winservice.StartManual}))
	require.NoError(t, n.Machine.Start(t.Context(), "orphan"))
	report, err := n.Apply(n.Spec("2.0.0"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(report.Warnings, "\n"), orphan)
	require.Nil(t, n.Machine.Running("orphan"))
}

func TestTransfersAndContentsOfNobodyGoWhenTheyAreOld(t *testing.T) {
	n := wmcbtest.New(t)
	applyAll(t, n, 0, "1.0.0")
	made := func(name string, age time.Duration) string {
		path := n.Path("k", "store", name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, then, then))
		return path
	}
	const day = 24 * time.Hour
	digest := func(c string) string { return strings.Repeat(c, 64) }
	gone := []string{made(digest("a")+".partial", 8*day), made(digest("a")+".chunks", 8*day), made(digest("b"), 2*day)}
	stay := []string{made(digest("c")+".partial", 6*day), made(digest("d"), time.Hour)}
	applyAll(t, n, 0, "2.0.0")
	for _, path := range gone {
		require.NoFileExists(t, path)
	}
	for _, path := range stay {
		require.FileExists(t, path)
	}
}

func TestNothingIsCollectedThatANewerReleasesSpecificationMayNeed(t *testing.T) {
	n := wmcbtest.New(t)
	applyAll(t, n, 0, "1.0.0")
	found, err := state.Load(n.Path("k"))
	require.NoError(t, err)
	found.Current.Spec = []byte(`{"futureFiles":[], ` + string(found.Current.Spec[1:]))
	require.NoError(t, found.Save(n.Path("k")))
	stranger := n.Path("k", "store", strings.Repeat("e", 64))
	require.NoError(t, os.WriteFile(stranger, nil, 0o600))
	require.NoError(t, os.Chtimes(stranger, time.Time{}, time.Unix(1, 0)))
	applyAll(t, n, 0, "2.0.0")
	require.FileExists(t, stranger)
	require.NoFileExists(t, filepath.Join(n.Path("k"), state.JournalName))
}
