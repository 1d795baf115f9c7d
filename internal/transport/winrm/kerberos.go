package winrm

import (
	"context"
	"crypto/md5" //nolint:gosec // RFC 4121 wants it for channel bindings
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"wsu.windows/internal/reason"
)

// The flags of RFC 4121 4.1.1.1, and the option of RFC 4120 5.5.1.
const (
	flagMutual, flagReplay, flagSequence, flagConf, flagInteg = 2, 4, 8, 16, 32
	optionMutualRequired                                      = 2
)

var (
	oidKerberos = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}
	tokenAPReq  = []byte{1, 0}
	tokenAPRep  = []byte{2, 0}
	tokenError  = []byte{3, 0}
)

// tickets are what all channels to one host share: the user's tickets, and the one for this host's service.
type tickets struct {
	*settings
	mu     sync.Mutex
	client *client.Client
}

// service gives the ticket for the host.
func (t *tickets) service() (*client.Client, messages.Ticket, types.EncryptionKey, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		made, err := t.logIn()
		if err != nil {
			return nil, messages.Ticket{}, types.EncryptionKey{}, err
		}
		t.client = made
	}
	spn := t.config.Service
	if spn == "" {
		spn = "HTTP"
	}
	host := t.config.KerberosHostnameOverride
	if host == "" {
		host = t.endpoint.Hostname()
	}
	ticket, key, err := t.client.GetServiceTicket(spn + "/" + host)
	if err != nil {
		return nil, messages.Ticket{}, types.EncryptionKey{}, t.failed(fmt.Sprintf("there is no ticket for %s/%s: %s", spn, host, problemOf(err)),
			"Check ansible_winrm_kerberos_hostname_override and the service principal names of the machine (setspn -L).")
	}
	return t.client, ticket, key, nil
}

func (t *tickets) failed(problem, remedy string) error {
	return reason.New(reason.AuthFailed, t.object(), "Kerberos: "+problem, remedy)
}

// problemOf shortens gokrb5's errors, which tell their whole way.
func problemOf(err error) string {
	text := err.Error()
	if at := strings.LastIndex(text, "KRB Error: "); at >= 0 {
		text = text[at+len("KRB Error: "):]
	}
	return clean(text)
}

func (t *tickets) logIn() (*client.Client, error) {
	path := os.Getenv("KRB5_CONFIG")
	if path == "" {
		path = "/etc/krb5.conf"
	}
	settings, err := config.Load(path)
	if err != nil {
		return nil, t.failed(fmt.Sprintf("%s cannot be used: %s", path, problemOf(err)), "Name the realm and its KDC there, or give another file in KRB5_CONFIG.")
	}
	if t.password == "" || t.config.KinitMode == "manual" {
		return t.fromCache(settings)
	}
	user, realm, found := strings.Cut(t.user, "@")
	if !found {
		realm = settings.LibDefaults.DefaultRealm
	}
	made := client.NewWithPassword(user, strings.ToUpper(realm), t.password, settings, client.DisablePAFXFAST(true))
	if err := made.Login(); err != nil {
		return nil, t.failed(fmt.Sprintf("%s cannot log in: %s", t.user, problemOf(err)), "Check ansible_user (user@REALM), the password, the clock, and the KDC in "+path+".")
	}
	return made, nil
}

func (t *tickets) fromCache(settings *config.Config) (*client.Client, error) {
	path := os.Getenv("KRB5CCNAME")
	kind, rest, found := strings.Cut(path, ":")
	switch {
	case path == "":
		path = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	case found && kind == "FILE":
		path = rest
	case found:
		return nil, t.failed(fmt.Sprintf("tickets of the kind %s cannot be read", kind), "Use a file: KRB5CCNAME=FILE:/path kinit user@REALM.")
	}
	cache, err := credentials.LoadCCache(path)
	if err != nil {
		return nil, t.failed("there is no password, and no ticket in "+path, "Run kinit, or set ansible_password.")
	}
	made, err := client.NewFromCCache(cache, settings, client.DisablePAFXFAST(true))
	if err != nil {
		return nil, t.failed(fmt.Sprintf("the tickets in %s cannot be used: %s", path, problemOf(err)), "Run kinit.")
	}
	return made, nil
}

// kerberosLogin is one security context (RFC 4121) with mutual authentication.
type kerberosLogin struct {
	*tickets
	bindings      []byte
	authenticator types.Authenticator
	sessionKey    types.EncryptionKey
	wrap          *gssWrap
}

func newKerberos(t *tickets, bindings []byte) *kerberosLogin {
	return &kerberosLogin{tickets: t, bindings: bindings}
}

func (k *kerberosLogin) scheme() string { return "Kerberos" }

func (k *kerberosLogin) sealer() sealer { return k.wrap }

func (k *kerberosLogin) step(_ context.Context, challenge []byte) ([]byte, error) {
	if challenge == nil {
		return k.request()
	}
	return nil, k.accept(challenge)
}

// request makes the first token: an AP-REQ.
func (k *kerberosLogin) request() ([]byte, error) {
	user, ticket, key, err := k.service()
	if err != nil {
		return nil, err
	}
	k.sessionKey = key
	if k.authenticator, err = types.NewAuthenticator(user.Credentials.Domain(), user.Credentials.CName()); err != nil {
		return nil, err
	}
	checksum := binary.LittleEndian.AppendUint32(nil, 16)
	checksum = append(checksum, bindingsSum(k.bindings)...)
	checksum = binary.LittleEndian.AppendUint32(checksum, flagMutual|flagReplay|flagSequence|flagConf|flagInteg)
	k.authenticator.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: checksum}
	request, err := messages.NewAPReq(ticket, key, k.authenticator)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&request.APOptions, optionMutualRequired)
	raw, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	oid, err := asn1.Marshal(oidKerberos)
	if err != nil {
		return nil, err
	}
	body := append(append(oid, tokenAPReq...), raw...)
	return asn1.Marshal(asn1.RawValue{Class: asn1.ClassApplication, Tag: 0, IsCompound: true, Bytes: body})
}

// bindingsSum is the MD5 of gss_channel_bindings (RFC 4121 4.1.1.2), zeros where there are none.
func bindingsSum(bindings []byte) []byte {
	if bindings == nil {
		return make([]byte, md5.Size)
	}
	data := make([]byte, 16) // no addresses
	data = binary.LittleEndian.AppendUint32(data, uint32(len(bindings)))
	sum := md5.Sum(append(data, bindings...)) //nolint:gosec // see the import
	return sum[:]
}

// accept checks the host's answer: only who could read our ticket knows the time in it.
func (k *kerberosLogin) accept(token []byte) error {
	var outer asn1.RawValue
	if rest, err := asn1.Unmarshal(token, &outer); err != nil || len(rest) > 0 || outer.Class != asn1.ClassApplication || outer.Tag != 0 {
		return k.failed("the host's answer is no token", "")
	}
	var oid asn1.ObjectIdentifier
	body, err := asn1.Unmarshal(outer.Bytes, &oid)
	if err != nil || !oid.Equal(oidKerberos) || len(body) < 2 {
		return k.failed("the host's answer is no Kerberos token", "")
	}
	switch kind := body[:2]; {
	case string(kind) == string(tokenError):
		var refused messages.KRBError
		if err := refused.Unmarshal(body[2:]); err != nil {
			return k.failed("the host refused the ticket", "")
		}
		return k.failed("the host refused the ticket: "+clean(refused.Error()), "Check the clocks of both machines.")
	case string(kind) != string(tokenAPRep):
		return k.failed("the host's answer is not what follows", "")
	}
	var answer messages.APRep
	if err := answer.Unmarshal(body[2:]); err != nil {
		return k.failed("the host's answer cannot be read: "+problemOf(err), "")
	}
	return k.acceptReply(answer)
}

func (k *kerberosLogin) acceptReply(answer messages.APRep) error {
	raw, err := crypto.DecryptEncPart(answer.EncPart, k.sessionKey, keyusage.AP_REP_ENCPART)
	if err != nil {
		return k.failed("the far end is not the host that the ticket is for", "")
	}
	var reply messages.EncAPRepPart
	if err := reply.Unmarshal(raw); err != nil {
		return k.failed("the host's answer cannot be read: "+problemOf(err), "")
	}
	if reply.CTime.Unix() != k.authenticator.CTime.Unix() || reply.Cusec != k.authenticator.Cusec {
		return k.failed("the host's answer belongs to another login", "")
	}
	key := k.sessionKey
	acceptorKey := len(reply.Subkey.KeyValue) > 0
	if acceptorKey {
		key = reply.Subkey
	}
	kind, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return k.failed("the host chose an encryption that is not known here", "")
	}
	if key.KeyType != aes128 && key.KeyType != aes256 && key.KeyType != aes128sha2 && key.KeyType != aes256sha2 {
		return k.failed(fmt.Sprintf("the ticket's encryption (type %d) is outdated", key.KeyType), "Enable AES for the machine's account (msDS-SupportedEncryptionTypes).")
	}
	k.wrap = &gssWrap{kind: kind, key: key.KeyValue, acceptorKey: acceptorKey, sent: uint64(k.authenticator.SeqNumber), received: uint64(reply.SequenceNumber)}
	return nil
}

var errSealUnknown = errors.New("the login is not through")
