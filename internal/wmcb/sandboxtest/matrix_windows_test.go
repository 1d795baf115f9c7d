//go:build sandbox

package sandboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/enroll"
	"wsu.windows/internal/wmcb/remove"
	"wsu.windows/internal/wmcb/rollback"
	"wsu.windows/internal/wmcb/state"
)

// In the environment of a child: what it runs, and the boundary at which it kills itself; 0: never.
const (
	childCommand = "WSU_TEST_CHILD"
	childDiesAt  = "WSU_TEST_DIES_AT"
)

// long runs every boundary and fifty random moments instead of a sample.
var long = os.Getenv("WSU_TEST_CRASH") == "long"

// killed is the exit code of a child that killed itself.
const killed = 99

// boundaries counts the moments at which a run can die: around every write of the journal, and before everything that it does.
type boundaries struct{ count, diesAt int }

func (b *boundaries) pass() {
	b.count++
	if b.count == b.diesAt {
		_ = windows.TerminateProcess(windows.CurrentProcess(), killed)
	}
}

// Write takes progress lines, one for each step.
func (b *boundaries) Write(p []byte) (int, error) {
	b.pass()
	return len(p), nil
}

type dyingJournal struct {
	transaction.Journal
	b *boundaries
}

func (j dyingJournal) Begin(id, label string) error {
	j.b.pass()
	defer j.b.pass()
	return j.Journal.Begin(id, label)
}

func (j dyingJournal) Intend(e transaction.Entry) error {
	j.b.pass()
	defer j.b.pass()
	return j.Journal.Intend(e)
}

func (j dyingJournal) Remove() error {
	j.b.pass()
	defer j.b.pass()
	return j.Journal.Remove()
}

// TestChild is the process that dies.
func TestChild(t *testing.T) {
	command := os.Getenv(childCommand)
	if command == "" {
		t.Skip("only as a child")
	}
	diesAt, err := strconv.Atoi(os.Getenv(childDiesAt))
	require.NoError(t, err)
	b := &boundaries{diesAt: diesAt}
	host := apply.ThisHost()
	host.Journal = func(j transaction.Journal) transaction.Journal { return dyingJournal{j, b} }
	host.Stays, host.StaysChanged = 500*time.Millisecond, 500*time.Millisecond
	switch release, isApply := strings.CutPrefix(command, "apply "); {
	case isApply:
		_, err = apply.Run(t.Context(), apply.Options{Spec: matrixSpec(t, release), Enroll: enroll.For(nil), EnrollWait: time.Minute, Host: host, Progress: progress.New(b)})
	case command == "rollback":
		_, err = rollback.Run(t.Context(), rollback.Options{Host: host, Progress: progress.New(b)})
	default:
		_, err = remove.Run(t.Context(), remove.Options{Host: host, Progress: progress.New(b)})
	}
	if reason.Is(err, reason.RollbackUnavailable) {
		found, loadErr := state.Load(install)
		require.NoError(t, loadErr)
		require.NotNil(t, found.RolledBack, "%v", err) // it had been complete, but for its journal
		return
	}
	require.NoError(t, err)
}

// child runs a command in a process of its own and reports whether that died at the boundary.
func child(t *testing.T, command string, diesAt int) (died bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childCommand+"="+command, childDiesAt+"="+strconv.Itoa(diesAt))
	output := filepath.Join(t.TempDir(), "output") // a pipe would be inherited by services, and held open
	file, err := os.Create(output)
	require.NoError(t, err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() == killed {
		return true
	}
	said, _ := os.ReadFile(output)
	require.NoError(t, err, "%s:\n%s", command, said)
	return false
}

// pods tells the configurations of the matrix' releases apart.
var pods = map[string]string{"1.0.0": "101", "2.0.0": "102"}

func matrixSpec(t *testing.T, release string) *nodespec.NodeSpec {
	spec := newSpec(t, release, "kubelet.exe")
	spec.Kubelet.Config = map[string]any{"maxPods": json.Number(pods[release])}
	return spec
}

// command is a row of the matrix. The rows are run one after another, each begins where the one before ended.
type command struct {
	row, line string
	// ends is the release that runs afterwards; empty: the node is removed.
	ends string
	// before is run first, without being killed.
	before string
	// partner is the row that needs this one.
	partner string
}

var rows = []command{
	{"join", "apply 1.0.0", "1.0.0", "", "remove"},
	{"upgrade", "apply 2.0.0", "2.0.0", "", "downgrade"},
	{"downgrade", "apply 1.0.0", "1.0.0", "", "upgrade"},
	{"rollback", "rollback", "1.0.0", "apply 2.0.0", "rollback"},
	{"remove", "remove", "", "", "join"},
}

// TestKilledAtEveryBoundary kills wmcb at the boundaries of join, upgrade, downgrade, rollback and remove. The same command again converges,
// and at every moment the machine runs one whole release, or none where it had or shall have none.
func TestKilledAtEveryBoundary(t *testing.T) {
	removeNode(t)
	w := watch(t)
	defer removeNode(t)
	step := 7
	if long {
		step = 1
	}
	kills, inTransaction, done := map[string]int{}, 0, map[string]bool{}
	for at := 1; len(done) < len(rows); at += step {
		for _, c := range rows {
			if done[c.row] && done[c.partner] {
				continue
			}
			if c.before != "" {
				child(t, c.before, 0)
			}
			if !done[c.row] && child(t, c.line, at) {
				kills[c.row]++
				inTransaction += requireWhole(t, c)
			} else {
				done[c.row] = true
			}
			child(t, c.line, 0)
			requireEnd(t, c)
		}
		t.Logf("boundary %d: %v", at, kills)
	}
	w.end(t)
	total := 0
	for _, c := range rows {
		t.Logf("%-9s %3d kills", c.row, kills[c.row])
		total += kills[c.row]
	}
	t.Logf("%d kills at boundaries, %d of them in the middle of a transaction; the release that ran was looked at %d times", total, inTransaction, w.looks)
	require.Positive(t, inTransaction)
}

// TestKilledAtRandomMoments does the same to wmcb.exe itself, at moments that nobody chose.
func TestKilledAtRandomMoments(t *testing.T) {
	removeNode(t)
	program := payload(t, "wmcb.exe")
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("WSU_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	count := 10
	if long {
		count = 50
	}
	w := watch(t)
	took := map[string]time.Duration{}
	died, inTransaction := 0, 0
	for i := range count {
		c := rows[i%len(rows)]
		if c.before != "" {
			wmcb(t, program, c.before, -1)
		}
		limit := took[c.row]
		if limit == 0 {
			limit = 6 * time.Second
		}
		begin := time.Now()
		if wmcb(t, program, c.line, time.Duration(random.Int64N(int64(limit)))) {
			died++
			inTransaction += requireWhole(t, c)
			begin = time.Now()
			wmcb(t, program, c.line, -1)
		}
		took[c.row] = time.Since(begin)
		requireEnd(t, c)
	}
	w.end(t)
	t.Logf("seed %d: %d runs of wmcb.exe, %d killed, %d of them in the middle of a transaction; looked at %d times", seed, count, died, inTransaction, w.looks)
	require.Positive(t, died)
	removeNode(t)
}

// wmcb runs wmcb.exe and kills it after a while; a negative while: never. It reports whether it was killed.
func wmcb(t *testing.T, program, line string, after time.Duration) bool {
	t.Helper()
	args, input := strings.Fields(line), io.Reader(nil)
	if release, isApply := strings.CutPrefix(line, "apply "); isApply {
		spec, err := json.Marshal(matrixSpec(t, release))
		require.NoError(t, err)
		args, input = []string{"apply", "-f", "-"}, bytes.NewReader(spec)
	}
	output, err := os.Create(filepath.Join(t.TempDir(), "document"))
	require.NoError(t, err)
	defer output.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout = input, output
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := make(<-chan time.Time)
	if after >= 0 {
		timer = time.After(after)
	}
	select {
	case err := <-ended:
		document, _ := os.ReadFile(output.Name())
		if err != nil && !bytes.Contains(document, []byte(reason.RollbackUnavailable)) {
			t.Fatalf("wmcb %s: %v: %s", line, err, document)
		}
		return false
	case <-timer:
		killErr := cmd.Process.Kill()
		<-ended
		return killErr == nil
	}
}

// requireWhole looks at a machine on which a run was just killed: the state is whole, and so is the release that the service names. It gives
// 1 where a transaction is open.
func requireWhole(t *testing.T, c command) int {
	t.Helper()
	_, err := state.Load(install)
	require.NoError(t, err)
	config, err := winservice.Open().Config(apply.KubeletService)
	require.NoError(t, err)
	if config != nil {
		words, err := windows.DecomposeCommandLine(config.CommandLine)
		require.NoError(t, err)
		folder := filepath.Dir(words[0])
		if c.row != "remove" {
			requireRelease(t, folder, config.CommandLine)
		}
	} else {
		require.Contains(t, []string{"join", "remove"}, c.row, "the service of the old release is gone")
	}
	if _, err := os.Stat(filepath.Join(install, state.JournalName)); err == nil {
		return 1
	}
	return 0
}

func requireRelease(t *testing.T, folder, commandLine string) {
	t.Helper()
	for _, name := range []string{"kubelet.exe", "kube-log-runner.exe", "kubelet.conf"} {
		require.FileExists(t, filepath.Join(folder, name))
		require.Contains(t, commandLine, filepath.Join(folder, name))
	}
	content, err := os.ReadFile(filepath.Join(folder, "kubelet.conf"))
	require.NoError(t, err)
	require.Contains(t, string(content), "maxPods: "+pods[filepath.Base(folder)]+"\n")
}

func requireEnd(t *testing.T, c command) {
	t.Helper()
	if c.ends != "" {
		requireRuns(t, c.ends)
		return
	}
	config, err := winservice.Open().Config(apply.KubeletService)
	require.NoError(t, err)
	require.Nil(t, config)
	require.NoFileExists(t, filepath.Join(install, state.FileName))
	require.NoDirExists(t, filepath.Join(install, "releases"))
}

// watcher looks all the time whether programs of two releases run.
type watcher struct {
	stop     chan struct{}
	wg       sync.WaitGroup
	looks    int
	mixtures []string
}

func watch(*testing.T) *watcher {
	w := &watcher{stop: make(chan struct{})}
	w.wg.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(50 * time.Millisecond):
				w.look()
			}
		}
	})
	return w
}

func (w *watcher) look() {
	releases := filepath.Join(install, "releases")
	found, err := winservice.OpenProcesses().Under(releases)
	if err != nil {
		return
	}
	w.looks++
	seen := map[string]bool{}
	for _, process := range found {
		release, _, _ := strings.Cut(strings.TrimPrefix(strings.ToLower(process.Path), strings.ToLower(releases)+`\`), `\`)
		seen[release] = true
	}
	if len(seen) > 1 {
		w.mixtures = append(w.mixtures, fmt.Sprint(found))
	}
}

func (w *watcher) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	require.Empty(t, w.mixtures, "programs of two releases ran at once")
}
