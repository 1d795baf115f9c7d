package enroll

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/kubeapi"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/testcluster"
	"wsu.windows/internal/wmcb/apply"
)

const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// ignitionFor writes a worker Ignition whose bootstrap kubeconfig is this cluster's with this token.
func ignitionFor(t *testing.T, server string, authority []byte, token string) string {
	t.Helper()
	bootstrap, err := json.Marshal(map[string]any{
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": server, "certificate-authority-data": authority}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}}, "current-context": "x",
	})
	require.NoError(t, err)
	file := func(path string, content []byte) map[string]any {
		return map[string]any{"path": path, "mode": 420, "contents": map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString(content)}}
	}
	document, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": "3.2.0"},
		"storage":  map[string]any{"files": []any{file("/etc/kubernetes/kubeconfig", bootstrap), file("/etc/kubernetes/kubelet-ca.crt", authority)}},
		"systemd":  map[string]any{"units": []any{map[string]any{"name": "kubelet.service", "contents": "[Service]\nExecStart=/usr/bin/kubelet --v=2\n"}}},
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "worker.ign")
	require.NoError(t, os.WriteFile(path, document, 0o600))
	return path
}

// spec is that of a fresh machine.
func spec(t *testing.T, ignition string) *nodespec.NodeSpec {
	t.Helper()
	root := t.TempDir()
	s := &nodespec.NodeSpec{
		Node: nodespec.Node{Name: "win1", Addresses: []string{"10.0.0.5"}}, Bootstrap: nodespec.Bootstrap{IgnitionFile: ignition},
		Paths: nodespec.Paths{Install: filepath.Join(root, "k"), KubeletData: filepath.Join(root, "kubelet"), Logs: filepath.Join(root, "log")},
	}
	require.NoError(t, os.Mkdir(s.Paths.Install, 0o700))
	return s
}

func settle(t *testing.T, c *testcluster.Cluster, name, condition string) {
	t.Helper()
	var csr map[string]any
	c.Get(t, csrs+"/"+name, &csr)
	csr["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True", "reason": "Test", "message": "by the test"}}}
	encoded, err := json.Marshal(csr)
	require.NoError(t, err)
	c.Request(t, testcluster.AdminToken, http.MethodPut, csrs+"/"+name+"/approval", "application/json", encoded)
}

func enroll(t *testing.T, s *nodespec.NodeSpec, wait time.Duration) nodereport.Enroll {
	t.Helper()
	report, err := Run(t.Context(), Options{Spec: s, Wait: wait})
	require.NoError(t, err)
	require.True(t, report.OK)
	return report
}

func TestANodeGetsItsCertificateAndKeepsIt(t *testing.T) {
	c := testcluster.Start(t)
	s := spec(t, ignitionFor(t, c.URL, c.CA, testcluster.BootstrapToken))

	pending := enroll(t, s, 0)
	assert.Equal(t, nodereport.CertificatePending, pending.State)
	assert.Equal(t, "wsu-win1-"+pending.PublicKeySHA256[:10], pending.CSR)
	assert.Equal(t, []string{"10.0.0.5"}, pending.Addresses)
	assert.Contains(t, pending.DNSNames, "win1")
	again := enroll(t, s, 0)
	assert.Equal(t, pending.CSR, again.CSR, "an interrupted run goes on with the same key and request")

	settle(t, c, pending.CSR, "Approved")
	issued := enroll(t, s, time.Minute)
	assert.Equal(t, nodereport.CertificateIssued, issued.State)
	assert.True(t, issued.Changed)
	assert.Equal(t, pending.PublicKeySHA256, issued.PublicKeySHA256)

	k, err := kubeconfig.Load(filepath.Join(s.Paths.Install, "kubeconfig"))
	require.NoError(t, err)
	client, err := kubeapi.New(k)
	require.NoError(t, err)
	require.NoError(t, client.KnowsNode(t.Context(), "win1"), "the kubelet can log in with what its kubeconfig names")
	target, err := os.Readlink(apply.ClientCertificate(s.Paths.KubeletData))
	require.NoError(t, err)
	assert.True(t, filepath.IsAbs(target))
	assert.NoFileExists(t, filepath.Join(s.Paths.KubeletData, "pki", "wsu-client-pending.key"))

	present := enroll(t, s, 0)
	assert.Equal(t, nodereport.CertificatePresent, present.State)
	assert.False(t, present.Changed)
	assert.Equal(t, issued.PublicKeySHA256, present.PublicKeySHA256)
	var list struct{ Items []any }
	c.Get(t, csrs, &list)
	assert.Len(t, list.Items, 1, "a node that has its certificate asks for nothing")

	t.Run("a lost kubeconfig is written again without a new certificate", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(s.Paths.Install, "kubeconfig")))
		repaired := enroll(t, s, 0)
		assert.Equal(t, nodereport.CertificatePresent, repaired.State)
		assert.True(t, repaired.Changed)
	})
	t.Run("another name needs another certificate", func(t *testing.T) {
		renamed := *s
		renamed.Node.Name = "win2"
		assert.Equal(t, nodereport.CertificatePending, enroll(t, &renamed, 0).State)
	})
	t.Run("another cluster's certificate is not taken for this one's", func(t *testing.T) {
		other := testcluster.Start(t)
		moved := *s
		moved.Bootstrap.IgnitionFile = ignitionFor(t, other.URL, other.CA, testcluster.BootstrapToken)
		assert.Equal(t, nodereport.CertificatePending, enroll(t, &moved, 0).State)
	})
}

// Its authority has another name than this cluster's, so that a polite TLS client would not even show it.
func TestTheCertificateOfAnotherAuthorityIsNotTakenForThisClusters(t *testing.T) {
	c := testcluster.Start(t)
	s := spec(t, ignitionFor(t, c.URL, c.CA, testcluster.BootstrapToken))
	authority, err := newKey()
	require.NoError(t, err)
	old, err := newKey()
	require.NoError(t, err)
	now := time.Now()
	issuer := certificateOf("issuer", now)
	issuer.Subject, issuer.IsCA, issuer.BasicConstraintsValid = pkix.Name{CommonName: "kube-csr-signer_@1"}, true, true
	der, err := x509.CreateCertificate(rand.Reader, certificateOf("win1", now), issuer, &old.private.PublicKey, authority.private)
	require.NoError(t, err)
	f := filesOf(s)
	require.NoError(t, f.makeFolder())
	require.NoError(t, f.keep(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), old))
	assert.Equal(t, nodereport.CertificatePending, enroll(t, s, 0).State)
}

// waiting starts a run on a fresh machine and gives the name of the request that it waits for.
func waiting(t *testing.T, c *testcluster.Cluster, s *nodespec.NodeSpec) (name string, done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), Options{Spec: s, Wait: time.Minute})
		done <- err
	}()
	require.Eventually(t, func() bool {
		var list struct{ Items []kubeapi.CSR }
		c.Get(t, csrs, &list)
		if len(list.Items) == 1 {
			name = list.Items[0].Metadata.Name
		}
		return name != ""
	}, time.Minute, 20*time.Millisecond)
	return name, done
}

func TestTheApprovalIsWaitedFor(t *testing.T) {
	c := testcluster.Start(t)
	s := spec(t, ignitionFor(t, c.URL, c.CA, testcluster.BootstrapToken))
	name, done := waiting(t, c, s)
	settle(t, c, name, "Approved")
	require.NoError(t, <-done)
	assert.Equal(t, nodereport.CertificatePresent, enroll(t, s, 0).State)
}

func TestADeniedRequestIsAnErrorOnceAndMadeAnewTheNextTime(t *testing.T) {
	c := testcluster.Start(t)
	s := spec(t, ignitionFor(t, c.URL, c.CA, testcluster.BootstrapToken))
	name, done := waiting(t, c, s)
	settle(t, c, name, "Denied")
	err := <-done
	assert.True(t, reason.Is(err, reason.CSRRefused), err)
	assert.ErrorContains(t, err, "by the test")

	second := enroll(t, s, 0)
	assert.Equal(t, nodereport.CertificatePending, second.State)
	assert.NotEqual(t, name, second.CSR)
}

func TestANameThatSomebodyTookIsNotOurs(t *testing.T) {
	c := testcluster.Start(t)
	s := spec(t, ignitionFor(t, c.URL, c.CA, testcluster.BootstrapToken))
	mine, err := filesOf(s).pendingKey()
	require.NoError(t, err)
	forged, err := newKey()
	require.NoError(t, err)
	request, err := forged.request("win1")
	require.NoError(t, err)
	body, err := json.Marshal(kubeapi.CSR{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest", Metadata: kubeapi.Metadata{Name: mine.requestName("win1")},
		Spec: kubeapi.CSRSpec{Request: request, SignerName: signer, Usages: usages}})
	require.NoError(t, err)
	c.Request(t, testcluster.BootstrapToken, http.MethodPost, csrs, "application/json", body)

	_, err = Run(t.Context(), Options{Spec: s})
	assert.True(t, reason.Is(err, reason.CSRRefused), err)
	assert.ErrorContains(t, err, "somebody else")
}

func TestWhatKeepsANodeFromEnrolling(t *testing.T) {
	c := testcluster.Start(t)
	for name, test := range map[string]struct {
		ignition string
		code     reason.Code
		says     string
	}{
		"a revoked token":          {ignitionFor(t, c.URL, c.CA, "revoked"), reason.EnrollFailed, "does not accept them"},
		"an account without right": {ignitionFor(t, c.URL, c.CA, testcluster.NobodyToken), reason.APIForbidden, "cannot create resource"},
		"another authority":        {ignitionFor(t, c.URL, otherAuthority(t), testcluster.BootstrapToken), reason.APIUntrusted, "not valid for this cluster"},
		"nobody there":             {ignitionFor(t, "https://127.0.0.1:1", c.CA, testcluster.BootstrapToken), reason.APIUnreachable, "refused"},
		"no such name":             {ignitionFor(t, "https://api.invalid:6443", c.CA, testcluster.BootstrapToken), reason.DNSFailed, "api.invalid:6443"},
		"no Ignition":              {filepath.Join(t.TempDir(), "worker.ign"), reason.FileMissing, "not on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, test.ignition)
			report, err := Run(t.Context(), Options{Spec: s})
			require.Error(t, err)
			assert.Equal(t, test.code, report.Error.Code, err)
			assert.ErrorContains(t, err, test.says)
			assert.NotContains(t, fmt.Sprint(err), testcluster.BootstrapToken)
			assert.False(t, report.OK)
			assert.NoFileExists(t, filepath.Join(s.Paths.Install, "kubeconfig"))
		})
	}
}

func certificateOf(node string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{organization}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// otherAuthority is one that has signed nothing here.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	k, err := newKey()
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.private.PublicKey, k.private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestACertificateThatIsNotTheRequestedOneIsRefused(t *testing.T) {
	mine, err := newKey()
	require.NoError(t, err)
	foreign, err := newKey()
	require.NoError(t, err)
	now := time.Now()
	issue := func(k *key, change func(*x509.Certificate)) []byte {
		template := certificateOf("win1", now)
		change(template)
		der, err := x509.CreateCertificate(rand.Reader, template, template, &k.private.PublicKey, k.private)
		require.NoError(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	_, err = mine.verify(issue(mine, func(*x509.Certificate) {}), "win1", now)
	require.NoError(t, err)
	for says, issued := range map[string][]byte{
		"for another key":    issue(foreign, func(*x509.Certificate) {}),
		"its subject":        issue(mine, func(c *x509.Certificate) { c.Subject.CommonName = "system:node:win10" }),
		"not for clients":    issue(mine, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"this machine's clo": issue(mine, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) }),
		"in PEM":             []byte("junk"),
	} {
		_, err := mine.verify(issued, "win1", now)
		assert.ErrorContains(t, err, says)
	}
}
