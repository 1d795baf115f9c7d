package ssh

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

const (
	acceptNew      = "accept-new"
	strict         = "strict"
	defaultTimeout = 10 * time.Second
	commonArgs     = "ansible_ssh_common_args"
)

// settings is everything that one hop of a connection needs, from all sources: the host's own, or a bastion's before it.
type settings struct {
	name         string // the inventory's
	bastion      string // as it was named; empty: this is the host itself
	host         string
	port         int
	network      string // tcp, tcp4, tcp6
	user         string
	password     string
	passphrase   string
	identities   []identity
	certificates []string
	onlyThese    bool     // IdentitiesOnly: of the agent's keys, those that the identity files name
	agentSocket  string   // empty: no agent
	methods      []string // ways of logging in, in their order
	knownHosts   []string // a first key goes into the first of them
	globalHosts  []string // only read
	revokedKeys  []string
	policy       string
	fingerprint  string
	hostKeyAlias string
	timeout      time.Duration
	keepAlive    pace
	via          *settings // the bastion through which this one is reached
}

// identity is a private key file.
type identity struct {
	path string
	// named by a variable or an argument: it has to be there.
	named bool
}

// pace is how a dead peer is noticed: after the sum of both at the latest.
type pace struct{ every, within time.Duration }

// newSettings reads the variables, the arguments and ~/.ssh/config, for the host and for every bastion before it.
func newSettings(config transport.Config) (*settings, error) {
	name := config.InventoryHostname
	list, err := shellWords(config.SSH.CommonArgs)
	var a *arguments
	if err == nil {
		a, err = parseArguments(list, commonArgs)
	}
	if err == nil && (a.forward != "" || a.destination != "") {
		err = fmt.Errorf("%q is not understood", firstOf(a.destination, "-W"))
	}
	if err != nil {
		return nil, argument(name, commonArgs, err.Error())
	}
	variables := newOptions()
	if config.Port != 0 {
		variables.say("ansible_port", "port", strconv.Itoa(config.Port))
	}
	for _, each := range []option{
		{"user", config.User, "ansible_user"},
		{identityFile, strings.ReplaceAll(config.SSH.PrivateKeyFile, "%", "%%"), "ansible_ssh_private_key_file"},
		{"userknownhostsfile", strings.ReplaceAll(config.SSH.KnownHostsFile, "%", "%%"), "wsu_ssh_known_hosts_file"},
	} {
		if each.value != "" {
			variables.say(each.where, each.name, quoted(each.value))
		}
	}
	variables.append(a.options)
	s := &settings{
		name: name, host: firstOf(config.Host, name), password: config.Password, passphrase: config.SSH.PrivateKeyPassphrase,
		policy: config.SSH.HostKeyPolicy, fingerprint: config.SSH.HostKeyFingerprint, timeout: time.Duration(config.ConnectTimeoutSeconds) * time.Second,
		keepAlive: pace{every: 9 * time.Second, within: 8 * time.Second}, // within 20 s, with the time to find out which hop it is
	}
	if s.fingerprint != "" && !strings.HasPrefix(s.fingerprint, "SHA256:") {
		return nil, argument(name, "wsu_ssh_host_key_fingerprint", "it does not begin with SHA256:, as `ssh-keygen -l` prints it")
	}
	if err := s.complete(variables, a.config, config.SSH.KnownHostsFile, 0); err != nil {
		return nil, err
	}
	return s, nil
}

func argument(host, object, problem string) error {
	return reason.New(reason.ArgumentInvalid, host+": "+object, problem, "Correct the variable in the inventory; docs/variables.md says what is honoured.")
}

func (s *settings) wrong(where string, err error) error {
	object := s.name + ": " + where
	if s.bastion != "" {
		object = fmt.Sprintf("%s: bastion %s: %s", s.name, s.bastion, where)
	}
	return reason.Wrap(reason.ArgumentInvalid, object, err, "Correct it; docs/variables.md says what of OpenSSH's options is honoured.")
}

// complete adds what the files say and works everything out. The file of first keys may be named for all hops.
func (s *settings) complete(o *options, configFile, keep string, depth int) error {
	named := map[string]bool{}
	for _, each := range o.lists[identityFile] {
		named[each.value] = true
	}
	me, err := user.Current()
	if err != nil {
		return s.wrong("the control host's user", err)
	}
	if err := readConfig(o, s.host, me.Username, configFile); err != nil {
		return s.wrong("OpenSSH's configuration", err)
	}
	asked := s.host
	if text := o.get("hostname"); text != "" {
		if s.host, err = expand(text, map[byte]string{'h': asked}); err != nil {
			return s.wrong(o.first["hostname"].where, err)
		}
	}
	s.user = firstOf(o.get("user"), me.Username)
	s.hostKeyAlias = o.get("hostkeyalias")
	s.port = 22
	if text := o.get("port"); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return s.wrong(o.first["port"].where, fmt.Errorf("port %q is not one of 1 to 65535", text))
		}
		s.port = int(port)
	}
	tokens := map[byte]string{
		'd': home("~/"), 'h': s.host, 'i': strconv.Itoa(os.Getuid()), 'k': firstOf(s.hostKeyAlias, asked), 'n': asked, 'p': strconv.Itoa(s.port),
		'r': s.user, 'u': me.Username,
	}
	for _, step := range []func(*options, map[byte]string) error{s.patience, s.network4or6, s.verification, s.agent} {
		if err := step(o, tokens); err != nil {
			return err
		}
	}
	if s.bastion != "" && keep != "" && !o.has("userknownhostsfile") {
		s.knownHosts = append([]string{home(keep)}, s.knownHosts...)
	}
	if err := s.keys(o, tokens, named); err != nil {
		return err
	}
	return s.way(o, tokens, configFile, keep, depth)
}

func (s *settings) patience(o *options, _ map[byte]string) error {
	if text := o.get("connecttimeout"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 {
			return s.wrong(o.first["connecttimeout"].where, fmt.Errorf("ConnectTimeout=%s is not a number of seconds", text))
		}
		s.timeout = time.Duration(seconds) * time.Second
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	return nil
}

func (s *settings) network4or6(o *options, _ map[byte]string) error {
	networks := map[string]string{"": "tcp", "any": "tcp", "inet": "tcp4", "inet6": "tcp6"}
	text := strings.ToLower(o.get("addressfamily"))
	s.network = networks[text]
	if s.network == "" {
		return s.wrong(o.first["addressfamily"].where, fmt.Errorf("AddressFamily %s is none of any, inet and inet6", text))
	}
	return nil
}

// verification is how the host's key is checked.
func (s *settings) verification(o *options, tokens map[byte]string) error {
	switch text := strings.ToLower(o.get("stricthostkeychecking")); text {
	case "":
	case "yes", "ask":
		s.policy = firstOf(s.policy, strict)
	case acceptNew:
		s.policy = firstOf(s.policy, acceptNew)
	default:
		return s.wrong(o.first["stricthostkeychecking"].where, fmt.Errorf(
			"StrictHostKeyChecking=%s would let anybody pose as the host; use wsu_ssh_host_key_policy=accept-new for the first contact", text))
	}
	s.policy = firstOf(s.policy, strict)
	if s.policy != strict && s.policy != acceptNew {
		return s.wrong("wsu_ssh_host_key_policy", fmt.Errorf("it is %q; there are strict and accept-new", s.policy))
	}
	for _, list := range []struct {
		name   string
		target *[]string
		usual  string
	}{
		{"userknownhostsfile", &s.knownHosts, "~/.ssh/known_hosts ~/.ssh/known_hosts2"},
		{"globalknownhostsfile", &s.globalHosts, "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"},
		{"revokedhostkeys", &s.revokedKeys, ""},
	} {
		files, err := configWords(firstOf(o.first[list.name].value, list.usual))
		if err != nil {
			return s.wrong(o.first[list.name].where, err)
		}
		for i := range files {
			if files[i], err = expandPath(files[i], tokens); err != nil {
				return s.wrong(o.first[list.name].where, err)
			}
		}
		*list.target = slices.DeleteFunc(files, func(file string) bool { return file == "none" })
	}
	return nil
}

// agent is which agent is asked, and which ways of logging in are taken.
func (s *settings) agent(o *options, tokens map[byte]string) error {
	s.onlyThese = strings.EqualFold(o.get("identitiesonly"), "yes")
	switch text := o.get("identityagent"); {
	case text == "" || text == "SSH_AUTH_SOCK":
		s.agentSocket = os.Getenv("SSH_AUTH_SOCK")
	case text == "none":
	case text[0] == '$' && !strings.HasPrefix(text, "${"):
		s.agentSocket = os.Getenv(text[1:])
	default:
		var err error
		if s.agentSocket, err = expandPath(text, tokens); err != nil {
			return s.wrong(o.first["identityagent"].where, err)
		}
	}
	known := []string{publicKey, passwordMethod, interactive}
	off := map[string]bool{
		publicKey:      strings.EqualFold(o.get("pubkeyauthentication"), "no"),
		passwordMethod: strings.EqualFold(o.get("passwordauthentication"), "no"),
		interactive:    strings.EqualFold(firstOf(o.get("kbdinteractiveauthentication"), o.get("challengeresponseauthentication")), "no"),
	}
	wanted := known
	if text := o.get("preferredauthentications"); text != "" {
		wanted = strings.Split(text, ",")
	}
	for _, method := range wanted {
		if slices.Contains(known, method) && !off[method] {
			s.methods = append(s.methods, method)
		}
	}
	return nil
}

// keys are the identity files, or the usual ones where none is named.
func (s *settings) keys(o *options, tokens map[byte]string, named map[string]bool) error {
	for _, each := range o.lists[identityFile] {
		path, err := expandPath(each.plain(), tokens)
		if err != nil {
			return s.wrong(each.where, err)
		}
		if path != "none" {
			s.identities = append(s.identities, identity{path: path, named: named[each.value]})
		}
	}
	if len(o.lists[identityFile]) == 0 {
		for _, path := range []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"} {
			s.identities = append(s.identities, identity{path: home(path)})
		}
	}
	for _, each := range o.lists[certificateFile] {
		path, err := expandPath(each.plain(), tokens)
		if err != nil {
			return s.wrong(each.where, err)
		}
		s.certificates = append(s.certificates, path)
	}
	return nil
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
