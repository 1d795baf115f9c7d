package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what OpenSSH hashes names with in known_hosts
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
)

// known is what the files of host keys say about one name, in OpenSSH's format (SSH_KNOWN_HOSTS FILE FORMAT in sshd(8)).
type known struct {
	keys        []knownKey
	authorities []knownKey
	// revoked keys are so whatever name they are listed for.
	revoked []knownKey
}

// knownKey is one line.
type knownKey struct {
	ssh.PublicKey
	where string // FILE:LINE
}

func find(list []knownKey, key ssh.PublicKey) *knownKey {
	for i := range list {
		if bytes.Equal(list[i].Marshal(), key.Marshal()) {
			return &list[i]
		}
	}
	return nil
}

// readKnown reads files of host keys for a name as OpenSSH writes it: HOST, [HOST]:PORT or an alias. A missing file is empty.
func readKnown(files []string, name string) (*known, error) {
	k := &known{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for number, line := range bytes.Split(raw, []byte("\n")) {
			if err := k.line(bytes.TrimSpace(line), name, fmt.Sprintf("%s:%d", file, number+1)); err != nil {
				return nil, err
			}
		}
	}
	return k, nil
}

// line takes a line in, if it is about the name. A damaged one is passed over, as OpenSSH does, unless it might be about the name.
func (k *known) line(line []byte, name, where string) error {
	fields := bytes.Fields(line)
	if len(fields) == 0 || fields[0][0] == '#' {
		return nil
	}
	marker := ""
	if fields[0][0] == '@' {
		marker, fields = string(fields[0]), fields[1:]
	}
	concerned := len(fields) > 0 && concerns(string(fields[0]), name)
	if !concerned && marker != "@revoked" {
		return nil
	}
	_, _, key, _, _, err := ssh.ParseKnownHosts(line)
	switch {
	case err != nil && len(fields) > 2 && unheardOf(string(fields[1])):
		return nil // of a kind that neither side can offer
	case err != nil:
		return fmt.Errorf("%s: %w", where, err)
	}
	found := knownKey{key, where}
	switch marker {
	case "":
		k.keys = append(k.keys, found)
	case "@cert-authority":
		k.authorities = append(k.authorities, found)
	case "@revoked":
		k.revoked = append(k.revoked, found)
	default:
		return fmt.Errorf("%s: the marker %s is not known", where, marker)
	}
	return nil
}

func unheardOf(kind string) bool {
	for _, algorithm := range append(preferred, certified...) {
		if kind == algorithm {
			return false
		}
	}
	return kind != ssh.KeyAlgoRSA
}

// concerns decides whether a line's names hold this one: hashed, or a list of patterns.
func concerns(names, name string) bool {
	if !strings.HasPrefix(names, "|1|") {
		return matchesAny(strings.Split(strings.ToLower(names), ","), name)
	}
	salt, sum, _ := strings.Cut(names[len("|1|"):], "|")
	rawSalt, err := base64.StdEncoding.DecodeString(salt)
	rawSum, err2 := base64.StdEncoding.DecodeString(sum)
	if err != nil || err2 != nil {
		return false
	}
	mac := hmac.New(sha1.New, rawSalt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), rawSum)
}

// readRevoked adds the keys of RevokedHostKeys, one a line.
func (k *known) readRevoked(files []string) error {
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err // OpenSSH, too, then trusts no host
		}
		if bytes.HasPrefix(raw, []byte("SSHKRL\n")) {
			return fmt.Errorf("%s is a key revocation list in OpenSSH's binary form, which is not supported: give a list of public keys", file)
		}
		for number, line := range bytes.Split(raw, []byte("\n")) {
			line = bytes.TrimSpace(line)
			if len(line) == 0 || line[0] == '#' {
				continue
			}
			where := fmt.Sprintf("%s:%d", file, number+1)
			key, _, _, _, err := ssh.ParseAuthorizedKey(line)
			if err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			k.revoked = append(k.revoked, knownKey{key, where})
		}
	}
	return nil
}
