package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
)

const bootstrapper = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"

var bootstrapperGroups = []string{"system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator", "system:authenticated"}

func ecdsaKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

func nodeTemplate(name string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: NodeUserPrefix + name, Organization: []string{nodesGroup}}}
}

func encode(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
}

func digest(t testing.TB, request []byte) string {
	t.Helper()
	parsed, err := Parse(request)
	require.NoError(t, err)
	return PublicKeySHA256(parsed)
}

func clientSpec(request []byte) certificatesv1.CertificateSigningRequestSpec {
	return certificatesv1.CertificateSigningRequestSpec{
		Request: request, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		Username: bootstrapper, Groups: bootstrapperGroups,
	}
}

func TestClientRequestIsRefusedForAnyOneThingThatIsWrong(t *testing.T) {
	key := ecdsaKey(t, elliptic.P256())
	good := encode(t, nodeTemplate("w1"), key)
	want := Client{NodeName: "w1", PublicKeySHA256: digest(t, good), Requesters: RequesterNamed(bootstrapper)}
	with := func(change func(*x509.CertificateRequest)) []byte {
		template := nodeTemplate("w1")
		change(template)
		return encode(t, template, key)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil { // GODEBUG rsa1024min
		t.Setenv("GODEBUG", "rsa1024min=0")
		weak, err = rsa.GenerateKey(rand.Reader, 1024)
	}
	require.NoError(t, err)
	seconds := func(n int32) *int32 { return &n }
	type spec = certificatesv1.CertificateSigningRequestSpec

	tests := map[string]struct {
		change func(*spec)
		rule   Rule
	}{
		"the genuine request":                             {func(*spec) {}, RuleAll},
		"with key encipherment, as RSA keys and old ones": {func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageKeyEncipherment) }, RuleAll},
		"groups in another order": {func(s *spec) {
			s.Groups = []string{bootstrapperGroups[2], bootstrapperGroups[0], bootstrapperGroups[1]}
		}, RuleAll},
		"an hour of validity":                 {func(s *spec) { s.ExpirationSeconds = seconds(3600) }, RuleAll},
		"another signer":                      {func(s *spec) { s.SignerName = certificatesv1.KubeAPIServerClientSignerName }, RuleSigner},
		"the serving signer":                  {func(s *spec) { s.SignerName = certificatesv1.KubeletServingSignerName }, RuleSigner},
		"another requester":                   {func(s *spec) { s.Username = bootstrapper + "-not" }, RuleRequester},
		"no requester":                        {func(s *spec) { s.Username = "" }, RuleRequester},
		"the node itself, which is a renewal": {func(s *spec) { s.Username = "system:node:w1" }, RuleRequester},
		"one group more":                      {func(s *spec) { s.Groups = append([]string{"x"}, s.Groups...) }, RuleGroups},
		"one group less":                      {func(s *spec) { s.Groups = s.Groups[1:] }, RuleGroups},
		"a group twice":                       {func(s *spec) { s.Groups = append(s.Groups, "system:authenticated") }, RuleGroups},
		"one usage more":                      {func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageServerAuth) }, RuleUsages},
		"one usage less":                      {func(s *spec) { s.Usages = s.Usages[1:] }, RuleUsages},
		"a usage twice":                       {func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageClientAuth) }, RuleUsages},
		"ten years of validity":               {func(s *spec) { s.ExpirationSeconds = seconds(10 * 366 * 24 * 3600) }, RuleExpiration},
		"a second of validity":                {func(s *spec) { s.ExpirationSeconds = seconds(1) }, RuleExpiration},
		"no request":                          {func(s *spec) { s.Request = nil }, RuleEncoding},
		"garbage":                             {func(s *spec) { s.Request = []byte("-----BEGIN??\n") }, RuleEncoding},
		"text before the block":               {func(s *spec) { s.Request = append([]byte("x\n"), good...) }, RuleEncoding},
		"text after the block":                {func(s *spec) { s.Request = append(good[:len(good):len(good)], 'x') }, RuleEncoding},
		"two blocks":                          {func(s *spec) { s.Request = append(good[:len(good):len(good)], good...) }, RuleEncoding},
		"another PEM type":                    {func(s *spec) { s.Request = []byte(strings.ReplaceAll(string(good), pemType, "NEW "+pemType)) }, RuleEncoding},
		"a huge request":                      {func(s *spec) { s.Request = append(good[:len(good):len(good)], make([]byte, maxRequest)...) }, RuleEncoding},
		"a changed byte, so that the signature is none": {func(s *spec) { s.Request = flip(t, good) }, RuleSignature},
		"a weak RSA key":       {func(s *spec) { s.Request = encode(t, nodeTemplate("w1"), weak) }, RuleKeyType},
		"a key on P-224":       {func(s *spec) { s.Request = encode(t, nodeTemplate("w1"), ecdsaKey(t, elliptic.P224())) }, RuleKeyType},
		"another node's name":  {func(s *spec) { s.Request = encode(t, nodeTemplate("w10"), key) }, RuleCommonName},
		"the name in capitals": {func(s *spec) { s.Request = encode(t, nodeTemplate("W1"), key) }, RuleCommonName},
		"no organisation":      {func(s *spec) { s.Request = with(func(c *x509.CertificateRequest) { c.Subject.Organization = nil }) }, RuleOrganization},
		"another organisation beside": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) { c.Subject.Organization = []string{nodesGroup, "system:masters"} })
		}, RuleOrganization},
		"the organisation twice": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) { c.Subject.Organization = []string{nodesGroup, nodesGroup} })
		}, RuleOrganization},
		"an organisational unit": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) { c.Subject.OrganizationalUnit = []string{"x"} })
		}, RuleSubject},
		"a second common name": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) {
				c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:w0"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:w1"}}
			})
		}, RuleSubject},
		"a DNS name": {func(s *spec) { s.Request = with(func(c *x509.CertificateRequest) { c.DNSNames = []string{"w1"} }) }, RuleSANTypes},
		"an address": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} })
		}, RuleSANTypes},
		"a URI": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} })
		}, RuleSANTypes},
		"an e-mail address": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) { c.EmailAddresses = []string{"a@b"} })
		}, RuleSANTypes},
		"basic constraints of an authority": {func(s *spec) {
			s.Request = with(func(c *x509.CertificateRequest) {
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
			})
		}, RuleExtensions},
		"the same request with another key": {func(s *spec) { s.Request = encode(t, nodeTemplate("w1"), ecdsaKey(t, elliptic.P256())) }, RulePublicKey},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := clientSpec(good)
			test.change(&spec)
			decision := DecideClient(spec, want)
			assert.Equal(t, test.rule, decision.Rule, decision.Why)
			assert.Equal(t, test.rule == RuleAll, decision.Approve)
			assert.NotEmpty(t, decision.Why)
		})
	}
}

// flip changes the last byte of the public key's neighbourhood so that the request still parses.
func flip(t *testing.T, request []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	changed := append([]byte(nil), block.Bytes...)
	changed[strings.Index(string(changed), "system:node:w1")+len("system:node:w")] = '2'
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: changed})
}

func TestKeyTypesThatAreStrongEnough(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, key := range map[string]crypto.Signer{
		"P-256": ecdsaKey(t, elliptic.P256()), "P-384": ecdsaKey(t, elliptic.P384()), "P-521": ecdsaKey(t, elliptic.P521()), "RSA 2048": rsaKey, "Ed25519": edKey,
	} {
		t.Run(name, func(t *testing.T) {
			request := encode(t, nodeTemplate("w1"), key)
			decision := DecideClient(clientSpec(request), Client{NodeName: "w1", PublicKeySHA256: strings.ToUpper(digest(t, request)), Requesters: RequesterNamed(bootstrapper)})
			assert.True(t, decision.Approve, decision.Why)
		})
	}
}

func TestNothingIsApprovedWithoutAnExpectation(t *testing.T) {
	request := encode(t, nodeTemplate(""), ecdsaKey(t, elliptic.P256()))
	spec := clientSpec(request)
	assert.False(t, DecideClient(spec, Client{}).Approve)
	assert.False(t, DecideClient(spec, Client{Requesters: RequesterNamed(bootstrapper), PublicKeySHA256: digest(t, request)}).Approve, "no node name")
	named := clientSpec(encode(t, nodeTemplate("w1"), ecdsaKey(t, elliptic.P256())))
	assert.Equal(t, RulePublicKey, DecideClient(named, Client{NodeName: "w1", Requesters: RequesterNamed(bootstrapper)}).Rule, "no key")
	assert.False(t, DecideServing(certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName}, Serving{}).Approve)
}

func TestServingRequestIsRefusedForAnyOneThingThatIsWrong(t *testing.T) {
	key := ecdsaKey(t, elliptic.P256())
	want := Serving{NodeName: "w1", Addresses: []string{"10.0.0.1", "fe80::1%eth0"}, DNSNames: []string{"w1.example.com."}}
	type request = x509.CertificateRequest
	type spec = certificatesv1.CertificateSigningRequestSpec
	nothing := func(*spec) {}
	tests := map[string]struct {
		request func(*request)
		spec    func(*spec)
		rule    Rule
	}{
		"name and address":               {func(r *request) { r.DNSNames = []string{"w1"}; r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }, nothing, RuleAll},
		"an address alone":               {func(r *request) { r.IPAddresses = []net.IP{net.ParseIP("10.0.0.1").To4()} }, nothing, RuleAll},
		"a name with other case and dot": {func(r *request) { r.DNSNames = []string{"W1.Example.com"} }, nothing, RuleAll},
		"no name at all":                 {func(*request) {}, nothing, RuleSANTypes},
		"a name that begins like it":     {func(r *request) { r.DNSNames = []string{"w10"} }, nothing, RuleDNSNames},
		"a wildcard":                     {func(r *request) { r.DNSNames = []string{"*.example.com"} }, nothing, RuleDNSNames},
		"another machine's address beside": {func(r *request) {
			r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 2)}
		}, nothing, RuleAddresses},
		"a URI beside": {func(r *request) { r.DNSNames = []string{"w1"}; r.URIs = []*url.URL{{Scheme: "https", Host: "x"}} }, nothing, RuleSANTypes},
		"an e-mail address beside": {func(r *request) {
			r.DNSNames = []string{"w1"}
			r.EmailAddresses = []string{"a@b"}
		}, nothing, RuleSANTypes},
		"a name of a kind that Go does not read": {func(r *request) {
			r.ExtraExtensions = []pkix.Extension{{Id: oidSubjectAltName, Value: sanOf(t, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("w1")}, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{42, 3}})}}
		}, nothing, RuleSANTypes},
		"another extension": {func(r *request) {
			r.DNSNames = []string{"w1"}
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Value: []byte{0x30, 0}}}
		}, nothing, RuleExtensions},
		"another node asks":         {func(r *request) { r.DNSNames = []string{"w1"} }, func(s *spec) { s.Username = "system:node:w2" }, RuleRequester},
		"the bootstrapper asks":     {func(r *request) { r.DNSNames = []string{"w1"} }, func(s *spec) { s.Username = bootstrapper; s.Groups = bootstrapperGroups }, RuleRequester},
		"a node with another group": {func(r *request) { r.DNSNames = []string{"w1"} }, func(s *spec) { s.Groups = append(s.Groups, "system:masters") }, RuleGroups},
		"client auth beside":        {func(r *request) { r.DNSNames = []string{"w1"} }, func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageClientAuth) }, RuleUsages},
		"the client signer": {func(r *request) { r.DNSNames = []string{"w1"} }, func(s *spec) {
			s.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		}, RuleSigner},
		"another node's common name": {func(r *request) { r.DNSNames = []string{"w1"}; r.Subject.CommonName = "system:node:w2" }, nothing, RuleCommonName},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			template := nodeTemplate("w1")
			test.request(template)
			node := NodeRequester("w1")
			spec := certificatesv1.CertificateSigningRequestSpec{
				Request: encode(t, template, key), SignerName: certificatesv1.KubeletServingSignerName, Username: node.Username, Groups: node.Groups,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			}
			test.spec(&spec)
			decision := DecideServing(spec, want)
			assert.Equal(t, test.rule, decision.Rule, decision.Why)
			assert.Equal(t, test.rule == RuleAll, decision.Approve)
		})
	}
}

func sanOf(t *testing.T, names ...asn1.RawValue) []byte {
	t.Helper()
	value, err := asn1.Marshal(names)
	require.NoError(t, err)
	return value
}

func TestRequesterNamedKnowsOnlyWhatTheAPIServerAuthenticates(t *testing.T) {
	for _, name := range []string{"", "admin", "system:serviceaccount:x", "system:serviceaccount::x", "system:serviceaccount:a:b:c", "system:bootstrap:", "system:node:", "system:masters"} {
		assert.Empty(t, RequesterNamed(name), name)
	}
	assert.Len(t, RequesterNamed("system:bootstrap:abcdef"), 2)
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, nodeTemplate("w1"), ecdsaKey(f, elliptic.P256())))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		client := DecideClient(clientSpec(request), Client{NodeName: "w1", PublicKeySHA256: strings.Repeat("0", 64), Requesters: RequesterNamed(bootstrapper)})
		require.False(t, client.Approve, "no key has that digest")
		node := NodeRequester("w1")
		spec := clientSpec(request)
		spec.SignerName, spec.Username, spec.Groups = certificatesv1.KubeletServingSignerName, node.Username, node.Groups
		spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
		if serving := DecideServing(spec, Serving{NodeName: "w1", Addresses: []string{"10.0.0.1"}}); serving.Approve {
			parsed, err := Parse(request)
			require.NoError(t, err)
			require.Equal(t, "system:node:w1", parsed.Subject.CommonName)
			require.NotEmpty(t, append(parsed.DNSNames, make([]string, len(parsed.IPAddresses))...))
		}
	})
}
