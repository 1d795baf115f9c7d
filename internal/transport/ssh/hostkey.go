package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"wsu.windows/internal/reason"
)

// hostKeys decides whether the far end is the host.
type hostKeys struct {
	*settings
	// known is the address as known_hosts has it: NAME:PORT.
	known string
	// refusal is why the last key was refused; the SSH library's own error is only a text.
	refusal *reason.Error
}

func newHostKeys(s *settings) *hostKeys {
	name := firstOf(s.hostKeyAlias, s.host)
	return &hostKeys{settings: s, known: net.JoinHostPort(name, fmt.Sprint(s.port))}
}

// load reads the files that are there; a missing one is empty.
func (h *hostKeys) load() (*knownhosts.HostKeyDB, error) {
	var files []string
	for _, file := range h.knownHosts {
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
			return nil, h.unusable(fmt.Errorf("%s is not a regular file", file)) // with /dev/null every key would be a first one
		} else if err == nil {
			files = append(files, file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, h.unusable(err)
		}
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, h.unusable(err)
	}
	return db, nil
}

func (h *hostKeys) unusable(err error) error {
	return reason.Wrap(reason.ArgumentInvalid, h.name+": wsu_ssh_known_hosts_file", err, "Give a file of known host keys that can be read.")
}

// algorithms asks for the kinds of key that are known, so that a host with several shows the one that can be checked.
func (h *hostKeys) algorithms() ([]string, error) {
	if h.fingerprint != "" {
		return preferred, nil
	}
	db, err := h.load()
	if err != nil {
		return nil, err
	}
	if known := db.HostKeyAlgorithms(h.known); len(known) > 0 {
		return known, nil
	}
	return preferred, nil
}

// preferred is in OpenSSH's order: the key that its users see, and pin, is the Ed25519 one.
var preferred = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// check is the SSH library's callback.
func (h *hostKeys) check(_ string, remote net.Addr, key ssh.PublicKey) error {
	shown := ssh.FingerprintSHA256(key)
	if h.fingerprint != "" {
		if shown == h.fingerprint {
			return nil
		}
		return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its host key is %s, and wsu_ssh_host_key_fingerprint says %s", shown, h.fingerprint), "")
	}
	db, err := h.load()
	if err != nil {
		return err
	}
	err = db.HostKeyCallback()(h.known, remote, key)
	switch {
	case err == nil:
		return nil
	case knownhosts.IsHostKeyChanged(err):
		return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its host key is %s %s, and another one is known in %s", key.Type(), shown, strings.Join(h.knownHosts, ", ")), "")
	case !knownhosts.IsHostUnknown(err):
		return h.refuse(reason.HostKeyMismatch, err.Error(), "")
	case h.policy == acceptNew:
		return h.keep(remote, key)
	}
	return h.refuse(reason.HostKeyUnknown, fmt.Sprintf("its host key %s %s is not known in %s", key.Type(), shown, strings.Join(h.knownHosts, ", ")),
		"Compare the fingerprint with the machine's own (ssh-keygen -lf C:\\ProgramData\\ssh\\ssh_host_ed25519_key.pub), then add the key to known_hosts, "+
			"set wsu_ssh_host_key_fingerprint, or set wsu_ssh_host_key_policy=accept-new for the first contact.")
}

func (h *hostKeys) refuse(code reason.Code, problem, remedy string) error {
	h.refusal = reason.New(code, fmt.Sprintf("host %s (%s)", h.name, h.known), problem, remedy)
	return h.refusal
}

// keep adds a first key to the file. Other runs may do the same at this moment: under the lock, the file is read once more.
func (h *hostKeys) keep(remote net.Addr, key ssh.PublicKey) error {
	path := h.knownHosts[0]
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return h.unusable(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return h.unusable(err)
	}
	defer file.Close() // and with it the lock
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return h.unusable(err)
	}
	db, err := h.load()
	if err != nil {
		return err
	}
	err = db.HostKeyCallback()(h.known, remote, key)
	if knownhosts.IsHostKeyChanged(err) {
		return h.refuse(reason.HostKeyMismatch, "another key of this host has just become known", "")
	}
	if err == nil {
		return nil
	}
	line := knownhosts.Line([]string{h.known}, key) + "\n"
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := file.WriteString(line); err != nil {
		return h.unusable(err)
	}
	return file.Sync()
}
