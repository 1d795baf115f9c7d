package csrapprove

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/identity"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/testcluster"
)

const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// request makes a PEM and the digest of its key.
func request(t *testing.T, node string, key crypto.Signer, dns []string, ips ...net.IP) ([]byte, string) {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: identity.NodeUserPrefix + node, Organization: []string{"system:nodes"}}, DNSNames: dns, IPAddresses: ips,
	}, key)
	require.NoError(t, err)
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	parsed, err := identity.Parse(content)
	require.NoError(t, err)
	return content, identity.PublicKeySHA256(parsed)
}

func body(t *testing.T, name, signer string, content []byte, usage certificatesv1.KeyUsage) []byte {
	t.Helper()
	csr := map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"request": content, "signerName": signer, "usages": []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage}},
	}
	encoded, err := json.Marshal(csr)
	require.NoError(t, err)
	return encoded
}

func submitClient(t *testing.T, c *testcluster.Cluster, name string, content []byte) {
	t.Helper()
	c.Request(t, testcluster.BootstrapToken, http.MethodPost, csrs, "application/json", body(t, name, certificatesv1.KubeAPIServerClientKubeletSignerName, content, certificatesv1.UsageClientAuth))
}

func submitServing(t *testing.T, c *testcluster.Cluster, node, name string, content []byte) {
	t.Helper()
	c.AsNode(t, node, http.MethodPost, csrs, body(t, name, certificatesv1.KubeletServingSignerName, content, certificatesv1.UsageServerAuth))
}

func conditions(t *testing.T, c *testcluster.Cluster, name string) []certificatesv1.RequestConditionType {
	t.Helper()
	var csr certificatesv1.CertificateSigningRequest
	c.Get(t, csrs+"/"+name, &csr)
	var types []certificatesv1.RequestConditionType
	for _, condition := range csr.Status.Conditions {
		types = append(types, condition.Type)
	}
	return types
}

type outcome struct {
	Result
	Changed, Failed     bool
	Msg, Reason, Object string
}

// run runs the module as Ansible does.
func run(t *testing.T, arguments map[string]any) outcome {
	t.Helper()
	content, err := json.Marshal(arguments)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "arguments")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	var stdout, stderr bytes.Buffer
	ansible.Run(t.Context(), Module, []string{file}, &stdout, &stderr)
	var result outcome
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &result), stdout.String())
	return result
}

func clientArguments(kubeconfig, node, csr, digest string, more ...map[string]any) map[string]any {
	arguments := map[string]any{"kubeconfig": kubeconfig, "node_name": node, "timeout": 60, "client": map[string]any{
		"csr": csr, "public_key_sha256": digest, "requesters": []string{testcluster.Bootstrapper}}}
	for _, m := range more {
		for name, value := range m {
			arguments[name] = value
		}
	}
	return arguments
}

func TestAgainstARealAPIServer(t *testing.T) {
	c := testcluster.Start(t)
	admin := c.Kubeconfig(t, testcluster.AdminToken)

	t.Run("approves the request with the reported key and no other in its name, and the signer issues the certificate", func(t *testing.T) {
		genuine, digest := request(t, "w1", newKey(t), nil)
		forged, _ := request(t, "w1", newKey(t), nil)
		other, _ := request(t, "w10", newKey(t), nil)
		submitClient(t, c, "forged", forged)
		submitClient(t, c, "other", other)
		submitClient(t, c, "genuine", genuine)
		result := run(t, clientArguments(admin, "w1", "genuine", digest))
		assert.False(t, result.Failed, result.Msg)
		assert.True(t, result.Changed)
		assert.Equal(t, []Approved{{Name: "genuine", Signer: certificatesv1.KubeAPIServerClientKubeletSignerName}}, result.Approved)
		require.Len(t, result.Refused, 1)
		assert.Equal(t, "forged", result.Refused[0].Name)
		assert.Equal(t, identity.RulePublicKey, result.Refused[0].Rule)
		assert.Equal(t, 2, result.Seen)
		assert.Empty(t, conditions(t, c, "forged"))
		assert.Empty(t, conditions(t, c, "other"))
		require.Eventually(t, func() bool {
			var csr certificatesv1.CertificateSigningRequest
			c.Get(t, csrs+"/genuine", &csr)
			return len(csr.Status.Certificate) > 0
		}, time.Minute, 50*time.Millisecond)

		again := run(t, clientArguments(admin, "w1", "genuine", digest))
		assert.False(t, again.Changed)
		assert.Equal(t, "genuine", again.Already[0].Name, "an approved request is no error")
	})

	t.Run("waits for a request that comes later", func(t *testing.T) {
		content, digest := request(t, "later", newKey(t), nil)
		time.AfterFunc(time.Second, func() { submitClient(t, c, "later", content) })
		result := run(t, clientArguments(admin, "later", "later", digest))
		assert.False(t, result.Failed, result.Msg)
		assert.True(t, result.Changed)
	})

	t.Run("twenty hosts at once, each with its own process, among forged requests", func(t *testing.T) {
		var group sync.WaitGroup
		for i := range 20 {
			node := fmt.Sprintf("host%d", i)
			content, digest := request(t, node, newKey(t), nil)
			forged, _ := request(t, node, newKey(t), nil)
			submitClient(t, c, node+"-forged", forged)
			group.Go(func() {
				result := run(t, clientArguments(admin, node, node+"-genuine", digest))
				assert.False(t, result.Failed, result.Msg)
				assert.Len(t, result.Approved, 1)
			})
			submitClient(t, c, node+"-genuine", content)
		}
		group.Wait()
		for i := range 20 {
			assert.Empty(t, conditions(t, c, fmt.Sprintf("host%d-forged", i)))
		}
	})

	t.Run("fails at once when the reported request breaks a rule", func(t *testing.T) {
		content, _ := request(t, "bad", newKey(t), nil)
		_, digest := request(t, "bad", newKey(t), nil)
		submitClient(t, c, "bad", content)
		result := run(t, clientArguments(admin, "bad", "bad", digest))
		assert.Equal(t, "csr_refused", result.Reason)
		assert.Contains(t, result.Msg, "public_key")
		assert.Empty(t, conditions(t, c, "bad"))
	})

	t.Run("says after the time limit that only others' requests came", func(t *testing.T) {
		content, _ := request(t, "missing", newKey(t), nil)
		_, digest := request(t, "missing", newKey(t), nil)
		submitClient(t, c, "missing-forged", content)
		result := run(t, clientArguments(admin, "missing", "missing", digest, map[string]any{"timeout": 1}))
		assert.Equal(t, "csr_missing", result.Reason)
		assert.Contains(t, result.Msg, "missing-forged breaks the rule public_key")
		require.Len(t, result.Refused, 1)
	})

	t.Run("a denied request is an error with the words of who denied it", func(t *testing.T) {
		content, digest := request(t, "denied", newKey(t), nil)
		submitClient(t, c, "denied", content)
		var csr certificatesv1.CertificateSigningRequest
		c.Get(t, csrs+"/denied", &csr)
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: "True", Reason: "Policy", Message: "not on my watch"}}
		encoded, err := json.Marshal(csr)
		require.NoError(t, err)
		c.Request(t, testcluster.AdminToken, http.MethodPut, csrs+"/denied/approval", "application/json", encoded)
		result := run(t, clientArguments(admin, "denied", "denied", digest))
		assert.Equal(t, "csr_refused", result.Reason)
		assert.Contains(t, result.Msg, "not on my watch")
	})

	t.Run("check mode says what it would approve and changes nothing", func(t *testing.T) {
		content, digest := request(t, "check", newKey(t), nil)
		check := map[string]any{"_ansible_check_mode": true}
		result := run(t, clientArguments(admin, "check", "check", digest, check))
		assert.False(t, result.Failed, result.Msg)
		assert.Contains(t, result.Msg, "would be waited for")
		submitClient(t, c, "check", content)
		result = run(t, clientArguments(admin, "check", "check", digest, check))
		assert.True(t, result.Changed)
		assert.Contains(t, result.Msg, "would approve check")
		assert.Empty(t, conditions(t, c, "check"))
	})

	t.Run("an account without the right is told which", func(t *testing.T) {
		_, digest := request(t, "w1", newKey(t), nil)
		result := run(t, clientArguments(c.Kubeconfig(t, testcluster.NobodyToken), "w1", "x", digest))
		assert.Equal(t, "api_forbidden", result.Reason)
		assert.Contains(t, result.Msg, "the verb list on certificatesigningrequests.certificates.k8s.io")
	})

	t.Run("a wrong token is told as such", func(t *testing.T) {
		_, digest := request(t, "w1", newKey(t), nil)
		result := run(t, clientArguments(c.Kubeconfig(t, "wrong"), "w1", "x", digest))
		assert.Equal(t, "api_forbidden", result.Reason)
		assert.Contains(t, result.Msg, "401")
	})

	t.Run("serving", func(t *testing.T) { serving(t, c, admin) })

	t.Run("goes on when the API server was away while it waited", func(t *testing.T) {
		content, digest := request(t, "away", newKey(t), nil)
		done := make(chan outcome)
		go func() { done <- run(t, clientArguments(admin, "away", "away", digest)) }()
		time.Sleep(500 * time.Millisecond) // it watches by now; if not, it lists later
		c.StopAPIServer()
		c.StartAPIServer(t)
		submitClient(t, c, "away", content)
		result := <-done
		assert.False(t, result.Failed, result.Msg)
		assert.Len(t, result.Approved, 1)
	})
}

func serving(t *testing.T, c *testcluster.Cluster, admin string) {
	arguments := func(node string, more map[string]any) map[string]any {
		s := map[string]any{"addresses": []string{"10.0.0.5"}, "dns_names": []string{node}}
		for name, value := range more {
			s[name] = value
		}
		return map[string]any{"kubeconfig": admin, "node_name": node, "timeout": 3, "serving": s}
	}
	ip := net.IPv4(10, 0, 0, 5)

	t.Run("approves what names only the machine's own names and addresses", func(t *testing.T) {
		content, _ := request(t, "s1", newKey(t), []string{"s1"}, ip)
		submitServing(t, c, "s1", "s1-serving", content)
		wrong, _ := request(t, "s1", newKey(t), []string{"s1", "s2"}, ip)
		submitServing(t, c, "s1", "s1-wrong", wrong)
		stranger, _ := request(t, "s1", newKey(t), []string{"s1"}, ip)
		c.Request(t, testcluster.BootstrapToken, http.MethodPost, csrs, "application/json",
			body(t, "s1-by-bootstrapper", certificatesv1.KubeletServingSignerName, stranger, certificatesv1.UsageServerAuth))
		result := run(t, arguments("s1", nil))
		require.False(t, result.Failed, result.Msg)
		assert.Equal(t, "s1-serving", result.Approved[0].Name)
		rules := map[string]identity.Rule{}
		for _, r := range result.Refused {
			rules[r.Name] = r.Rule
		}
		assert.Equal(t, map[string]identity.Rule{"s1-wrong": identity.RuleDNSNames, "s1-by-bootstrapper": identity.RuleRequester}, rules)
		assert.Empty(t, conditions(t, c, "s1-wrong"))
	})

	t.Run("a request of the node's former life does not count as this run's", func(t *testing.T) {
		content, _ := request(t, "s3", newKey(t), []string{"s3"}, ip)
		submitServing(t, c, "s3", "s3-old", content)
		require.False(t, run(t, arguments("s3", nil)).Failed)
		assert.Equal(t, "s3-old", run(t, arguments("s3", nil)).Already[0].Name)
		since := map[string]any{"since": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
		assert.Equal(t, "csr_missing", run(t, arguments("s3", since)).Reason)
	})

	t.Run("an address that nobody reported is refused, and the message says which", func(t *testing.T) {
		content, _ := request(t, "s4", newKey(t), []string{"s4"}, net.IPv4(10, 0, 0, 6))
		submitServing(t, c, "s4", "s4-serving", content)
		result := run(t, arguments("s4", nil))
		assert.Equal(t, "csr_refused", result.Reason)
		assert.Contains(t, result.Msg, "10.0.0.6")
	})
}

func TestArgumentsAreCheckedBeforeTheClusterIsAsked(t *testing.T) {
	digest := fmt.Sprintf("%064d", 0)
	tests := map[string]struct {
		arguments map[string]any
		problem   string
	}{
		"neither client nor serving": {map[string]any{"node_name": "w1"}, "exactly one of them"},
		"no digest":                  {map[string]any{"node_name": "w1", "client": map[string]any{"requesters": "a"}}, "client.public_key_sha256: it is missing"},
		"a digest that is none":      {map[string]any{"node_name": "w1", "client": map[string]any{"requesters": "a", "public_key_sha256": "zz"}}, "64 hexadecimal digits"},
		"a requester that is nobody": {map[string]any{"node_name": "w1", "client": map[string]any{"requesters": "admin", "public_key_sha256": digest}}, `"admin" is no service account`},
		"a time that is none":        {map[string]any{"node_name": "w1", "serving": map[string]any{"since": "yesterday"}}, "serving.since"},
		"no time":                    {map[string]any{"node_name": "w1", "timeout": 0, "serving": map[string]any{}}, "timeout=0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := run(t, test.arguments)
			assert.Equal(t, string(reason.ArgumentInvalid), result.Reason)
			assert.Contains(t, result.Msg, test.problem)
		})
	}
}

func TestAnUnreachableServerIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "x", "user": {}}]}`), 0o600))
	result := run(t, clientArguments(file, "w1", "x", fmt.Sprintf("%064d", 0), map[string]any{"timeout": 2}))
	assert.Equal(t, "api_unreachable", result.Reason)
	assert.Contains(t, result.Msg, "https://127.0.0.1:1")
}

// busy is an API server where somebody else writes to the request between the reading and the approval.
type busy struct {
	api
	current   *certificatesv1.CertificateSigningRequest
	conflicts int
	approvals []string
}

func (b *busy) CSR(context.Context, string) (*certificatesv1.CertificateSigningRequest, error) {
	return b.current, nil
}

func (b *busy) ApproveCSR(_ context.Context, csr *certificatesv1.CertificateSigningRequest, _, _ string) error {
	if b.conflicts > 0 {
		b.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "certificatesigningrequests"}, csr.Name, nil)
	}
	b.approvals = append(b.approvals, string(csr.UID))
	return nil
}

func TestAConflictIsTriedAgainButNeverWithAnotherRequestOfTheSameName(t *testing.T) {
	content, digest := request(t, "w1", newKey(t), nil)
	csr := &certificatesv1.CertificateSigningRequest{}
	csr.Name, csr.UID = "x", "first"
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: content, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: testcluster.Bootstrapper,
		Groups: identity.RequesterNamed(testcluster.Bootstrapper)[0].Groups,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}
	args := &Args{NodeName: "w1", Client: &Client{CSR: "x", PublicKeySHA256: digest, Requesters: []string{testcluster.Bootstrapper}}}

	server := &busy{current: csr, conflicts: 2}
	approver := newApprover(server, &ansible.Env{}, args)
	require.NoError(t, approver.consider(t.Context(), csr))
	assert.Equal(t, []string{"first"}, server.approvals)

	replaced := csr.DeepCopy()
	replaced.UID = "second"
	server = &busy{current: replaced, conflicts: 1}
	approver = newApprover(server, &ansible.Env{}, args)
	require.NoError(t, approver.consider(t.Context(), csr))
	assert.Empty(t, server.approvals, "the new one is decided on by itself when it is seen")
	assert.False(t, approver.done())

	meanwhile := csr.DeepCopy()
	meanwhile.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
	server = &busy{current: meanwhile, conflicts: 1}
	approver = newApprover(server, &ansible.Env{}, args)
	require.NoError(t, approver.consider(t.Context(), csr))
	assert.Equal(t, "x", approver.result.Already[0].Name)
}
