package ssh

import (
	"fmt"
	"slices"
	"strings"
)

// option is one of OpenSSH's options and the place that says it.
type option struct {
	name  string // in lower case
	value string // as written: quotes and tokens are still in it
	where string
}

// plain gives the value without quotes.
func (o option) plain() string {
	if list, err := configWords(o.value); err == nil && len(list) > 0 {
		return list[0]
	}
	return o.value
}

// options keeps of each option what is said first, as OpenSSH does: the variables, then the arguments, then the files.
type options struct {
	first map[string]option
	// lists are those that add up.
	lists map[string][]option
}

func newOptions() *options {
	return &options{first: map[string]option{}, lists: map[string][]option{}}
}

const (
	identityFile    = "identityfile"
	certificateFile = "certificatefile"
	proxyJump       = "proxyjump"
	proxyCommand    = "proxycommand"
)

func (o *options) add(new option) {
	if new.name == identityFile || new.name == certificateFile {
		same := func(old option) bool { return old.value == new.value }
		if !slices.ContainsFunc(o.lists[new.name], same) {
			o.lists[new.name] = append(o.lists[new.name], new)
		}
		return
	}
	if o.has(new.name) || new.name == proxyJump && o.has(proxyCommand) || new.name == proxyCommand && o.has(proxyJump) {
		return
	}
	o.first[new.name] = new
}

// append adds what others say, after what is said here.
func (o *options) append(more *options) {
	for _, each := range more.first {
		o.add(each)
	}
	for _, list := range more.lists {
		for _, each := range list {
			o.add(each)
		}
	}
}

func (o *options) has(name string) bool { _, found := o.first[name]; return found }

// get gives an option's value without quotes.
func (o *options) get(name string) string {
	return o.first[name].plain()
}

// say adds what is not empty.
func (o *options) say(where, name, value string) {
	if value != "" {
		o.add(option{name: name, value: value, where: where})
	}
}

// honoured are the options that mean here what they mean to OpenSSH.
var honoured = []string{
	identityFile, certificateFile, proxyJump, proxyCommand, "user", "port", "hostname", "hostkeyalias", "userknownhostsfile", "globalknownhostsfile",
	"revokedhostkeys", "identitiesonly", "identityagent", "addressfamily", "preferredauthentications", "pubkeyauthentication",
	"passwordauthentication", "kbdinteractiveauthentication", "challengeresponseauthentication",
}

// honouredArguments are those of the arguments that are not taken from a file, where they would weaken or slow down every host.
var honouredArguments = []string{"stricthostkeychecking", "connecttimeout"}

// passedOver are options without meaning here.
var passedOver = []string{
	"controlmaster", "controlpath", "controlpersist", "serveraliveinterval", "serveralivecountmax", "tcpkeepalive", "compression", "loglevel",
	"batchmode", "gssapiauthentication", "gssapidelegatecredentials", "hostbasedauthentication", "numberofpasswordprompts", "forwardagent",
	"forwardx11", "forwardx11trusted", "clearallforwardings", "requesttty", "updatehostkeys", "checkhostip", "hashknownhosts", "addkeystoagent",
	"connectionattempts", "visualhostkey", "permitlocalcommand", "sendenv", "escapechar", "ipqos", "rekeylimit",
}

const (
	flagsWithout = "46AaCKkNnqTtvXxYy"
	flagsWith    = "BbcDEeFIiJLlmOoPpQRSWw"
)

// arguments is an OpenSSH command line without its program.
type arguments struct {
	*options
	// config is the file of -F.
	config string
	// forward is the value of -W, destination the one word that is no option; both belong to a ProxyCommand only.
	forward     string
	destination string
}

// parseArguments reads what of OpenSSH's command line is honoured; what is not is an error, unless it has no meaning here.
func parseArguments(list []string, where string) (*arguments, error) {
	a := &arguments{options: newOptions()}
	for len(list) > 0 {
		word := list[0]
		list = list[1:]
		if len(word) < 2 || word[0] != '-' {
			if a.destination != "" {
				return nil, fmt.Errorf("%q is not understood", word)
			}
			a.destination = word
			continue
		}
		for rest := word[1:]; rest != ""; {
			letter := rest[0]
			rest = rest[1:]
			if strings.IndexByte(flagsWithout, letter) >= 0 {
				a.flag(letter, where)
				continue
			}
			if strings.IndexByte(flagsWith, letter) < 0 {
				return nil, fmt.Errorf("-%c is not supported", letter)
			}
			if rest == "" {
				if len(list) == 0 {
					return nil, fmt.Errorf("-%c has no value", letter)
				}
				rest, list = list[0], list[1:]
			}
			if err := a.valued(letter, rest, where); err != nil {
				return nil, err
			}
			break
		}
	}
	return a, nil
}

func (a *arguments) flag(letter byte, where string) {
	switch letter {
	case '4':
		a.say(where, "addressfamily", "inet")
	case '6':
		a.say(where, "addressfamily", "inet6")
	}
}

func (a *arguments) valued(letter byte, value, where string) error {
	switch letter {
	case 'i':
		a.say(where, identityFile, quoted(value)) // the shell's quotes are gone, and a path may hold a space
	case 'l':
		a.say(where, "user", quoted(value))
	case 'p':
		a.say(where, "port", value)
	case 'J':
		a.say(where, proxyJump, value)
	case 'F':
		a.config = value
	case 'W':
		a.forward = value
	case 'o':
		return a.option(value, where)
	default:
		return fmt.Errorf("-%c is not supported", letter)
	}
	return nil
}

func (a *arguments) option(text, where string) error {
	name, value := keyword(text)
	switch {
	case slices.Contains(passedOver, name):
	case !slices.Contains(honoured, name) && !slices.Contains(honouredArguments, name):
		shown, _, _ := strings.Cut(text, "=")
		return fmt.Errorf("-o %s is not supported", shown)
	case value == "":
		return fmt.Errorf("-o %s has no value", text)
	default:
		a.add(option{name: name, value: value, where: where})
	}
	return nil
}
