package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// windows stands for a machine without SFTP whose drive C: is a folder here: its tar is this machine's, and of cmd.exe it has what the
// lines of this package use, with the exit codes of the real ones (none of del's and rmdir's can be relied on, so all are 0).
type windows struct {
	drive string
	mu    sync.Mutex
	lines []string
}

func startWindows(t *testing.T) (*windows, transport.Config) {
	t.Helper()
	w := &windows{drive: t.TempDir()}
	s := startGoServer(t, &ssh.ServerConfig{NoClientAuth: true}, w.run)
	return w, s.config(t)
}

func (w *windows) path(name string) string {
	return filepath.Join(w.drive, strings.ReplaceAll(strings.TrimPrefix(name, `C:\`), `\`, "/"))
}

var removal = regexp.MustCompile(`^cmd\.exe /c if (not )?exist (\S+?)(\\\*)? (del /f /q|rmdir|exit) (\S+)$`)

func (w *windows) run(line string, channel ssh.Channel) uint32 {
	w.mu.Lock()
	w.lines = append(w.lines, line)
	w.mu.Unlock()
	if line == transport.TarLine("C:") {
		command := exec.Command("tar", "-x", "-z", "-f", "-", "-C", w.drive) //nolint:gosec // the test's own folder
		command.Stdin, command.Stdout, command.Stderr = channel, channel, channel.Stderr()
		if err := command.Run(); err != nil {
			return 1
		}
		return 0
	}
	parts := removal.FindStringSubmatch(line)
	if parts == nil {
		fmt.Fprintf(channel.Stderr(), "not recognized: %s", line)
		return 255
	}
	info, err := os.Stat(w.path(parts[2]))
	exists := err == nil && (parts[3] == "" || info.IsDir())
	if exists == (parts[1] != "") {
		return 0
	}
	switch parts[4] {
	case "exit":
		return 1
	case "rmdir":
		if err := syscall.Rmdir(w.path(parts[5])); err != nil {
			fmt.Fprint(channel.Stderr(), "The directory is not empty.")
		}
	default:
		if strings.HasSuffix(parts[5], "held.exe") {
			fmt.Fprint(channel, parts[5]+"\r\nAccess is denied.\r\n")
		} else {
			os.Remove(w.path(parts[5]))
		}
	}
	return 0
}

func TestWithoutSFTPTheFirstFileComesThroughTarAndGoesAgain(t *testing.T) {
	w, config := startWindows(t)
	c := dial(t, config)
	content := bytes.Repeat([]byte("wmcb"), 1<<20+3)
	path := `C:\Windows\Temp\wsu-abc\wmcb.exe`
	way, err := c.PutFirst(t.Context(), path, bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	assert.Equal(t, "tar", way)
	arrived, err := os.ReadFile(w.path(path))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(content, arrived))

	folder := `C:\Windows\Temp\wsu-abc`
	err = c.Remove(t.Context(), folder)
	assert.Equal(t, reason.AccessDenied, reason.Of(err).Code, "it is not empty: %v", err)
	assert.ErrorContains(t, err, "not empty")
	assert.ErrorContains(t, err, folder)
	assert.FileExists(t, w.path(path), "nor has it been emptied")
	require.NoError(t, c.Remove(t.Context(), path))
	assert.NoFileExists(t, w.path(path))
	require.NoError(t, c.Remove(t.Context(), path), "absent is no error")
	require.NoError(t, c.Remove(t.Context(), folder))
	assert.NoDirExists(t, w.path(folder))

	require.NoError(t, os.WriteFile(w.path(`C:\held.exe`), nil, 0o600))
	err = c.Remove(t.Context(), `C:\held.exe`)
	assert.Equal(t, reason.AccessDenied, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "Access is denied")
	for _, line := range w.lines {
		assert.NotContains(t, line, "&", "which PowerShell does not take")
		assert.NotRegexp(t, "[\"'|;$`(){}]", line)
	}
	for _, path := range []string{`C:\a b`, `relative`, `C:\a&b`, `C:\a%b`, `C:\`} {
		err := c.Remove(t.Context(), path)
		assert.Equal(t, reason.ArgumentInvalid, reason.Of(err).Code, "%s: %v", path, err)
	}
}

func TestAFileThatCannotBeUnpackedIsAnErrorWithTarsWords(t *testing.T) {
	w, config := startWindows(t)
	require.NoError(t, os.WriteFile(w.path(`C:\k`), nil, 0o600)) // a file where the folder should be
	content := bytes.Repeat([]byte("wmcb"), 1<<20)
	way, err := dial(t, config).PutFirst(t.Context(), `C:\k\wmcb.exe`, bytes.NewReader(content), int64(len(content)))
	assert.Equal(t, "tar", way)
	assert.Equal(t, reason.AccessDenied, reason.Of(err).Code, err)
	assert.ErrorContains(t, err, "wmcb.exe")
	assert.ErrorContains(t, err, "tar.exe ended with code 1")
}

// torn is content that cannot be read to its end.
type torn struct{ io.ReaderAt }

var errTorn = errors.New("the disk has a hole")

func (r torn) ReadAt(p []byte, at int64) (int, error) {
	if at >= 1<<20 {
		return 0, errTorn
	}
	return r.ReaderAt.ReadAt(p, at)
}

func TestContentThatCannotBeReadIsAnErrorAndLeavesNoFile(t *testing.T) {
	content := bytes.NewReader(make([]byte, 4<<20))
	t.Run("through tar", func(t *testing.T) {
		_, config := startWindows(t)
		_, err := dial(t, config).PutFirst(t.Context(), `C:\k\wmcb.exe`, torn{content}, content.Size())
		assert.ErrorIs(t, err, errTorn)
	})
	t.Run("over SFTP", func(t *testing.T) {
		s := startServer(t)
		folder := t.TempDir()
		path := strings.ReplaceAll(strings.TrimPrefix(folder, "/"), "/", `\`) + `\wmcb.exe`
		_, err := dial(t, s.config(t)).PutFirst(t.Context(), path, torn{content}, content.Size())
		assert.ErrorIs(t, err, errTorn)
		assert.NotEqual(t, reason.AccessDenied, reason.Of(err).Code, "it is not the host's fault")
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
}

func TestInputThatCannotBeReadFailsTheCommand(t *testing.T) {
	s := startServer(t)
	c := dial(t, s.config(t))
	input := io.MultiReader(strings.NewReader("some of it"), readError{})
	_, err := c.Run(t.Context(), transport.Command{Line: "cat >/dev/null", Stdin: input})
	assert.ErrorIs(t, err, errTorn)
	assert.ErrorContains(t, err, "win1")
	code, err := c.Run(t.Context(), transport.Command{Line: "exit 3"})
	require.NoError(t, err, "the connection is still good")
	assert.Equal(t, 3, code)

	own := reason.New(reason.FileMissing, "payload", "it has gone", "")
	_, err = c.Run(t.Context(), transport.Command{Line: "cat", Stdin: io.MultiReader(strings.NewReader("x"), readError{own})})
	assert.Equal(t, reason.FileMissing, reason.Of(err).Code, "what the reader says of itself is kept: %v", err)

	for _, command := range []transport.Command{
		{Line: "cat >/dev/null; sleep 15", Stdin: io.MultiReader(strings.NewReader("x"), readError{})},
		{Line: "echo; sleep 15", Stdout: full{}},
	} {
		_, err = dial(t, s.config(t)).Run(t.Context(), command)
		assert.Error(t, err, "a command that goes on does not hold up its caller")
	}
}

type readError struct{ err error }

func (r readError) Read([]byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return 0, errTorn
}
