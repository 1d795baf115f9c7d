package identity

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// upstreamCase is one case of OpenShift's cluster-machine-approver or of Kubernetes' signer, restated as input and decision.
type upstreamCase struct {
	Name, Expect, Signer, Username, Key string
	Groups, O, DNS, Emails, URIs        []string
	Usages                              []certificatesv1.KeyUsage
	CN                                  *string
	IPs                                 []string
	RequestRaw                          string `json:"request_raw"`
	Context                             struct {
		Machine struct {
			Addresses [][2]string
		}
	}
}

// differences are the cases in which our rules mean to decide otherwise, and why.
var differences = map[string]struct {
	approve bool
	why     string
}{
	"extra-group":                             {false, "groups are exact: a node's certificate gives exactly two"},
	"client node already exists":              {true, "the key proves the machine; a machine that joins again has a node already"},
	"client only ExternalDNS machine":         {true, "there is no Machine: the inventory and the key stand in its place"},
	"client machine already has nodeRef":      {true, "there is no Machine"},
	"client flow disabled":                    {true, "that operator's own switch"},
	"client timing: csr 1 min before machine": {true, "there is no Machine to compare times with; the key is fresh or reported"},
	"client timing: csr 25 h after machine":   {true, "there is no Machine to compare times with"},
	"renewal same SANs, no machine":           {false, "the kubelet's present certificate is no source; only reported names and addresses are"},
	"egress: extra IP in egress IPs":          {false, "egress addresses are moved by the network plugin and not reported by the machine"},
	"egress: extra IP in egress CIDR":         {false, "egress addresses are moved by the network plugin and not reported by the machine"},
}

func upstreamCases(t *testing.T, file string) []upstreamCase {
	t.Helper()
	root := os.Getenv("WSU_SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	content, err := os.ReadFile(filepath.Join(root, "csr", file))
	if err != nil {
		t.Skipf("SKIPPED: the CSR cases are not here (set WSU_SHARED_DATA): %v", err)
	}
	var document struct{ Cases []upstreamCase }
	require.NoError(t, json.Unmarshal(content, &document))
	return document.Cases
}

func (c upstreamCase) request(t *testing.T) []byte {
	t.Helper()
	if c.RequestRaw != "" || c.CN == nil {
		return []byte(c.RequestRaw)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: *c.CN, Organization: c.O}, DNSNames: c.DNS, EmailAddresses: c.Emails}
	for _, ip := range c.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	for _, text := range c.URIs {
		uri, err := url.Parse(text)
		require.NoError(t, err)
		template.URIs = append(template.URIs, uri)
	}
	var key crypto.Signer = ecdsaKey(t, elliptic.P256())
	if c.Key == "rsa-2048" {
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		key = rsaKey
	}
	return encode(t, template, key)
}

func TestCasesOfTheClusterMachineApprover(t *testing.T) {
	cases := upstreamCases(t, "cluster-machine-approver.json")
	require.Len(t, cases, 52)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			want, why := c.Expect == "approve", "as upstream decides"
			if difference, ok := differences[c.Name]; ok {
				require.NotEqual(t, want, difference.approve, "a difference that is none")
				want, why = difference.approve, difference.why
			}
			decision := c.decide(t, c.request(t))
			assert.Equal(t, want, decision.Approve, "%s: %s (%s)", decision.Rule, decision.Why, why)
		})
	}
}

func (c upstreamCase) decide(t *testing.T, request []byte) Decision {
	t.Helper()
	spec := certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: c.Signer, Username: c.Username, Groups: c.Groups, Usages: c.Usages}
	if c.Signer == certificatesv1.KubeletServingSignerName {
		serving := Serving{NodeName: "test"}
		for _, address := range c.Context.Machine.Addresses {
			if strings.HasSuffix(address[0], "DNS") {
				serving.DNSNames = append(serving.DNSNames, address[1])
			} else {
				serving.Addresses = append(serving.Addresses, address[1])
			}
		}
		return DecideServing(spec, serving)
	}
	// The key is the reported one in every case, so that each case stands or falls with what it is about.
	name, _ := strings.CutPrefix(*c.CN, NodeUserPrefix)
	return DecideClient(spec, Client{NodeName: name, PublicKeySHA256: digest(t, request), Requesters: RequesterNamed(bootstrapper)})
}

func TestCasesOfKubernetesSigner(t *testing.T) {
	cases := upstreamCases(t, "kubernetes-signer-shape.json")
	require.Len(t, cases, 19)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			request := c.request(t)
			spec := clientSpec(request)
			spec.Usages = c.Usages
			if strings.HasPrefix(c.Name, "client") {
				decision := DecideClient(spec, Client{NodeName: "x", PublicKeySHA256: digest(t, request), Requesters: RequesterNamed(bootstrapper)})
				assert.Equal(t, c.Expect == "recognised-client", decision.Approve, "%s: %s", decision.Rule, decision.Why)
				return
			}
			node := NodeRequester("x")
			spec.SignerName, spec.Username, spec.Groups = certificatesv1.KubeletServingSignerName, node.Username, node.Groups
			decision := DecideServing(spec, Serving{NodeName: "x", Addresses: []string{"10.0.0.1"}})
			assert.Equal(t, c.Expect == "recognised-serving", decision.Approve, "%s: %s", decision.Rule, decision.Why)
		})
	}
}
