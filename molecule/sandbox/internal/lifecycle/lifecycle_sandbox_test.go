//go:build sandbox

package lifecycle

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/network"
	"wsu.windows/sandbox/internal/progress"
)

// A control plane of its own, in a folder and a network of its own: it lives beside a sandbox that runs.
func newSandbox(t *testing.T) *Sandbox {
	t.Helper()
	require.Zero(t, os.Geteuid(), "run as root")
	environment := map[string]string{"SANDBOX_DIR": t.TempDir(), "SANDBOX_SUBNET": "10.97.0.0/24", "SANDBOX_HOSTS": "0"}
	workDir, err := os.Getwd()
	require.NoError(t, err)
	c, err := config.FromEnvironment(func(name string) string { return environment[name] }, workDir)
	require.NoError(t, err)
	lendPrograms(t, c)
	s := New(c, progress.New(os.Stderr))
	s.Program = c.Path("bin", "sandbox")
	t.Cleanup(func() { assert.NoError(t, s.Down(context.Background())) })
	return s
}

// lendPrograms links the default sandbox's programs, if they are there, so that the test need not link them again. The servers run
// from the sandbox's own program, which is not this test: it is built.
func lendPrograms(t *testing.T, c config.Config) {
	t.Helper()
	bin := filepath.Join(c.Repository, config.DefaultDir, "bin")
	require.NoError(t, os.MkdirAll(c.Path("bin", ".stamps"), 0o755))
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		for _, file := range []string{name, filepath.Join(".stamps", name)} {
			if content, err := os.ReadFile(filepath.Join(bin, file)); err == nil {
				require.NoError(t, os.WriteFile(c.Path("bin", file), content, 0o755))
			}
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-o", c.Path("bin", "sandbox"), "./cmd/sandbox")
	build.Dir, build.Env = filepath.Join(c.Repository, "molecule", "sandbox"), append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
}

func TestAControlPlaneLivesAndDiesWithoutATrace(t *testing.T) {
	s := newSandbox(t)
	require.NoError(t, s.Up(t.Context()))
	processes := s.state.Processes
	require.Len(t, processes, 4)

	t.Run("started again, it is left alone", func(t *testing.T) {
		require.NoError(t, s.Up(t.Context()))
		assert.Equal(t, processes, s.state.Processes)
	})
	t.Run("a node's certificate is signed only after an approval", func(t *testing.T) { joins(t, s) })
	t.Run("the payload mirror serves ranges", func(t *testing.T) { mirrors(t, s) })
	t.Run("a half-dead sandbox is replaced", func(t *testing.T) {
		require.NoError(t, syscall.Kill(processes[2].PID, syscall.SIGKILL))
		require.Eventually(t, func() bool { return !processes[2].Running() }, time.Minute, 10*time.Millisecond)
		require.NoError(t, s.Up(t.Context()))
		for _, process := range processes {
			assert.False(t, process.Running(), process.Name)
		}
		processes = s.state.Processes
	})
	t.Run("taken down with its folder's record lost, nothing is left", func(t *testing.T) {
		require.NoError(t, os.Remove(s.Config.Path("state.json")))
		require.NoError(t, s.Down(t.Context()))
		for _, process := range processes {
			assert.False(t, process.Running(), process.Name)
		}
		assert.False(t, network.Exists(s.Config.Bridge()))
		assert.NoFileExists(t, s.Config.Path("kubeconfig"))
		assert.ErrorIs(t, s.Status(t.Context()), config.ErrNotRunning)
		assert.NoError(t, s.Down(t.Context()), "a second time is no error")
	})
}

// joins does what a machine does: it takes the Ignition from the Machine Config Server, and asks for a certificate with the
// credentials in it.
func joins(t *testing.T, s *Sandbox) {
	admin, err := clientcmd.BuildConfigFromFlags("", s.Config.Path("kubeconfig"))
	require.NoError(t, err)
	adminClient := kubernetes.NewForConfigOrDie(admin)
	authority, err := adminClient.CoreV1().ConfigMaps("openshift-machine-config-operator").Get(t.Context(), "machine-config-server-ca", metav1.GetOptions{})
	require.NoError(t, err)
	bootstrap := bootstrapKubeconfig(t, s, []byte(authority.Data["ca-bundle.crt"]))
	assert.Equal(t, "https://"+config.APIInt+":6443", bootstrap.Host)
	bootstrap.Host = s.Config.APIURL() // this machine does not resolve api-int
	nodeClient := kubernetes.NewForConfigOrDie(bootstrap)

	_, err = nodeClient.CoreV1().Secrets("openshift-config").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "bootstrap credentials read secrets: %v", err)

	unapproved, approved := requestCertificate(t, nodeClient, "win1"), requestCertificate(t, nodeClient, "win2")
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "by the test"})
	_, err = adminClient.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), approved.Name, approved, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		csr, err := adminClient.CertificatesV1().CertificateSigningRequests().Get(t.Context(), approved.Name, metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0
	}, time.Minute, 50*time.Millisecond)
	csr, err := adminClient.CertificatesV1().CertificateSigningRequests().Get(t.Context(), unapproved.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, csr.Status.Conditions, "somebody approves first requests")
}

func requestCertificate(t *testing.T, client kubernetes.Interface, node string) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, key)
	require.NoError(t, err)
	csr, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return csr
}

func bootstrapKubeconfig(t *testing.T, s *Sandbox, authority []byte) *rest.Config {
	answer := get(t, authority, s.Config.MachineConfigURL()+"/config/worker", "Accept", "application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1")
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	assert.Equal(t, "HTTP/1.1", answer.Proto)
	var ignition struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct{ Source string }
			}
		}
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&ignition))
	for _, file := range ignition.Storage.Files {
		if file.Path != "/etc/kubernetes/kubeconfig" {
			continue
		}
		text, err := url.PathUnescape(strings.TrimPrefix(file.Contents.Source, "data:,"))
		require.NoError(t, err)
		settings, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
		require.NoError(t, err)
		return settings
	}
	t.Fatal("no bootstrap kubeconfig was served")
	return nil
}

func mirrors(t *testing.T, s *Sandbox) {
	require.NoError(t, os.WriteFile(s.Config.Path("mirror", "probe"), []byte("0123456789"), 0o644))
	authority, err := os.ReadFile(s.Config.Path("pki", "mirror-ca.crt"))
	require.NoError(t, err)
	answer := get(t, authority, s.Config.MirrorURL()+"/probe", "Range", "bytes=7-")
	defer answer.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusPartialContent, answer.StatusCode)
	assert.Equal(t, "789", body.String())
}

func get(t *testing.T, authority []byte, address, header, value string) *http.Response {
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority))
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	request.Header.Set(header, value)
	answer, err := client.Do(request)
	require.NoError(t, err)
	return answer
}
