//go:build sandbox

package winhost_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"wsu.windows/sandbox/winhost"
)

// install builds a package of the module for Windows and puts it on drive C:, as C:\t\NAME.
func install(t *testing.T, host *winhost.Host, name string, build ...string) string {
	t.Helper()
	dir, err := host.Path("t")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	built := filepath.Join(t.TempDir(), name) // the compiler cannot write into another mount namespace's files by their real names
	cmd := exec.Command("go", append(build[:len(build)-1:len(build)-1], "-o", built, build[len(build)-1])...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	content, err := os.ReadFile(built)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o755))
	return `C:\t\` + name
}

func TestACommandReachesWindowsByteForByte(t *testing.T) {
	tell := install(t, shared, "tell.exe", "build", "./winhost/testdata/tell")
	for _, c := range []struct {
		line string
		want []string
	}{
		{`tell a "b c" "d \"e\" f"`, []string{"a", "b c", `d "e" f`}},
		{`"tell" "x & y" "(z)" --flag="C:\Program Files\x"`, []string{"x & y", "(z)", `--flag=C:\Program Files\x`}},
		{`tell 'single' $HOME ` + "`id`" + ` \"q\" C:\dir\ ü漢`, []string{"'single'", "$HOME", "`id`", `"q"`, `C:\dir\`, "ü漢"}},
		{`tell %COMPUTERNAME% "a|b" ^& ^| *`, []string{"SHARED", "a|b", "&", "|", "*"}},
		{`cmd.exe /c "cd /d C:\ & tell in ""nested"""`, []string{"in", "nested"}},
		{`tell left | more`, []string{"left"}},
	} {
		line := strings.Replace(c.line, "tell", tell, 1)
		t.Run(c.line, func(t *testing.T) {
			out, err := sshRun(t, shared, line)
			require.NoError(t, err)
			var got []string
			require.NoError(t, json.Unmarshal([]byte(out), &got), out)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestExitCodesAndBothOutputsComeThrough(t *testing.T) {
	client, err := dial(shared)
	require.NoError(t, err)
	defer client.Close()
	session, err := client.NewSession()
	require.NoError(t, err)
	var out, errors bytes.Buffer
	session.Stdout, session.Stderr = &out, &errors
	err = session.Run("echo one && echo two 1>&2 && exit 42")
	var exit *ssh.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 42, exit.ExitStatus())
	assert.Equal(t, "one", strings.TrimSpace(out.String()))
	assert.Equal(t, "two", strings.TrimSpace(errors.String()))
}

func TestFiftyMegabytesOfStdinArriveUnchanged(t *testing.T) {
	tell := install(t, shared, "tell.exe", "build", "./winhost/testdata/tell")
	content := make([]byte, 50<<20)
	rand.Read(content)
	client, err := dial(shared)
	require.NoError(t, err)
	defer client.Close()
	session, err := client.NewSession()
	require.NoError(t, err)
	session.Stdin = bytes.NewReader(content)
	out, err := session.Output(tell + " sum")
	require.NoError(t, err)
	want := sha256.Sum256(content)
	assert.Equal(t, hex.EncodeToString(want[:]), strings.TrimSpace(string(out)))
}

func TestPasswordAndKeyboardInteractiveLogIn(t *testing.T) {
	answer := func(_, _ string, questions []string, _ []bool) ([]string, error) {
		answers := make([]string, len(questions))
		for i := range answers {
			answers[i] = password
		}
		return answers, nil
	}
	for name, method := range map[string]ssh.AuthMethod{"password": ssh.Password(password), "keyboard-interactive": ssh.KeyboardInteractive(answer)} {
		client, err := dial(shared, method)
		if assert.NoError(t, err, name) {
			client.Close()
		}
	}
	_, err := dial(shared, ssh.Password("wrong"))
	assert.ErrorContains(t, err, "unable to authenticate")
}

func TestSFTPAndSCPSeeDriveC(t *testing.T) {
	known, err := shared.KnownHostsLine()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(work, "known_hosts"), []byte(known+"\n"), 0o600))
	source := filepath.Join(t.TempDir(), "source.bin")
	require.NoError(t, os.WriteFile(source, []byte("content\r\n"), 0o644))
	options := []string{"-q", "-i", filepath.Join(work, "key"), "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=" + filepath.Join(work, "known_hosts")}
	login := "Administrator@" + shared.Address.Addr().String()

	out, err := exec.CommandContext(t.Context(), "scp", append(options, source, login+":/C:/one.bin")...).CombinedOutput()
	require.NoError(t, err, string(out))
	batch := exec.CommandContext(t.Context(), "sftp", append(options, "-b", "-", login)...)
	batch.Stdin = strings.NewReader("mkdir /C:/made\nput " + source + " /C:/made/two.bin\nput " + source + " home.bin\nrename /C:/one.bin /C:/made/three.bin\nls /C:/windows/system32/cmd.exe\n")
	out, err = batch.CombinedOutput()
	require.NoError(t, err, string(out))
	said, err := sshRun(t, shared, `type C:\made\two.bin C:\made\three.bin & type home.bin`)
	require.NoError(t, err)
	assert.Equal(t, 3, strings.Count(said, "content"), said)
}

func TestToolsThatWineOnlyPretendsToHaveFailAndAreWrittenDown(t *testing.T) {
	log, err := shared.Path("sandbox/refused.log")
	require.NoError(t, err)
	for _, command := range []string{`powershell -Command "Get-Service x"`, `icacls C:\k /grant x`, `netsh advfirewall show`, `shutdown /r /t 0`, `where foo`} {
		_, err := sshRun(t, shared, command)
		assert.Error(t, err, command)
		content, err := os.ReadFile(log)
		require.NoError(t, err)
		assert.Contains(t, string(content), command)
	}
}

func TestTarUnpacksWhatItReads(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "f.txt"), []byte("from the archive"), 0o644))
	for _, flags := range []string{"-cf", "-czf"} {
		archive, err := exec.Command("tar", flags, "-", "-C", dir, "sub").Output()
		require.NoError(t, err)
		client, err := dial(shared)
		require.NoError(t, err)
		session, err := client.NewSession()
		require.NoError(t, err)
		session.Stdin = bytes.NewReader(archive)
		out, err := session.CombinedOutput(`tar.exe -x -f - -C C:\`)
		client.Close()
		require.NoError(t, err, string(out))
		said, err := sshRun(t, shared, `type C:\sub\f.txt & del C:\sub\f.txt`)
		require.NoError(t, err)
		assert.Equal(t, "from the archive", strings.TrimSpace(said))
	}
}
