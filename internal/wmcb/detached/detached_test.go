//go:build unix

package detached

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
)

// TestMain is also the program that is started: wmcb run --id ID --inside COMMAND.
func TestMain(m *testing.M) {
	if folder := os.Getenv("DETACHED_FOLDER"); folder != "" {
		inside(folder, os.Args[len(os.Args)-1])
		return
	}
	os.Exit(m.Run())
}

func inside(folder, command string) {
	r := &Run{ID: "insideinside", folder: folder, program: []string{"none"}}
	err := r.Inside(os.Stdin, func(s Streams) int {
		input, _ := io.ReadAll(s.In)
		fmt.Fprintln(s.Err, "begun")
		for command == "wait" {
			if _, err := os.Stat(filepath.Join(folder, "go on")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if command == "die" {
			os.Exit(9)
		}
		fmt.Fprintf(s.Out, "{\"input\":%q}\n", input)
		return 6
	})
	if err != nil {
		panic(err)
	}
}

func newRun(t *testing.T, args ...string) *Run {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	t.Setenv("DETACHED_FOLDER", folder)
	return &Run{ID: "abcdefgh", Args: args, folder: folder, program: []string{os.Args[0]}}
}

func TestARunGivesItsDocumentItsCodeAndWhatItSaid(t *testing.T) {
	r := newRun(t, "-f", "-", "once")
	var out, said bytes.Buffer
	code, err := r.Follow(t.Context(), Streams{strings.NewReader(`{"a":1}`), &out, &said})
	require.NoError(t, err)
	assert.Equal(t, 6, code)
	assert.Equal(t, `{"input":"{\"a\":1}"}`+"\n", out.String())
	assert.Equal(t, "begun\n", said.String())

	assert.NoDirExists(t, r.folder, "what was told is forgotten")
}

func TestWhoeverFollowedMayGoAndComeBack(t *testing.T) {
	r := newRun(t, "wait")
	ctx, cut := context.WithCancel(t.Context())
	said := writerFunc(func(p []byte) (int, error) {
		cut()
		return len(p), nil
	})
	_, err := r.Follow(ctx, Streams{nil, io.Discard, said})
	require.True(t, reason.Is(err, reason.Interrupted), "%v", err)
	require.NoError(t, os.WriteFile(r.path("go on"), nil, 0o600))
	var out bytes.Buffer
	code, err := r.Follow(t.Context(), Streams{nil, &out, io.Discard})
	require.NoError(t, err)
	assert.Equal(t, 6, code)
	assert.NotEmpty(t, out.String())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWhoeverFollowsDoesNotTakeTheLockFromARunThatIsAboutToBegin(t *testing.T) {
	r := newRun(t, "once")
	require.NoError(t, os.MkdirAll(r.folder, 0o700))
	require.NoError(t, os.WriteFile(r.path(lockFile), nil, 0o600)) // made, and not yet held
	followed := make(chan error, 1)
	go func() {
		_, err := r.Follow(t.Context(), Streams{nil, io.Discard, io.Discard})
		followed <- err
	}()
	time.Sleep(5 * every)
	require.NoError(t, (&Run{ID: r.ID, folder: r.folder, program: r.program}).Inside(nil, func(Streams) int { return 0 }))
	require.NoError(t, <-followed)
}

func TestARunThatWasKilledIsNotWaitedFor(t *testing.T) {
	_, err := newRun(t, "die").Follow(t.Context(), Streams{nil, io.Discard, io.Discard})
	assert.True(t, reason.Is(err, reason.Interrupted), "%v", err)
}

func TestInputThatBrokeOffStartsNothing(t *testing.T) {
	r := newRun(t, "-f", "-", "once")
	_, err := r.Follow(t.Context(), Streams{strings.NewReader(`{"a":`), io.Discard, io.Discard})
	require.True(t, reason.Is(err, reason.ConnectionLost), "%v", err)
	assert.NoDirExists(t, r.folder)
}

func TestANameThatCouldBeAPathIsRefused(t *testing.T) {
	for _, id := range []string{"", "short", `..\..\Windows`, strings.Repeat("a", 41)} {
		_, err := (&Run{ID: id, Args: []string{"apply"}}).Follow(t.Context(), Streams{nil, io.Discard, io.Discard})
		assert.True(t, reason.Is(err, reason.ArgumentInvalid), id)
	}
}
