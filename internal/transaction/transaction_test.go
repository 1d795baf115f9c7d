package transaction

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/reason"
)

// crash is the power cut: it unwinds everything at the boundary with this number.
type crash struct{ at int }

// machine is what lasts: things on "disk", the state with its transaction, and the journal, which is a real file.
type machine struct {
	folder string
	things map[string]string
	state  map[string]string
	txID   string
	// boundary counts; at crashAt the machine dies.
	boundary, crashAt int
	// broken makes a step's Do fail.
	broken string
}

func (m *machine) tick() {
	m.boundary++
	if m.boundary == m.crashAt {
		panic(crash{m.boundary})
	}
}

// watchedJournal makes a boundary before and after everything that the real journal does.
type watchedJournal struct {
	*FileJournal
	m *machine
}

func (j watchedJournal) Begin(id, label string) error {
	j.m.tick()
	defer j.m.tick()
	return j.FileJournal.Begin(id, label)
}

func (j watchedJournal) Intend(e Entry) error {
	j.m.tick()
	defer j.m.tick()
	return j.FileJournal.Intend(e)
}

func (j watchedJournal) Remove() error {
	j.m.tick()
	defer j.m.tick()
	return j.FileJournal.Remove()
}

type undoThing struct {
	Name   string
	Before string
}

func (m *machine) engine() *Engine {
	return &Engine{
		Journal:   watchedJournal{&FileJournal{Path: filepath.Join(m.folder, "journal.json")}, m},
		Committed: func(id string) (bool, error) { return m.txID == id, nil },
		Undoers: map[string]Undoer{"thing": func(_ context.Context, data json.RawMessage) error {
			var undo undoThing
			if err := json.Unmarshal(data, &undo); err != nil {
				return err
			}
			m.tick()
			defer m.tick()
			m.set(undo.Name, undo.Before)
			return nil
		}},
	}
}

func (m *machine) set(name, value string) {
	if value == "" {
		delete(m.things, name)
		return
	}
	m.things[name] = value
}

func (m *machine) steps(release string) []Step {
	var steps []Step
	for _, name := range []string{"a", "b", "c", "d"} {
		steps = append(steps, Step{
			Name: name,
			Check: func(context.Context, *Plan) (Finding, error) {
				if m.things[name] == release {
					return Finding{}, nil
				}
				return Finding{Drift: []drift.Difference{{Field: name, Seen: m.things[name], Desired: release}}}, nil
			},
			Prepare: func(context.Context) (Undo, error) { return NewUndo("thing", undoThing{name, m.things[name]}), nil },
			Do: func(context.Context) error {
				m.tick()
				defer m.tick()
				if m.broken == name {
					return errors.New("it is broken")
				}
				m.things[name] = release
				return nil
			},
		})
	}
	return steps
}

// apply is a whole run of the program; it reports false where the machine died in it.
func (m *machine) apply(release string) (alive bool, err error) {
	alive = true
	defer func() {
		if caught := recover(); caught != nil {
			if _, died := caught.(crash); !died {
				panic(caught)
			}
			alive = false
		}
	}()
	engine := m.engine()
	if _, err := engine.Recover(context.Background()); err != nil {
		return true, err
	}
	plan, err := NewPlan(context.Background(), m.steps(release))
	if err != nil || !plan.Changes() {
		return true, err
	}
	return true, engine.Run(context.Background(), "apply "+release, plan, func(id string) error {
		m.tick()
		defer m.tick()
		m.txID, m.state = id, map[string]string{"release": release}
		return nil
	})
}

func newMachine(t *testing.T, release string) *machine {
	m := &machine{folder: t.TempDir(), things: map[string]string{}, state: map[string]string{}}
	if release != "" {
		_, err := m.apply(release)
		require.NoError(t, err)
		m.boundary = 0
	}
	return m
}

func (m *machine) requireWhole(t *testing.T, release string) {
	t.Helper()
	want := map[string]string{}
	if release != "" {
		want = map[string]string{"a": release, "b": release, "c": release, "d": release}
	}
	require.Equal(t, want, m.things)
	require.Equal(t, release, m.state["release"])
	require.NoFileExists(t, filepath.Join(m.folder, "journal.json"))
}

// TestACrashAtEveryBoundaryConverges kills the machine once at each boundary of join and upgrade, and again at each boundary of the
// run after it.
func TestACrashAtEveryBoundaryConverges(t *testing.T) {
	crashes := 0
	for _, before := range []string{"", "1"} {
		for first := 1; ; first++ {
			m := newMachine(t, before)
			m.crashAt = first
			if alive, err := m.apply("2"); alive {
				require.NoError(t, err)
				break
			}
			crashes++
			for second := 1; ; second++ {
				twice := m.copy(t)
				twice.boundary, twice.crashAt = 0, second
				alive, err := twice.apply("2")
				if !alive {
					crashes++
					twice.boundary, twice.crashAt = 0, 0
					_, err = twice.apply("2")
				}
				require.NoError(t, err)
				twice.requireWhole(t, "2")
				if alive {
					break
				}
			}
		}
	}
	t.Logf("%d crashes converged", crashes)
	require.Greater(t, crashes, 100)
}

// TestRecoveryGivesTheOldOrTheNewReleaseAndNeverAMixture recovers alone, without going on, after a crash at each boundary.
func TestRecoveryGivesTheOldOrTheNewReleaseAndNeverAMixture(t *testing.T) {
	seen := map[string]int{}
	for at := 1; ; at++ {
		m := newMachine(t, "1")
		m.crashAt = at
		if alive, _ := m.apply("2"); alive {
			break
		}
		m.crashAt = 0
		_, err := m.engine().Recover(context.Background())
		require.NoError(t, err)
		m.requireWhole(t, m.state["release"])
		seen[m.state["release"]]++
	}
	require.Positive(t, seen["1"])
	require.Positive(t, seen["2"])
}

func (m *machine) copy(t *testing.T) *machine {
	twin := &machine{folder: t.TempDir(), things: map[string]string{}, state: map[string]string{}, txID: m.txID}
	for k, v := range m.things {
		twin.things[k] = v
	}
	for k, v := range m.state {
		twin.state[k] = v
	}
	raw, err := os.ReadFile(filepath.Join(m.folder, "journal.json"))
	if err == nil {
		require.NoError(t, os.WriteFile(filepath.Join(twin.folder, "journal.json"), raw, 0o600))
	}
	return twin
}

func TestAFailingStepIsUndoneInReverseAndNamed(t *testing.T) {
	m := newMachine(t, "1")
	m.broken = "c"
	_, err := m.apply("2")
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	require.NoError(t, failure.UndoErr)
	var step *StepError
	require.ErrorAs(t, err, &step)
	require.Equal(t, "c", step.Step)
	m.requireWhole(t, "1")
}

func TestACancelledContextIsUndone(t *testing.T) {
	m := newMachine(t, "1")
	ctx, cancel := context.WithCancel(t.Context())
	steps := m.steps("2")
	do := steps[1].Do
	steps[1].Do = func(ctx context.Context) error { cancel(); return do(ctx) }
	plan, err := NewPlan(ctx, steps)
	require.NoError(t, err)
	err = m.engine().Run(ctx, "apply", plan, func(string) error { t.Fatal("it was committed"); return nil })
	require.ErrorIs(t, err, context.Canceled)
	m.requireWhole(t, "1")
}

func TestAStepThatDidNothingFails(t *testing.T) {
	m := newMachine(t, "1")
	steps := m.steps("2")
	steps[1].Do = func(context.Context) error { return nil }
	plan, err := NewPlan(t.Context(), steps)
	require.NoError(t, err)
	require.ErrorContains(t, m.engine().Run(t.Context(), "apply", plan, nil), "still differs")
	m.requireWhole(t, "1")
}

func TestACommitThatReportsFailureAfterItsEffectIsKept(t *testing.T) {
	m := newMachine(t, "1")
	plan, err := NewPlan(t.Context(), m.steps("2"))
	require.NoError(t, err)
	require.NoError(t, m.engine().Run(t.Context(), "apply", plan, func(id string) error {
		m.txID, m.state = id, map[string]string{"release": "2"}
		return errors.New("the disk answered too late")
	}))
	m.requireWhole(t, "2")
}

func TestATornLastLineOfTheJournalIsAStepThatNeverBegan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	journal := &FileJournal{Path: path}
	require.NoError(t, journal.Begin("x", "apply"))
	require.NoError(t, journal.Intend(Entry{Number: 0, Step: "a", Undo: Undo{Kind: "thing"}}))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, journal.Intend(Entry{Number: 1, Step: "b", Undo: Undo{Kind: "thing"}}))
	both, err := os.ReadFile(path)
	require.NoError(t, err)
	for cut := len(whole); cut < len(both); cut++ {
		require.NoError(t, os.WriteFile(path, both[:cut], 0o600))
		record, err := journal.Read()
		require.NoError(t, err)
		require.Len(t, record.Entries, 1, "cut at %d", cut)
	}
	zeros := append(append([]byte{}, whole...), make([]byte, 40)...) // NTFS gives zeros where the data never arrived
	require.NoError(t, os.WriteFile(path, zeros, 0o600))
	record, err := journal.Read()
	require.NoError(t, err)
	require.Len(t, record.Entries, 1)
}

func TestADamagedOrNewerJournalIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	journal := &FileJournal{Path: path}
	require.NoError(t, journal.Begin("x", "apply"))
	require.NoError(t, journal.Intend(Entry{Number: 0, Step: "a", Undo: Undo{Kind: "thing"}}))
	require.NoError(t, journal.Intend(Entry{Number: 1, Step: "b", Undo: Undo{Kind: "thing"}}))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, at := range []int{3, len(raw) / 2} {
		damaged := append([]byte{}, raw...)
		damaged[at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		_, err := journal.Read()
		require.True(t, reason.Is(err, reason.StateUnreadable), "byte %d: %v", at, err)
	}
	require.NoError(t, os.WriteFile(path, line(Record{Format: Format + 1, ID: "x"}), 0o600))
	_, err = journal.Read()
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
}

func TestOnlyOneHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	require.NoError(t, err)
	_, err = Lock(path)
	require.True(t, reason.Is(err, reason.NodeBusy), "%v", err)
	unlock()
	unlock, err = Lock(path)
	require.NoError(t, err)
	unlock()
}

func TestAJournalWithAStepThatOnlyANewerReleaseCanUndoIsLeftWhole(t *testing.T) {
	m := newMachine(t, "1")
	engine := m.engine()
	require.NoError(t, engine.Journal.Begin("x", "apply"))
	require.NoError(t, engine.Journal.Intend(Entry{Number: 0, Step: "a", Undo: Undo{Kind: "of-the-future"}}))
	require.NoError(t, engine.Journal.Intend(Entry{Number: 1, Step: "b", Undo: NewUndo("thing", undoThing{"b", "spoilt"})}))
	_, err := engine.Recover(t.Context())
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
	require.Equal(t, "1", m.things["b"], "nothing was undone by halves")
	record, err := engine.Journal.Read()
	require.NoError(t, err)
	require.Len(t, record.Entries, 2)
}
