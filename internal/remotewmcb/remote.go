// Package remotewmcb runs wmcb.exe on a host, from the control host: it finds the right one there or brings it, and reads what it says as
// what it is, the output of a machine that may be hostile.
package remotewmcb

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
	"wsu.windows/internal/transport/ssh"
	"wsu.windows/internal/transport/winrm"
)

const (
	// maxDocument bounds a document, maxSaid what is kept of the error output, in bytes.
	maxDocument = 8 << 20
	maxSaid     = 8 << 10
	// cleanUpWithin bounds the removal of the temporary copy.
	cleanUpWithin   = 15 * time.Second
	temporaryPrefix = `C:\Windows\Temp\wsu-`
)

// Binary is wmcb.exe on the control host, as the module payload returns it.
type Binary struct {
	Path   string `json:"path" path:"true" required:"true"`
	SHA256 string `json:"sha256" required:"true"`
	Size   int64  `json:"size"`
}

// Dial connects to a host in the way that its variables name.
func Dial(ctx context.Context, config *transport.Config) (transport.Connection, error) {
	if config == nil {
		return nil, reason.New(reason.ArgumentInvalid, "connection", "the host's connection is missing or local",
			"Set ansible_connection=ssh or winrm for the Windows hosts, and run the module through the collection's action plugin.")
	}
	switch config.Kind {
	case "ssh":
		return ssh.Dial(ctx, *config)
	case "winrm":
		return winrm.Dial(ctx, *config)
	}
	return nil, reason.New(reason.ArgumentInvalid, config.InventoryHostname+": ansible_connection", fmt.Sprintf("%q is not supported", config.Kind), "Use ssh or winrm.")
}

// Remote is wmcb.exe on one host.
type Remote struct {
	connection transport.Connection
	host       string
	path       string
	installed  bool
	way        string
	progress   *progress.Reporter
	question   *Question
	received   func(bytes int64)
}

// Host says who is meant, and where progress goes.
type Host struct {
	// Name is the inventory's.
	Name string
	// InstallDir is where wmcb.exe is after a transfer.
	InstallDir string
	Progress   *progress.Reporter
	// Question is asked instead of the version, where there is something to ask anyway.
	Question *Question
	// Bringing is called, if set, before wmcb.exe is brought.
	Bringing func()
	// Temporary brings a copy even where the install folder has the right one: for what deletes that.
	Temporary bool
}

// Question is a command that changes nothing, and whose document says which program answers it.
type Question struct {
	Args  []string
	Stdin []byte
	// Answer takes the document and gives the program's SHA-256, "" where it is none.
	Answer func(raw []byte) (sha256 string)
}

// version is the question that every wmcb.exe answers.
var version = &Question{Args: []string{"version"}, Answer: func(raw []byte) string {
	var document nodereport.Version
	if json.Unmarshal(raw, &document) != nil || document.Kind != "Version" {
		return ""
	}
	return document.SHA256
}}

// word is what may stand in a remote command line: cmd.exe and PowerShell leave it alone without quotes.
var word = regexp.MustCompile(`^[A-Za-z0-9\\:._/=+-]+$`)

// Open finds this wmcb.exe in the install folder, or brings it for the time until Close.
func Open(ctx context.Context, connection transport.Connection, binary Binary, host Host) (*Remote, error) {
	if !word.MatchString(host.InstallDir) || len(binary.SHA256) != 64 {
		return nil, reason.New(reason.ArgumentInvalid, "install_dir "+host.InstallDir, "it is not a Windows path without spaces", "")
	}
	r := &Remote{connection: connection, host: host.Name, path: host.InstallDir + `\wmcb.exe`, installed: true, progress: host.Progress, question: host.Question}
	if r.question == nil {
		r.question = version
	}
	seen, err := r.digest(ctx)
	if err != nil {
		return nil, err
	}
	if seen == binary.SHA256 && !host.Temporary {
		r.way = "present"
		return r, nil
	}
	if host.Bringing != nil {
		host.Bringing()
	}
	return r, r.bring(ctx, binary)
}

// Installed reports whether it is the one of the install folder; Way how it got there: present, sftp, tar or base64.
func (r *Remote) Installed() bool { return r.installed }

// Way see Installed.
func (r *Remote) Way() string { return r.way }

// Moved says that wmcb receive has taken the temporary copy into the install folder.
func (r *Remote) Moved() { r.installed = true }

// Over gives the same program, reached over another connection to the host. It lives as long as r.
func (r *Remote) Over(connection transport.Connection) *Remote {
	over := *r
	over.connection, over.installed = connection, true // r removes it
	return &over
}

// Telling gives the same program, which tells what it has received of its input.
func (r *Remote) Telling(received func(bytes int64)) *Remote {
	telling := *r
	telling.received = received
	return &telling
}

// digest asks the program for its own digest; "" where there is none that answers.
func (r *Remote) digest(ctx context.Context) (string, error) {
	var out, said bounded
	out.left, said.left = maxDocument, maxSaid
	command := transport.Command{Line: strings.Join(append([]string{r.path}, r.question.Args...), " "), Stdout: &out, Stderr: &said}
	if r.question.Stdin != nil {
		command.Stdin = bytes.NewReader(r.question.Stdin)
	}
	code, err := r.connection.Run(ctx, command)
	if err != nil {
		return "", err
	}
	if code == 0 {
		return r.question.Answer(out.Bytes()), nil
	}
	const notFound = 127 // what a POSIX shell says, and neither cmd.exe nor PowerShell
	if code != notFound {
		return "", nil
	}
	if code, err = r.connection.Run(ctx, transport.Command{Line: "cmd.exe /c ver"}); err != nil || code == 0 {
		return "", err
	}
	return "", reason.New(reason.NotWindows, "host "+r.host, fmt.Sprintf("its shell knows no cmd.exe: %.200q", clean(said.String())), "")
}

// bring puts wmcb.exe into a folder of its own and verifies it there.
func (r *Remote) bring(ctx context.Context, binary Binary) error {
	file, err := os.Open(binary.Path)
	if err != nil {
		return reason.Wrap(reason.FileMissing, "wmcb.exe on the control host", err, "Run the module payload first.")
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return reason.Wrap(reason.FileMissing, binary.Path, err, "")
	}
	r.installed = false
	// Everybody on the machine may make folders there: a name that can be guessed could be taken before us, with a trap in it.
	r.path = temporaryPrefix + strings.ToLower(rand.Text()) + `\wmcb.exe`
	r.progress.Say("transfer", "bringing wmcb.exe")
	err = r.put(ctx, binary, func() (string, error) { return r.connection.PutFirst(ctx, r.path, file, info.Size()) })
	if again, can := r.connection.(transport.Fallback); can && reason.Is(err, reason.TransferChecksum) {
		r.progress.Say("transfer", "bringing wmcb.exe as text, since it did not arrive as it was sent")
		err = r.put(ctx, binary, func() (string, error) { return again.PutAgain(ctx, r.path, file, info.Size()) })
	}
	if err != nil {
		r.Close(ctx)
	}
	return err
}

// put brings the file in one way and asks it for its digest.
func (r *Remote) put(ctx context.Context, binary Binary, bring func() (string, error)) (err error) {
	if r.way, err = bring(); err != nil {
		return err
	}
	seen, err := r.digest(ctx)
	if err == nil && seen == "" && r.question != version { // the right program may have failed to answer
		err = r.Run(ctx, r.question.Args, bytes.NewReader(r.question.Stdin), nil, &nodereport.Header{})
	}
	if err == nil && seen != binary.SHA256 {
		err = reason.New(reason.TransferChecksum, fmt.Sprintf("host %s: %s", r.host, r.path),
			fmt.Sprintf("it says that its SHA-256 is %q, and %s was sent by %s", clean(seen), binary.SHA256, r.way),
			"Check that nothing on the host changes or blocks the file, such as a virus scanner.")
	}
	return err
}

// Close removes the temporary copy, as far as the host can still be reached. The connection is the caller's.
func (r *Remote) Close(ctx context.Context) {
	if !r.installed {
		r.Delete(ctx)
	}
}

// Delete removes the program where it is a temporary copy, whoever made it.
func (r *Remote) Delete(ctx context.Context) {
	if !strings.HasPrefix(r.path, temporaryPrefix) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWithin)
	defer cancel()
	for attempt := 0; attempt < 3; attempt++ { // a program that has just ended may be held for a moment
		if r.connection.Remove(ctx, r.path) == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	_ = r.connection.Remove(ctx, strings.TrimSuffix(r.path, `\wmcb.exe`))
}

// Run runs a subcommand and decodes its document. Where stdout is given, the command's output goes there and the document is the last line
// of its error output. A document that says what failed becomes that reason.Error.
func (r *Remote) Run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer, document any) error {
	for _, arg := range args {
		if !word.MatchString(arg) {
			return reason.New(reason.ArgumentInvalid, fmt.Sprintf("argument %q of wmcb %s", arg, args[0]), "it cannot stand in a Windows command line without quotes", "")
		}
	}
	out := &bounded{left: maxDocument}
	said := &errorOutput{progress: r.progress, received: r.received}
	command := transport.Command{Line: strings.Join(append([]string{r.path}, args...), " "), Stdin: stdin, Stdout: out, Stderr: said}
	if stdout != nil {
		command.Stdout = stdout
	}
	code, err := r.connection.Run(ctx, command)
	if err != nil {
		return err
	}
	said.end()
	raw := out.Bytes()
	if stdout != nil {
		raw = said.document
	}
	return r.decode(subcommand(args), raw, code, said.tail(), document)
}

// subcommand gives what a line does, also where it is `run --id NAME SUBCOMMAND`.
func subcommand(args []string) string {
	const behindName = 3
	if args[0] == "run" && len(args) > behindName {
		return args[behindName]
	}
	return args[0]
}

func (r *Remote) decode(command string, raw []byte, code int, said string, document any) error {
	object := fmt.Sprintf("host %s: wmcb %s", r.host, command)
	var header nodereport.Header
	if err := json.Unmarshal(raw, &header); err != nil || header.APIVersion != nodereport.APIVersion {
		shown := said
		if shown == "" {
			shown = clean(string(raw[:min(len(raw), 500)]))
		}
		return reason.New(reason.HostOutputInvalid, object, fmt.Sprintf("it ended with code %d and without a document: %.500q", code, shown), "")
	}
	if err := json.Unmarshal(raw, document); err != nil {
		return reason.New(reason.HostOutputInvalid, object, "its document is not as documented: "+clean(err.Error()), "")
	}
	switch {
	case header.Error != nil:
		return r.failure(header.Error)
	case code != 0 || !header.OK:
		return reason.New(reason.HostOutputInvalid, object, fmt.Sprintf("it ended with code %d and a document that says nothing of a failure: %.500q", code, said), "")
	}
	return nil
}

// failure takes over what the host says, with the host's name and without control characters.
func (r *Remote) failure(e *reason.Error) error {
	known := reason.New(e.Code, clean(e.Object), clean(e.Problem), clean(e.Remedy))
	if !e.Code.Known() {
		known.Code = reason.Internal
	}
	return known
}

// IsLost reports whether an error means that the command's outcome is unknown.
func IsLost(err error) bool { return reason.Is(err, reason.ConnectionLost) }

// Clean makes a text of a host fit to show: one line, without control characters.
func Clean(text string) string { return clean(text) }

// clean makes a text of a host fit to show.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < ' ' || (r >= 0x7f && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// CleanDocument makes a document's texts fit to show, line breaks kept: what a diff shows has lines.
func CleanDocument(value any) any {
	switch v := value.(type) {
	case string:
		lines := strings.Split(v, "\n")
		for i := range lines {
			lines[i] = clean(lines[i])
		}
		return strings.Join(lines, "\n")
	case []any:
		for i := range v {
			v[i] = CleanDocument(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = CleanDocument(v[key])
		}
	}
	return value
}

// bounded fails the command whose output does not end. The buffer is not embedded: io.Copy would find its ReadFrom, and pass the bound by.
type bounded struct {
	kept bytes.Buffer
	left int
}

var errTooMuch = errors.New("the host's output is too large")

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}

func (b *bounded) Bytes() []byte  { return b.kept.Bytes() }
func (b *bounded) String() string { return b.kept.String() }
func (b *bounded) Len() int       { return b.kept.Len() }
