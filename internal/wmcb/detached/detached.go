// Package detached runs a subcommand so that it outlives the session that started it: setting up a network or a reboot cuts the session, and
// what was begun has to be finished and its outcome told. A run has a name, under which whoever comes back finds it.
//
// The run's folder holds what it says (log, its error output), and at its end its document and its exit code. The program itself holds a lock
// there, and says that it has begun once it holds it: a run that has begun, has no exit code and does not hold the lock has been killed.
package detached

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
)

const (
	logFile, documentFile, exitFile, lockFile, begunFile = "log", "document", "exit", "lock", "begun"
	folderPrefix                                         = "wsu-run-"
	// every is how often a run is looked at, startWithin how long one may take to begin.
	every       = 50 * time.Millisecond
	startWithin = time.Minute
	// lifetime is how long an outcome that nobody fetched is kept.
	lifetime = 24 * time.Hour
	// maxInput bounds the run's input, in bytes.
	maxInput = 16 << 20
)

var name = regexp.MustCompile(`^[A-Za-z0-9]{8,40}$`)

// Streams are the standard ones.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run is one detached run. ID names it, 8 to 40 letters and digits; Args are the subcommand and its arguments.
type Run struct {
	ID   string
	Args []string

	// folder and program take the place of the machine's own in tests.
	folder  string
	program []string
}

func (r *Run) prepare() error {
	if !name.MatchString(r.ID) {
		return reason.New(reason.ArgumentInvalid, "--id", fmt.Sprintf("%q is not a name of 8 to 40 letters and digits", r.ID), "")
	}
	if r.folder == "" {
		r.folder = filepath.Join(temporary(), folderPrefix+r.ID)
	}
	if r.program == nil {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		r.program = []string{self}
	}
	return nil
}

func (r *Run) path(file string) string { return filepath.Join(r.folder, file) }

// Follow starts the run, or finds the one of that name, passes on what it says, and gives its exit code. It may be cut off at any time. What was
// told is forgotten.
func (r *Run) Follow(ctx context.Context, s Streams) (exitCode int, err error) {
	if err := r.prepare(); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(r.folder); errors.Is(err, fs.ErrNotExist) {
		sweep(filepath.Dir(r.folder))
		if err := r.start(s.In); err != nil {
			return 0, err
		}
	}
	return r.follow(ctx, s)
}

// start gives the run its input and lets go of it. Input that broke off starts nothing.
func (r *Run) start(in io.Reader) error {
	var input []byte
	if slices.Contains(r.Args, "-") {
		var err error
		if input, err = io.ReadAll(io.LimitReader(in, maxInput)); err != nil || !json.Valid(input) {
			return reason.New(reason.ConnectionLost, "standard input of wmcb "+r.Args[0], "it broke off, or is no JSON", "")
		}
	}
	if err := securefile.MakeFolder(r.folder); err != nil {
		return reason.Wrap(reason.AccessDenied, r.folder, err, "")
	}
	args := append(append(r.program[1:len(r.program):len(r.program)], "run", "--id", r.ID, "--inside"), r.Args...)
	err := r.launch(args, true, input)
	if errors.Is(err, fs.ErrPermission) {
		err = r.launch(args, false, input)
	}
	if err != nil {
		return reason.Wrap(reason.Internal, "starting wmcb "+r.Args[0], errors.Join(err, os.RemoveAll(r.folder)), "")
	}
	return nil
}

// launch starts the program outside of the session's job, where the job lets it.
func (r *Run) launch(args []string, breakAway bool, input []byte) error {
	cmd := exec.Command(r.program[0], args...) //nolint:gosec,noctx // this program itself, which is to outlive us
	cmd.SysProcAttr = attributes(breakAway)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = stdin.Write(input)
	return errors.Join(err, stdin.Close(), cmd.Process.Release())
}

func (r *Run) follow(ctx context.Context, s Streams) (int, error) {
	var shown int64
	begun := time.Now()
	for {
		ended, err := r.ended(begun)
		if err != nil {
			return 0, err
		}
		if shown, err = r.show(s.Err, shown); err != nil { // after ended: what it said last belongs to it
			return 0, err
		}
		if ended {
			return r.outcome(s.Out)
		}
		select {
		case <-ctx.Done():
			return 0, reason.Wrap(reason.Interrupted, "wmcb "+strings.Join(r.Args, " "), ctx.Err(), "It goes on; ask for its outcome with the same --id.")
		case <-time.After(every):
		}
	}
}

// ended reports whether there is an outcome; a run that was killed is an error.
func (r *Run) ended(begun time.Time) (bool, error) {
	if _, err := os.Stat(r.path(exitFile)); err == nil {
		return true, nil
	}
	if _, err := os.Stat(r.path(begunFile)); err != nil {
		if time.Since(begun) < startWithin {
			return false, nil // whoever took the lock now would take it from the run
		}
		return false, r.killed("it has not begun within " + startWithin.String())
	}
	release, err := transaction.Lock(r.path(lockFile))
	if err != nil {
		return false, nil //nolint:nilerr // it is held: the run is at work
	}
	release()
	if _, err := os.Stat(r.path(exitFile)); err == nil {
		return true, nil
	}
	return false, r.killed("it ended without an outcome: it was killed, or the machine was restarted")
}

func (r *Run) killed(problem string) error {
	return reason.New(reason.Interrupted, "wmcb "+strings.Join(r.Args, " "), problem, "Run the playbook again; it goes on where it stopped.")
}

// show passes on what the run has said since.
func (r *Run) show(w io.Writer, from int64) (int64, error) {
	file, err := os.Open(r.path(logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return from, err
	}
	n, err := io.Copy(w, file)
	return from + n, err
}

func (r *Run) outcome(w io.Writer) (int, error) {
	raw, err := os.ReadFile(r.path(exitFile))
	if err != nil {
		return 0, err
	}
	code, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0, err
	}
	document, err := os.ReadFile(r.path(documentFile))
	if err != nil {
		return 0, err
	}
	if _, err = w.Write(document); err != nil {
		return code, err
	}
	r.forget()
	return code, nil
}

// forget deletes what was told, once the run has let go of it. Should it have got lost on its way to whoever asked, the same run once more
// finds everything done.
func (r *Run) forget() {
	const tries = 40
	for range tries {
		release, err := transaction.Lock(r.path(lockFile))
		if err == nil {
			release()
			break
		}
		time.Sleep(every)
	}
	_ = os.RemoveAll(r.folder) // else the sweep does
}

// Inside is the run itself: what Follow has started. run runs the subcommand.
func (r *Run) Inside(in io.Reader, run func(Streams) int) error {
	if err := r.prepare(); err != nil {
		return err
	}
	release, err := transaction.Lock(r.path(lockFile))
	if err != nil {
		return err
	}
	defer release()
	if err := os.WriteFile(r.path(begunFile), nil, 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(r.path(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	document, err := os.OpenFile(r.path(documentFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	code := run(Streams{in, document, log})
	if err := errors.Join(document.Close(), os.WriteFile(r.path(exitFile)+".new", []byte(strconv.Itoa(code)), 0o600)); err != nil {
		return err
	}
	return os.Rename(r.path(exitFile)+".new", r.path(exitFile))
}

// sweep deletes outcomes that nobody has fetched for long.
func sweep(folder string) {
	left, _ := filepath.Glob(filepath.Join(folder, folderPrefix+"*")) // the pattern is good
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > lifetime {
			_ = os.RemoveAll(path)
		}
	}
}
