package ssh

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

const (
	acceptNew      = "accept-new"
	strict         = "strict"
	defaultTimeout = 10 * time.Second
)

// settings is everything that a connection needs, from all sources.
type settings struct {
	name          string
	host          string
	port          int
	user          string
	password      string
	identities    []string // private key files
	passphrase    string
	knownHosts    []string
	policy        string
	fingerprint   string
	hostKeyAlias  string
	timeout       time.Duration
	defaultedKeys bool // identities are the usual ones, which need not be there
}

// passedOver are OpenSSH's options without meaning here.
var passedOver = []string{
	"controlmaster", "controlpath", "controlpersist", "serveraliveinterval", "serveralivecountmax", "tcpkeepalive", "compression", "loglevel",
	"batchmode", "identitiesonly", "preferredauthentications", "pubkeyauthentication", "passwordauthentication", "kbdinteractiveauthentication",
	"gssapiauthentication", "numberofpasswordprompts", "forwardagent", "requesttty", "updatehostkeys", "checkhostip", "hashknownhosts",
}

func newSettings(config transport.Config) (*settings, error) {
	s := &settings{
		name: config.InventoryHostname, host: config.Host, port: config.Port, user: config.User, password: config.Password,
		passphrase: config.SSH.PrivateKeyPassphrase, policy: config.SSH.HostKeyPolicy, fingerprint: config.SSH.HostKeyFingerprint,
		timeout: time.Duration(config.ConnectTimeoutSeconds) * time.Second,
	}
	if s.host == "" {
		s.host = s.name
	}
	if config.SSH.PrivateKeyFile != "" {
		s.identities = []string{config.SSH.PrivateKeyFile}
	}
	if config.SSH.KnownHostsFile != "" {
		s.knownHosts = []string{config.SSH.KnownHostsFile}
	}
	if err := s.arguments(config.SSH.CommonArgs); err != nil {
		return nil, err
	}
	s.userConfig()
	s.defaults()
	if s.policy != strict && s.policy != acceptNew {
		return nil, s.argument("wsu_ssh_host_key_policy", fmt.Sprintf("it is %q; there are strict and accept-new", s.policy))
	}
	if s.fingerprint != "" && !strings.HasPrefix(s.fingerprint, "SHA256:") {
		return nil, s.argument("wsu_ssh_host_key_fingerprint", "it does not begin with SHA256:, as `ssh-keygen -l` prints it")
	}
	return s, nil
}

func (s *settings) argument(object, problem string) error {
	return reason.New(reason.ArgumentInvalid, s.name+": "+object, problem, "Correct the variable in the inventory.")
}

// arguments reads what of OpenSSH's command line is honoured.
func (s *settings) arguments(text string) error {
	words := strings.Fields(strings.NewReplacer(`"`, "", `'`, "").Replace(text))
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if len(word) < 2 || word[0] != '-' {
			return s.argument("ansible_ssh_common_args", fmt.Sprintf("%q is not understood", word))
		}
		letter, value := word[:2], word[2:]
		if slices.Contains([]string{"-C", "-T", "-q", "-a", "-x", "-4", "-6"}, letter) || letter == "-v" {
			continue
		}
		if value == "" {
			if len(words) == 0 {
				return s.argument("ansible_ssh_common_args", letter+" has no value")
			}
			value, words = words[0], words[1:]
		}
		name := map[string]string{"-i": "IdentityFile", "-l": "User", "-p": "Port"}[letter]
		if letter == "-o" {
			name, value, _ = strings.Cut(value, "=")
		}
		if err := s.option(name, value, letter); err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) option(name, value, letter string) error {
	var err error
	switch lower := strings.ToLower(name); {
	case lower == "identityfile":
		s.identities = append(s.identities, value)
	case lower == "user":
		s.user = firstOf(s.user, value)
	case lower == "port":
		s.port, err = portOf(s.port, value)
	case lower == "userknownhostsfile":
		s.knownHosts = append(s.knownHosts, value)
	case lower == "hostkeyalias":
		s.hostKeyAlias = value
	case lower == "connecttimeout":
		var seconds int
		seconds, err = strconv.Atoi(value)
		s.timeout = time.Duration(seconds) * time.Second
	case lower == "stricthostkeychecking":
		return s.checking(strings.ToLower(value))
	case slices.Contains(passedOver, lower):
	default:
		return s.argument("ansible_ssh_common_args", fmt.Sprintf("%s is not supported", strings.TrimSpace(letter+" "+name)))
	}
	if err != nil {
		return s.argument("ansible_ssh_common_args", fmt.Sprintf("%s=%s is not a number", name, value))
	}
	return nil
}

func (s *settings) checking(value string) error {
	switch value {
	case "yes", "ask":
		s.policy = firstOf(s.policy, strict)
	case acceptNew:
		s.policy = firstOf(s.policy, acceptNew)
	default:
		return s.argument("ansible_ssh_common_args", fmt.Sprintf(
			"StrictHostKeyChecking=%s would let anybody pose as the host; use wsu_ssh_host_key_policy=accept-new for the first contact", value))
	}
	return nil
}

// userConfig adds what ~/.ssh/config says and nobody else did.
func (s *settings) userConfig() {
	get := func(key string) string {
		value, err := ssh_config.GetStrict(s.host, key)
		if err != nil || value == ssh_config.Default(key) {
			return ""
		}
		return value
	}
	s.user = firstOf(s.user, get("User"))
	s.hostKeyAlias = firstOf(s.hostKeyAlias, get("HostKeyAlias"))
	if port, err := portOf(s.port, firstOf(get("Port"), "0")); err == nil {
		s.port = port
	}
	if file := get("UserKnownHostsFile"); file != "" && len(s.knownHosts) == 0 {
		s.knownHosts = strings.Fields(file)
	}
	if file := get("IdentityFile"); file != "" && len(s.identities) == 0 {
		s.identities = []string{file}
	}
	if name := get("HostName"); name != "" {
		s.host = strings.ReplaceAll(name, "%h", s.host)
	}
}

func (s *settings) defaults() {
	if s.port == 0 {
		s.port = 22
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	s.policy = firstOf(s.policy, strict)
	if s.user == "" {
		if current, err := user.Current(); err == nil {
			s.user = current.Username
		}
	}
	if len(s.knownHosts) == 0 {
		s.knownHosts = []string{"~/.ssh/known_hosts"}
	}
	if len(s.identities) == 0 {
		s.identities, s.defaultedKeys = []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}, true
	}
	for _, list := range [][]string{s.identities, s.knownHosts} {
		for i := range list {
			list[i] = expand(list[i])
		}
	}
}

func expand(path string) string {
	if rest, found := strings.CutPrefix(path, "~/"); found {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

func portOf(present int, value string) (int, error) {
	if present != 0 {
		return present, nil
	}
	return strconv.Atoi(value)
}
