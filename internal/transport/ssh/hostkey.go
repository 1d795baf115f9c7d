package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"wsu.windows/internal/reason"
)

// hostKeys decides whether the far end of a hop is the machine that is meant.
type hostKeys struct {
	*settings
	// known is the name as known_hosts has it: HOST, [HOST]:PORT, or the alias, which has no port.
	known string
	// bare is the name without the port, which OpenSSH looks at as well where the one with the port is not there.
	bare string
	// refusal is why the last key was refused; the SSH library's own error is only a text. accepted: a key was the right one.
	refusal  *reason.Error
	accepted bool
}

func newHostKeys(s *settings) *hostKeys {
	if s.hostKeyAlias != "" {
		alias := strings.ToLower(s.hostKeyAlias)
		return &hostKeys{settings: s, known: alias, bare: alias}
	}
	host := strings.ToLower(s.host)
	return &hostKeys{settings: s, known: knownhosts.Normalize(net.JoinHostPort(host, fmt.Sprint(s.port))), bare: host}
}

// load reads what is known of the host, under the name with the port, or else without.
func (h *hostKeys) load() (exact, bare *known, err error) {
	var files []string
	for _, file := range slices.Concat(h.knownHosts, h.globalHosts) {
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", file) // with /dev/null every key would be a first one
		}
		if err != nil {
			return nil, nil, h.unusable(err)
		}
		files = append(files, file)
	}
	exact, err = readKnown(files, h.known)
	if err == nil {
		err = exact.readRevoked(h.revokedKeys)
	}
	if err == nil {
		bare, err = readKnown(files, h.bare)
	}
	if err != nil {
		return nil, nil, h.unusable(err)
	}
	return exact, bare, nil
}

func (h *hostKeys) unusable(err error) error {
	return reason.Wrap(reason.ArgumentInvalid, h.object()+": the known host keys", err,
		"Give a file of known host keys that can be read, with wsu_ssh_known_hosts_file or OpenSSH's UserKnownHostsFile.")
}

// preferred is in OpenSSH's order: the key that its users see, and pin, is the Ed25519 one. certified has the same for certificates.
var (
	preferred = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	certified = []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
)

// algorithms asks for the kinds of key that are known, so that a host with several shows the one that can be checked; for certificates only
// where an authority is known, whose own kind says nothing of the host's.
func (h *hostKeys) algorithms() ([]string, error) {
	if h.fingerprint != "" {
		return preferred, nil
	}
	exact, bare, err := h.load()
	if err != nil {
		return nil, err
	}
	var offered []string
	if len(exact.authorities)+len(bare.authorities) > 0 {
		offered = slices.Clone(certified)
	}
	plain := preferred
	if keys := firstKeys(exact.keys, bare.keys); len(keys) > 0 {
		plain = slices.DeleteFunc(slices.Clone(preferred), func(algorithm string) bool {
			return !slices.ContainsFunc(keys, func(key knownKey) bool { return kindOf(algorithm) == key.Type() })
		})
	}
	return append(offered, plain...), nil
}

func firstKeys(a, b []knownKey) []knownKey {
	if len(a) > 0 {
		return a
	}
	return b
}

// kindOf is the kind of key that a signature algorithm belongs to.
func kindOf(algorithm string) string {
	if algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algorithm
}

// check is the SSH library's callback.
func (h *hostKeys) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	err := h.decide(key)
	errors.As(err, &h.refusal)
	h.accepted = err == nil
	return err
}

func (h *hostKeys) decide(key ssh.PublicKey) error {
	shown := ssh.FingerprintSHA256(key)
	if h.fingerprint != "" {
		if shown == h.fingerprint {
			return nil
		}
		return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its host key is %s, and wsu_ssh_host_key_fingerprint says %s", shown, h.fingerprint), "")
	}
	exact, bare, err := h.load()
	if err != nil {
		return err
	}
	certificate, is := key.(*ssh.Certificate)
	involved := []ssh.PublicKey{key}
	if is {
		key, involved = certificate.Key, []ssh.PublicKey{certificate.Key, certificate.SignatureKey}
	}
	for _, each := range involved {
		if revoked := find(exact.revoked, each); revoked != nil {
			return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its host key, or the authority of its certificate, %s %s, is revoked in %s",
				each.Type(), ssh.FingerprintSHA256(each), revoked.where), "")
		}
	}
	authorities := slices.Concat(exact.authorities, bare.authorities)
	if is {
		if authority := find(authorities, certificate.SignatureKey); authority != nil {
			return h.certified(certificate, authority)
		} // by another authority: what is left is an ordinary key, as for OpenSSH
	}
	return h.plain(key, exact.keys, bare.keys, authorities)
}

// certified checks a host certificate that one of the host's authorities signed.
func (h *hostKeys) certified(certificate *ssh.Certificate, authority *knownKey) error {
	principal := h.bare
	for _, each := range certificate.ValidPrincipals { // which may be patterns for hosts
		if matchesAny([]string{strings.ToLower(each)}, h.bare) {
			principal = each
		}
	}
	err := (&ssh.CertChecker{}).CheckCert(principal, certificate)
	if err == nil && certificate.CertType != ssh.HostCert {
		err = errors.New("it is a user's certificate")
	}
	if err != nil {
		return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its certificate by the authority of %s is not valid for it: %s",
			authority.where, strings.TrimPrefix(err.Error(), "ssh: ")), "Give the host a valid certificate, and check this machine's clock.")
	}
	return nil
}

// plain checks a key without a certificate.
func (h *hostKeys) plain(key ssh.PublicKey, exact, bare, authorities []knownKey) error {
	shown := key.Type() + " " + ssh.FingerprintSHA256(key)
	files := strings.Join(slices.Concat(h.knownHosts, h.globalHosts), ", ")
	switch {
	case find(exact, key) != nil:
		return nil
	case len(exact) > 0:
		return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its host key is %s, and another one is known in %s", shown, exact[0].where), "")
	case find(bare, key) != nil:
		return nil
	case len(authorities) > 0:
		// Not kept with accept-new either: whoever poses as a host would only have to leave its certificate out.
		return h.refuse(reason.HostKeyMismatch, fmt.Sprintf("its host key is %s without a certificate by the authority that %s demands", shown, authorities[0].where),
			"Give the host a certificate by this authority, or add the host's own key to known_hosts after you have compared it with the machine's.")
	case h.policy == acceptNew:
		return h.keep(key)
	}
	return h.refuse(reason.HostKeyUnknown, fmt.Sprintf("its host key %s is not known in %s", shown, files),
		"Compare the fingerprint with the machine's own (ssh-keygen -lf C:\\ProgramData\\ssh\\ssh_host_ed25519_key.pub), then add the key to known_hosts, "+
			"set wsu_ssh_host_key_fingerprint, or set wsu_ssh_host_key_policy=accept-new for the first contact.")
}

func (h *hostKeys) refuse(code reason.Code, problem, remedy string) error {
	h.refusal = reason.New(code, h.object(), problem, remedy)
	return h.refusal
}

// keep adds a first key to the file. Other runs may do the same at this moment: under the lock, the file is read once more.
func (h *hostKeys) keep(key ssh.PublicKey) error {
	if len(h.knownHosts) == 0 {
		return h.unusable(errors.New("there is no file to keep a first key in"))
	}
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
	exact, _, err := h.load()
	if err != nil {
		return err
	}
	if find(exact.keys, key) != nil {
		return nil
	}
	if len(exact.keys) > 0 {
		return h.refuse(reason.HostKeyMismatch, "another key of this host has just become known", "")
	}
	line := h.known + " " + string(ssh.MarshalAuthorizedKey(key))
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
