package ssh

import (
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxHops bounds a chain of bastions, which the files may close to a ring.
const maxHops = 8

// way finds the bastion through which this hop is reached, if there is one, and the ones before that.
func (s *settings) way(o *options, tokens map[byte]string, configFile, keep string, depth int) error {
	said, found := o.first[proxyJump]
	read := func() (*arguments, error) { return jump(said.plain(), tokens) }
	if command, is := o.first[proxyCommand]; is {
		said, found = command, true
		read = func() (*arguments, error) { return throughCommand(said.value, tokens) }
	}
	if !found || strings.EqualFold(said.plain(), "none") {
		return nil
	}
	a, err := read()
	if err != nil {
		return s.wrong(said.where, err)
	}
	if said.name == proxyJump {
		a.config = configFile // OpenSSH hands it on to the jump; the shell command of a ProxyCommand names its own
	}
	destination, err := destinationOf(a)
	if err != nil {
		return s.wrong(said.where, err)
	}
	if depth >= maxHops {
		return s.wrong(said.where, fmt.Errorf("there are more than %d bastions one behind the other: is one of them to be reached through itself?", maxHops))
	}
	s.via = &settings{
		name: s.name, bastion: destination, host: destination, passphrase: s.passphrase, policy: s.policy, timeout: s.timeout, keepAlive: s.keepAlive,
	}
	return s.via.complete(a.options, a.config, keep, depth+1)
}

// jump reads [USER@]HOST[:PORT][,...]: the last one leads to the host, and is itself reached through those before it.
func jump(text string, tokens map[byte]string) (*arguments, error) {
	expanded, err := expand(text, tokens)
	if err != nil {
		return nil, err
	}
	list := strings.Split(expanded, ",")
	before, last := list[:len(list)-1], list[len(list)-1]
	if last == "" || slices.Contains(before, "") {
		return nil, fmt.Errorf("ProxyJump %q names no host", text)
	}
	a := &arguments{options: newOptions(), destination: last}
	if len(before) > 0 {
		a.say("ProxyJump", proxyJump, strings.Join(before, ","))
	}
	return a, nil
}

// throughCommand understands the one ProxyCommand that Ansible's documentation shows, ssh -W %h:%p BASTION, which is a ProxyJump.
func throughCommand(text string, tokens map[byte]string) (*arguments, error) {
	unknown := func(why string) error {
		return fmt.Errorf("ProxyCommand %q is not supported: %s; there are ProxyJump and ProxyCommand=\"ssh -W %%h:%%p [OPTIONS] [USER@]BASTION\"", text, why)
	}
	list, err := shellWords(text)
	if err == nil && len(list) == 1 { // -o 'ProxyCommand="ssh -W ..."': quoted as a whole
		list, err = shellWords(list[0])
	}
	if err != nil {
		return nil, unknown(err.Error())
	}
	if len(list) > 0 && list[0] == "exec" {
		list = list[1:]
	}
	if len(list) == 0 || path.Base(list[0]) != "ssh" {
		return nil, unknown("it does not run ssh")
	}
	list = slices.Clone(list[1:])
	for i := range list {
		if list[i] != "%h:%p" && list[i] != "[%h]:%p" && list[i] != "-W%h:%p" && list[i] != "-W[%h]:%p" {
			if list[i], err = expand(list[i], tokens); err != nil {
				return nil, unknown(err.Error())
			}
		}
	}
	a, err := parseArguments(list, "ProxyCommand")
	switch {
	case err != nil:
		return nil, unknown(err.Error())
	case a.forward != "%h:%p" && a.forward != "[%h]:%p":
		return nil, unknown("it has no -W %h:%p")
	case a.destination == "":
		return nil, unknown("it names no bastion")
	}
	return a, nil
}

// destinationOf takes user and port out of [ssh://][USER@]HOST[:PORT] and gives the host.
func destinationOf(a *arguments) (string, error) {
	text, isURL := strings.CutPrefix(a.destination, "ssh://")
	if isURL {
		text = strings.TrimSuffix(text, "/")
	}
	host := text
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		a.say("ProxyJump", "user", quoted(text[:at]))
		host = text[at+1:]
	}
	switch name, port, err := net.SplitHostPort(host); {
	case err == nil:
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "", fmt.Errorf("%q has no port of 1 to 65535", a.destination)
		}
		host = name
		a.say("ProxyJump", "port", port)
	case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
		host = host[1 : len(host)-1]
	}
	if host == "" || host[0] == '-' {
		return "", errors.New("it names no bastion: " + a.destination)
	}
	return host, nil
}
