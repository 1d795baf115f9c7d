package ssh

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

func TestArgumentsAreSplitAsAShellWould(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  nil,
		` -o  A=b	-p22 `:                    {"-o", "A=b", "-p22"},
		`-o ProxyCommand="ssh -W %h:%p gw"`: {"-o", "ProxyCommand=ssh -W %h:%p gw"},
		`-i '/a b/k' -i "/c \"d\"" -i e\ f`: {"-i", "/a b/k", "-i", `/c "d"`, "-i", "e f"},
		`'' "" 'a'"b"c`:                     {"", "", "abc"},
		`a\'b "c\d" 'e\f' \\`:               {"a'b", `c\d`, `e\f`, `\`},
		`#a b#c`:                            {"#a", "b#c"},
	} {
		got, err := shellWords(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		if python, err := exec.LookPath("python3"); err == nil {
			const program = "import shlex,sys;sys.stdout.write('\\0'.join(shlex.split(sys.argv[1])))"
			out, err := exec.Command(python, "-c", program, text).Output() //nolint:gosec // the test's own
			require.NoError(t, err)
			assert.Equal(t, string(out), strings.Join(got, "\x00"), "what Ansible makes of it")
		}
	}
	for _, text := range []string{`"a`, `'a`, `-o 'x"`} {
		_, err := shellWords(text)
		assert.Error(t, err, text)
	}
}

// asked is what both we and `ssh -G` say about a host.
func asked(s *settings) map[string]string {
	values := map[string]string{"hostname": s.host, "port": fmt.Sprint(s.port), "user": s.user, "hostkeyalias": s.hostKeyAlias}
	values["userknownhostsfile"] = strings.Join(s.knownHosts, " ")
	values["globalknownhostsfile"] = strings.Join(s.globalHosts, " ")
	var files []string
	for _, each := range s.identities {
		files = append(files, each.path)
	}
	values["identityfile"] = strings.Join(files, " ")
	values["identitiesonly"] = map[bool]string{true: "yes", false: "no"}[s.onlyThese]
	for via := s.via; via != nil && via.host != ""; via = nil {
		values["proxyjump"] = via.bastion
	}
	return values
}

// openSSH asks the real program.
func openSSH(t *testing.T, arguments ...string) map[string]string {
	t.Helper()
	out, err := exec.Command("ssh", append([]string{"-G"}, arguments...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	values := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		name, value, _ := strings.Cut(line, " ")
		values[name] = strings.TrimSpace(values[name] + " " + value)
	}
	return values
}

const manyBlocks = `
# before any block
IdentityFile "/keys/first one"
User=everybody
Host web*.example.com !web9.example.com db
	HostName  %h.internal
	Port 2201   # a comment
Host db
	Port 2202
	HostKeyAlias "the db"
	UserKnownHostsFile /known/a /known/b
	GlobalKnownHostsFile none
Include INCLUDED
Match originalhost db user everybody
	IdentitiesOnly yes
Match host *.internal !user nobody
	IdentityFile /keys/internal
Match final host db.internal
	IdentityFile /keys/final
	User last
Match all
	Port 2299
	ProxyJump gate
Host gate
	ProxyJump none
hOsT = quoted?name "other name"
	IdentityFile=/keys/other\ one
`

func TestTheFileSaysWhatItSaysToOpenSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("SKIPPED, SO NOTHING IS COMPARED WITH OPENSSH: no ssh; `make packages` installs it")
	}
	included := write(t, "HostName included\nHost db\n IdentityFile /keys/included\nHost elsewhere\n Port 2203\n")
	text := strings.ReplaceAll(manyBlocks, "INCLUDED", included)
	// `Match all` would send the bastion through itself, which OpenSSH only notices later.
	text = strings.Replace(text, "\tProxyJump gate\n", "", 1)
	file := write(t, text)
	t.Setenv("SSH_AUTH_SOCK", "")
	for _, host := range []string{"db", "web1.example.com", "web9.example.com", "WEB1.example.com", "elsewhere", "quoted-name", "gate", "10.0.0.1"} {
		for _, extra := range []string{
			"", "-p 2210 -l someone", "-o Port=2211 -o User=nobody -o IdentityFile=/keys/argument", "-o 'HostKeyAlias alias' -oIdentitiesOnly=yes",
			"-J gate", "-o ProxyJump=none",
		} {
			t.Run(host+" "+extra, func(t *testing.T) {
				arguments := "-F " + file + " " + extra
				list, err := shellWords(arguments)
				require.NoError(t, err)
				theirs := openSSH(t, append(list, host)...)
				s, err := newSettings(transport.Config{InventoryHostname: "win1", Host: host, SSH: transport.SSHConfig{CommonArgs: arguments}})
				require.NoError(t, err)
				ours := asked(s)
				if !strings.Contains(theirs["identityfile"], "/keys/") {
					delete(ours, "identityfile") // the usual ones, which we try fewer of
				}
				for name, value := range ours {
					said := theirs[name]
					if name == "hostname" {
						said, value = strings.ToLower(said), strings.ToLower(value)
					}
					if said == "none" {
						said = ""
					}
					if me, err := user.Current(); err == nil {
						said = strings.ReplaceAll(said, "~/", me.HomeDir+"/")
					}
					assert.Equal(t, said, value, name)
				}
			})
		}
	}
}

func TestWhatTheFilesAskForIsNotPassedOver(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	for name, test := range map[string]struct{ file, arguments, says string }{
		"an unfinished quote":             {file: "Host win1\n HostName \"win1", says: "config:2: a quote is not closed"},
		"a token that is not known":       {file: "IdentityFile ~/%C", says: "the token %C"},
		"a variable that is not set":      {file: "IdentityFile ${NO_SUCH_VARIABLE}", says: "NO_SUCH_VARIABLE"},
		"a port that is none":             {file: "Port 70000", says: `"70000"`},
		"an undecided condition":          {file: "Match host win1 exec \"test -f x\"\n HostName 10.0.0.1", says: "`Match exec`"},
		"files in a ring":                 {file: "Include config", says: "more than 16 times"},
		"no file where one is named":      {arguments: "-F /no/such/config", says: "/no/such/config"},
		"an option that has no value":     {arguments: "-o User", says: "has no value"},
		"a letter that has no value":      {arguments: "-v -J", says: "-J has no value"},
		"a letter that is not supported":  {arguments: "-D 1080", says: "-D is not supported"},
		"a letter that does not exist":    {arguments: "-Z", says: "-Z is not supported"},
		"a host":                          {arguments: "-v elsewhere", says: `"elsewhere" is not understood`},
		"a way on":                        {arguments: "-W %h:%p", says: `"-W" is not understood`},
		"a quote that is not closed":      {arguments: `-o "User=x`, says: "a quote is not closed"},
		"a bastion without a name":        {arguments: "-J a,,b", says: "names no host"},
		"a bastion with a port that is 0": {arguments: "-J a:0", says: "no port of 1 to 65535"},
		"a family that does not exist":    {arguments: "-o AddressFamily=inet5", says: "inet5"},
		"a time that is none":             {arguments: "-o ConnectTimeout=soon", says: "ConnectTimeout=soon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			sshConfig(t, test.file)
			_, err := newSettings(transport.Config{InventoryHostname: "win1", SSH: transport.SSHConfig{CommonArgs: test.arguments}})
			require.Error(t, err)
			assert.Equal(t, reason.ArgumentInvalid, reason.Of(err).Code, err)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, "win1")
		})
	}
}

func TestWhatDoesNotMatterDoesNotHinder(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	sshConfig(t, "Ciphers none\nMatch exec \"false\"\n IdentityFile x\n Port 22\nMatch host other exec \"false\"\n HostName elsewhere\n"+
		"Host other\n ProxyCommand nc %h %p\n"+
		"Match final all\n Include /no/such/folder/*.conf\n")
	s, err := newSettings(transport.Config{InventoryHostname: "win1", Port: 2200, User: `CORP\user`, SSH: transport.SSHConfig{
		CommonArgs: "-C -o ControlMaster=auto -oControlPersist=60s -vvqT -4 -o PreferredAuthentications=password,hostbased,publickey -o PasswordAuthentication=yes",
	}})
	require.NoError(t, err)
	assert.Equal(t, "win1", s.host)
	assert.Equal(t, 2200, s.port)
	assert.Equal(t, `CORP\user`, s.user)
	assert.Equal(t, "tcp4", s.network)
	assert.Equal(t, []string{passwordMethod, publicKey}, s.methods)
	assert.Nil(t, s.via)
}

func TestAVariableWithAPercentSignOrASpaceIsAPath(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s, err := newSettings(transport.Config{InventoryHostname: "win1", SSH: transport.SSHConfig{
		PrivateKeyFile: `/a "b" 100%/key`, KnownHostsFile: "~/known hosts", CommonArgs: `-i "/c d/key"`,
	}})
	require.NoError(t, err)
	assert.Equal(t, []identity{{`/a "b" 100%/key`, true}, {"/c d/key", true}}, s.identities)
	assert.Equal(t, []string{filepath.Join(os.Getenv("HOME"), "known hosts")}, s.knownHosts)
}

func FuzzNothingInAFileOrArgumentsBreaksTheReader(f *testing.F) {
	f.Add(manyBlocks, "-o A=b -J x,y")
	f.Add("Match exec a host b\nHostName %h%", `-o ProxyCommand="ssh -W %h:%p 'a"`)
	f.Add("Host \"\n", "-J [::1]:22,@:")
	f.Fuzz(func(t *testing.T, file, arguments string) {
		if strings.Contains(strings.ToLower(file), "include") || strings.Contains(arguments, "F") {
			t.Skip("other files of the machine are nobody's business here")
		}
		folder := t.TempDir()
		t.Setenv("HOME", folder)
		require.NoError(t, os.Mkdir(filepath.Join(folder, ".ssh"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, ".ssh", "config"), []byte(file), 0o600))
		s, err := newSettings(transport.Config{InventoryHostname: "win1", SSH: transport.SSHConfig{CommonArgs: arguments}})
		if err != nil {
			assert.Equal(t, reason.ArgumentInvalid, reason.Of(err).Code, err)
			return
		}
		assert.NotEmpty(t, s.host)
	})
}
