package remotewmcb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// host is the far end: what it has, and what it answers to a command line.
type host struct {
	files   map[string][]byte
	answers func(command transport.Command) (int, error)
	lines   []string
}

func (h *host) Run(_ context.Context, command transport.Command) (int, error) {
	h.lines = append(h.lines, command.Line)
	path, args, _ := strings.Cut(command.Line, " ")
	content, there := h.files[path]
	switch {
	case args == "version" && there:
		sum := sha256.Sum256(content)
		fmt.Fprintf(command.Stdout, `{"apiVersion":"wsu.windows/v1","kind":"Version","ok":true,"sha256":"%s"}`+"\n", hex.EncodeToString(sum[:]))
		return 0, nil
	case h.answers != nil && args != "version":
		return h.answers(command)
	}
	return 1, nil // cmd.exe: not recognized
}

func (h *host) PutFirst(_ context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	raw := make([]byte, size)
	_, err := content.ReadAt(raw, 0)
	h.files[path] = raw
	return "sftp", err
}

func (h *host) Remove(_ context.Context, path string) error { delete(h.files, path); return nil }
func (h *host) Close() error                                { return nil }

func (h *host) RoundTrip(context.Context) (time.Duration, bool) { return 0, false }

func binary(t *testing.T) Binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wmcb.exe")
	require.NoError(t, os.WriteFile(path, []byte("this is wmcb"), 0o600))
	sum := sha256.Sum256([]byte("this is wmcb"))
	return Binary{Path: path, SHA256: hex.EncodeToString(sum[:])}
}

func open(t *testing.T, h *host) (*Remote, error) {
	t.Helper()
	return Open(t.Context(), h, binary(t), Host{Name: "win1", InstallDir: `C:\k`})
}

func TestTheInstalledProgramIsUsedWhereItIsTheRightOne(t *testing.T) {
	h := &host{files: map[string][]byte{`C:\k\wmcb.exe`: []byte("this is wmcb")}}
	r, err := open(t, h)
	require.NoError(t, err)
	assert.True(t, r.Installed())
	r.Close(t.Context())
	assert.Len(t, h.files, 1, "it stays")
}

func TestAnotherProgramIsBroughtForTheTimeAndRemoved(t *testing.T) {
	h := &host{files: map[string][]byte{`C:\k\wmcb.exe`: []byte("an older one")}}
	r, err := open(t, h)
	require.NoError(t, err)
	assert.False(t, r.Installed())
	assert.Equal(t, "sftp", r.Way())
	assert.Len(t, h.files, 2)
	r.Close(t.Context())
	assert.Equal(t, map[string][]byte{`C:\k\wmcb.exe`: []byte("an older one")}, h.files)
}

func TestAProgramThatIsNotWhatWasSentIsAnErrorAndIsRemoved(t *testing.T) {
	h := &host{files: map[string][]byte{}}
	b := binary(t)
	require.NoError(t, os.WriteFile(b.Path, []byte("tampered with"), 0o600))
	_, err := Open(t.Context(), h, b, Host{Name: "win1", InstallDir: `C:\k`})
	assert.True(t, reason.Is(err, reason.TransferChecksum), err)
	assert.Empty(t, h.files)
}

// changing is a host that changes bytes, but not text.
type changing struct{ host }

func (c *changing) PutFirst(ctx context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	_, err := c.host.PutFirst(ctx, path, content, size)
	c.files[path] = append(c.files[path], '\r')
	return "tar", err
}

func (c *changing) PutAgain(ctx context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	_, err := c.host.PutFirst(ctx, path, content, size)
	return "base64", err
}

func TestWhatDoesNotArriveAsBytesIsSentAsText(t *testing.T) {
	h := &changing{host{files: map[string][]byte{}}}
	r, err := Open(t.Context(), h, binary(t), Host{Name: "win1", InstallDir: `C:\k`})
	require.NoError(t, err)
	assert.Equal(t, "base64", r.Way())
	r.Over(&host{}).Close(t.Context())
	assert.Len(t, h.files, 1, "a lane does not remove the program that others use")
	r.Close(t.Context())
	assert.Empty(t, h.files)
}

func TestAPOSIXShellIsNotWindows(t *testing.T) {
	h := &posix{}
	_, err := Open(t.Context(), h, binary(t), Host{Name: "win1", InstallDir: `C:\k`})
	assert.True(t, reason.Is(err, reason.NotWindows), err)
}

// posix answers as a Linux machine.
type posix struct{ host }

func (p *posix) Run(_ context.Context, command transport.Command) (int, error) {
	if command.Stderr != nil {
		fmt.Fprintf(command.Stderr, "sh: 1: %s: not found\n", command.Line)
	}
	return 127, nil
}

// answering opens a host that answers a command with these streams and this code.
func answering(t *testing.T, code int, stdout, stderr string) *Remote {
	t.Helper()
	h := &host{files: map[string][]byte{`C:\k\wmcb.exe`: []byte("this is wmcb")}}
	h.answers = func(command transport.Command) (int, error) {
		_, err := io.WriteString(command.Stdout, stdout)
		if err == nil {
			_, err = io.WriteString(command.Stderr, stderr)
		}
		return code, err
	}
	r, err := open(t, h)
	require.NoError(t, err)
	return r
}

func TestTheHostsOwnFailureIsTheTasks(t *testing.T) {
	r := answering(t, 4, `{"apiVersion":"wsu.windows/v1","kind":"Preflight","ok":false,"error":{"code":"runtime_missing","object":"container_runtime","problem":"there is `+
		`\u001b[31mnone","remedy":"Install it."},"checks":[]}`, "")
	var document nodereport.Preflight
	err := r.Run(t.Context(), []string{"preflight", "-f", "-"}, nil, nil, &document)
	assert.True(t, reason.Is(err, reason.RuntimeMissing), err)
	assert.Equal(t, "container_runtime: there is ?[31mnone. Install it.", err.Error())
	assert.Equal(t, "Preflight", document.Kind)
}

func TestWhatAHostileHostSaysIsAnErrorAndNothingElse(t *testing.T) {
	for name, test := range map[string]struct {
		code           int
		stdout, stderr string
		want           reason.Code
	}{
		"nothing":                 {0, "", "", reason.HostOutputInvalid},
		"garbage":                 {1, "<html>\x1b[2J", "oh\x07", reason.HostOutputInvalid},
		"another document":        {0, `{"apiVersion":"v1","kind":"Pod"}`, "", reason.HostOutputInvalid},
		"types that are not ours": {0, `{"apiVersion":"wsu.windows/v1","ok":true,"checks":"many"}`, "", reason.HostOutputInvalid},
		"a success with a code":   {1, `{"apiVersion":"wsu.windows/v1","ok":true}`, "", reason.HostOutputInvalid},
		"a reason of its own":     {1, `{"apiVersion":"wsu.windows/v1","error":{"code":"give_me_root","problem":"x"}}`, "", reason.Internal},
		"no end":                  {0, strings.Repeat("x", maxDocument+1), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var document nodereport.Preflight
			err := answering(t, test.code, test.stdout, test.stderr).Run(t.Context(), []string{"preflight"}, nil, nil, &document)
			require.Error(t, err)
			if test.want != "" {
				assert.Equal(t, test.want, reason.Of(err).Code, err)
			}
			assert.NotContains(t, err.Error(), "\x1b")
			assert.NotContains(t, err.Error(), "\x07")
		})
	}
}

func TestProgressIsPassedOnAndTheDocumentOfAnArchiveIsTheLastLine(t *testing.T) {
	h := &host{files: map[string][]byte{`C:\k\wmcb.exe`: []byte("this is wmcb")}}
	h.answers = func(command transport.Command) (int, error) {
		fmt.Fprint(command.Stdout, "PK archive")
		fmt.Fprint(command.Stderr, progress.Prefix+`{"phase":"collect","text":"logs\u001b[1m"}`+"\n"+progress.Prefix+"broken\nwarning\n"+`{"apiVersion":"wsu.windows/v1","kind":"Collect","ok":true,"size":10}`+"\n")
		return 0, nil
	}
	var seen, archive bytes.Buffer
	r, err := Open(t.Context(), h, binary(t), Host{Name: "win1", InstallDir: `C:\k`, Progress: progress.New(&seen)})
	require.NoError(t, err)
	var document nodereport.Collect
	require.NoError(t, r.Run(t.Context(), []string{"collect", "--to", "-"}, nil, &archive, &document))
	assert.Equal(t, "PK archive", archive.String())
	assert.EqualValues(t, 10, document.Size)
	assert.Equal(t, progress.Prefix+`{"phase":"collect","text":"logs?[1m"}`+"\n", seen.String())
}

func TestAnArgumentThatAShellWouldTakeApartIsRefused(t *testing.T) {
	r := answering(t, 0, "", "")
	for _, arg := range []string{"a b", `"x"`, "x&calc", "$(x)", "a;b", "%PATH%"} {
		err := r.Run(t.Context(), []string{"collect", "--to", arg}, nil, nil, &nodereport.Collect{})
		assert.True(t, reason.Is(err, reason.ArgumentInvalid), arg)
	}
	_, err := Open(t.Context(), &host{}, binary(t), Host{Name: "win1", InstallDir: `C:\Program Files\k`})
	assert.True(t, reason.Is(err, reason.ArgumentInvalid))
}

func TestTheBoundHoldsHoweverTheOutputIsCopied(t *testing.T) {
	b := &bounded{left: 1000}
	_, err := io.Copy(b, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 1<<20))})
	require.ErrorIs(t, err, errTooMuch)
	assert.LessOrEqual(t, b.Len(), 1000)
}

func FuzzErrorOutput(f *testing.F) {
	f.Add([]byte(progress.Prefix + `{"phase":"x","done":1,"total":2}` + "\n{}\n"))
	f.Add(bytes.Repeat([]byte("x"), maxLine+5))
	f.Fuzz(func(t *testing.T, said []byte) {
		var seen bytes.Buffer
		e := &errorOutput{progress: progress.New(&seen)}
		n, err := e.Write(said)
		require.NoError(t, err)
		require.Equal(t, len(said), n)
		e.end()
		assert.NotContains(t, e.tail(), "\x1b")
		assert.NotContains(t, seen.String(), "\x1b")
	})
}
