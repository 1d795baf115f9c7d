//go:build sandbox

package winhost_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/sandbox/internal/kerberos"
	"wsu.windows/sandbox/internal/pki"
	"wsu.windows/sandbox/winhost"
)

// target is what test_clients.py and winrm_run.py are told about the endpoint.
type target struct {
	Address     string `json:"address"`
	HTTP        int    `json:"http"`
	HTTPS       int    `json:"https"`
	User        string `json:"user"`
	Password    string `json:"password"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Kerberos    string `json:"kerberos"`
	Copy        string `json:"copy"`
	Exit        string `json:"exit"`
	Code        int64  `json:"code"`
	Echo        string `json:"echo"`
	Both        string `json:"both"`
}

// python is the environment with the endpoint and its clients.
func python() string { return filepath.Join(module, "..", "..", ".venv-sandbox", "bin", "python") }

// startWinRM makes a host with WinRM and a domain for it, and returns the host and the variables with which clients are run.
func startWinRM(t *testing.T) (*winhost.Host, []string) {
	t.Helper()
	dir := t.TempDir()
	servers, err := pki.NewCA(dir, "winrm-ca", "servers")
	require.NoError(t, err)
	clients, err := pki.NewCA(dir, "winrm-client-ca", "clients")
	require.NoError(t, err)
	address := netip.MustParseAddr("10.98.77.16")
	certificate, key, err := servers.Issue(pki.Leaf{Name: "server", CommonName: "remote", Addresses: []netip.Addr{address}, Server: true})
	require.NoError(t, err)
	clientCertificate, clientKey, err := clients.Issue(pki.Leaf{Name: "client", CommonName: "x", Client: true, UserPrincipal: "Administrator@localhost"})
	require.NoError(t, err)
	const secret = "Another password 1" // the shared host's has a colon, which the accounts' file cannot hold
	domain := kerberos.Server{Dir: filepath.Join(dir, "kdc"), Config: filepath.Join(dir, "krb5.conf"), Address: netip.MustParseAddrPort(gateway + ":88")}
	require.NoError(t, domain.Create(t.Context(), secret))
	keytab := filepath.Join(dir, "keytab")
	require.NoError(t, domain.Keytab(t.Context(), keytab, "remote", address.String()))
	process, err := domain.Start(filepath.Join(dir, "kdc-log"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, process.End(context.Background(), 5*time.Second)) })
	require.NoError(t, domain.Await(t.Context(), process))

	host := start(t, "remote", 16, func(h *winhost.Host) {
		h.Password, h.NoContainerd = secret, true
		h.WinRM = &winhost.WinRM{Python: python(), Certificate: certificate, Key: key, ClientCA: clients.CertFile(), Keytab: keytab, Kerberos: domain.Config}
	})
	tell := install(t, host, "tell.exe", "build", "./winhost/testdata/tell")
	description, err := json.Marshal(target{
		Address: address.String(), HTTP: 5985, HTTPS: 5986, User: "Administrator", Password: secret, CA: servers.CertFile(), Certificate: clientCertificate,
		Key: clientKey, Kerberos: kerberos.User, Copy: tell + " copy", Exit: tell + " exit 0xC0000005", Code: 0xC0000005,
		Echo: "cmd /c echo", Both: "echo out& echo err>&2",
	})
	require.NoError(t, err)
	file := filepath.Join(dir, "target.json")
	require.NoError(t, os.WriteFile(file, description, 0o600))
	return host, append(os.Environ(), "WINRM_TARGET="+file, "KRB5_CONFIG="+domain.Config, "KRB5CCNAME=FILE:"+filepath.Join(dir, "ccache"))
}

// remote runs commands in one WinRM shell after another.
type remote struct {
	t           *testing.T
	environment []string
}

// answer is what a command said.
type answer struct {
	Out, Err string
	Code     uint32
}

// run runs a command with options for testdata/winrm_run.py; see there.
func (r remote) run(command string, options map[string]any) answer {
	r.t.Helper()
	request := map[string]any{"command": command}
	for name, value := range options {
		request[name] = value
	}
	input, err := json.Marshal(request)
	require.NoError(r.t, err)
	cmd := exec.CommandContext(r.t.Context(), python(), filepath.Join("testdata", "winrm_run.py"))
	cmd.Env, cmd.Stdin, cmd.Stderr = r.environment, strings.NewReader(string(input)), os.Stderr
	out, err := cmd.Output()
	require.NoError(r.t, err, command)
	var said answer
	require.NoError(r.t, json.Unmarshal(out, &said))
	return said
}

func TestWinRMReachesWindows(t *testing.T) {
	host, environment := startWinRM(t)
	r := remote{t: t, environment: environment}
	t.Run("independent clients log in every way and hand over binary data", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", filepath.Join(module, "winrm", "test_clients.py"))
		cmd.Env = environment
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, string(said))
		assert.NotContains(t, string(said), "skipped")
		t.Log(string(said))
	})
	t.Run("a command arrives byte for byte", func(t *testing.T) { commandsArrive(t, r) })
	t.Run("a shell has a directory and variables, and none of the endpoint's", func(t *testing.T) { shellsHaveSurroundings(t, r) })
	t.Run("without cmd.exe the line is the program's", func(t *testing.T) {
		assert.JSONEq(t, `["%PATH%", "a|b"]`, r.run(`C:\t\tell.exe %PATH% a|b`, map[string]any{"skip_cmd": true}).Out)
	})
	t.Run("exit codes have 32 bits", func(t *testing.T) {
		for _, code := range []uint32{0, 3010, 0xFFFFFFFF} {
			assert.Equal(t, code, r.run("exit "+map[uint32]string{0: "0", 3010: "3010", 0xFFFFFFFF: "-1"}[code], nil).Code)
		}
	})
	t.Run("PowerShell is refused", func(t *testing.T) { assert.NotZero(t, r.run("powershell -Command 1", nil).Code) })
	t.Run("a line that cmd.exe would not take is refused", func(t *testing.T) {
		said := r.run("echo "+strings.Repeat("x", 9000), nil)
		assert.Contains(t, said.Err, "too long")
		assert.Equal(t, uint32(1), said.Code)
	})
	t.Run("processes end with their shell unless they broke away", func(t *testing.T) { processesEnd(t, r, host) })
	t.Run("after a reboot and after a power cut it is there again", func(t *testing.T) {
		require.NoError(t, host.Reboot(t.Context()))
		assert.Equal(t, "one", strings.TrimSpace(r.run("echo one", nil).Out))
		require.NoError(t, host.PowerCut(t.Context()))
		assert.Equal(t, "two", strings.TrimSpace(r.run("echo two", nil).Out))
	})
}

func commandsArrive(t *testing.T, r remote) {
	for line, want := range map[string][]string{
		`C:\t\tell.exe a "b c" "d \"e\" f"`:                            {"a", "b c", `d "e" f`},
		`"C:\t\tell.exe" "x & y" "(z)" --flag="C:\Program Files\x"`:    {"x & y", "(z)", `--flag=C:\Program Files\x`},
		`C:\t\tell.exe 'single' $HOME ` + "`id`" + ` \"q\" C:\dir\ ü漢`: {"'single'", "$HOME", "`id`", `"q"`, `C:\dir\`, "ü漢"},
		`C:\t\tell.exe %COMPUTERNAME% "a|b" ^& ^| * <nul`:              {"REMOTE", "a|b", "&", "|", "*"},
		`cmd.exe /c "cd /d C:\ & C:\t\tell.exe in ""nested"""`:         {"in", "nested"},
	} {
		var got []string
		said := r.run(line, nil)
		if assert.NoError(t, json.Unmarshal([]byte(said.Out), &got), "%s: %v", line, said) {
			assert.Equal(t, want, got, line)
		}
	}
}

func shellsHaveSurroundings(t *testing.T, r remote) {
	said := r.run("cd & set", map[string]any{"directory": `C:\t`, "variables": map[string]string{"ONE": "1 & 2"}})
	assert.Equal(t, `C:\t`, strings.TrimSpace(strings.SplitN(said.Out, "\n", 2)[0]))
	assert.Contains(t, said.Out, "ONE=1 & 2")
	said = r.run(`C:\t\tell.exe "%UMLAUT%"`, map[string]any{"variables": map[string]string{"Umlaut": "ü"}})
	assert.JSONEq(t, `["ü"]`, said.Out)
	said = r.run("set", nil)
	for _, own := range []string{"NTLM", "KRB5", "PYTHON", "WINHOST"} {
		assert.NotContains(t, said.Out, own)
	}
}

// processesEnd looks at Windows' processes by the files that they write, and at their end by the numbers in those.
func processesEnd(t *testing.T, r remote, host *winhost.Host) {
	r.run(`C:\t\tell.exe breakaway C:\t\free`, nil)
	free := pidIn(t, host, "t/free")
	r.run(`C:\t\tell.exe wait C:\t\bound`, map[string]any{"path": pathOf(t, host, "t/bound")})
	bound := pidIn(t, host, "t/bound")
	require.Eventually(t, func() bool { return !lives(r, bound) }, time.Minute, 50*time.Millisecond, "a process outlived its shell")
	assert.True(t, lives(r, free), "a process that broke away ended with its shell")
}

func pathOf(t *testing.T, host *winhost.Host, name string) string {
	path, err := host.Path(name)
	require.NoError(t, err)
	return path
}

func pidIn(t *testing.T, host *winhost.Host, name string) string {
	path := pathOf(t, host, name)
	var content []byte
	require.Eventually(t, func() bool {
		var err error
		content, err = os.ReadFile(path)
		return err == nil && len(content) > 0
	}, time.Minute, 20*time.Millisecond, name)
	return strings.TrimSpace(string(content))
}

// lives asks tell.exe, which opens the process.
func lives(r remote, pid string) bool {
	return strings.TrimSpace(r.run(`C:\t\tell.exe lives `+pid, nil).Out) == "true"
}
