// Package testcluster starts a real control plane for tests: etcd, kube-apiserver and kube-controller-manager with the CSR
// signer, on loopback, ended with the test. The programs are those in the folder that WSU_TEST_KUBE_BIN names, or
// .sandbox/bin, which `make sandbox` fills. Without them the test is skipped, and says so.
package testcluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// startWithin bounds the start of one program: generous, since machines that run tests are busy.
const startWithin = 2 * time.Minute

// Tokens of the accounts that exist from the start, beside whatever a test makes.
const (
	AdminToken     = "test-admin-token"
	BootstrapToken = "test-bootstrap-token"
	NobodyToken    = "test-nobody-token"
	// Bootstrapper is OpenShift's bootstrap account, which BootstrapToken authenticates with the groups that it has there.
	Bootstrapper = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
)

// Cluster is a running control plane.
type Cluster struct {
	URL string
	CA  []byte
	// SignerCA has signed the nodes' certificates.
	SignerCA []byte
	dir      string
	bin      string
	api      []string // the API server's arguments
	stopAPI  func()
}

// Start starts a control plane that ends with the test.
func Start(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{bin: programs(t), dir: t.TempDir()}
	ca := newAuthority(t, c.dir, "ca")
	c.CA, c.SignerCA = ca.pem, ca.pem
	serving := ca.issue(t, c.dir, "kube-apiserver")
	ports := freePorts(t, 4)
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[2])

	c.run(t, "etcd", "--data-dir="+filepath.Join(c.dir, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync", "--log-level=error")
	c.api = []string{"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]), "--etcd-servers=" + etcd,
		"--tls-cert-file=" + serving.cert, "--tls-private-key-file=" + serving.key, "--client-ca-file=" + ca.cert, "--token-auth-file=" + c.tokens(t),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file=" + ca.key, "--service-account-key-file=" + ca.cert,
		"--service-cluster-ip-range=172.30.0.0/16", "--profiling=false"}
	c.StartAPIServer(t)
	manager := c.Kubeconfig(t, AdminToken)
	c.run(t, "kube-controller-manager", "--kubeconfig="+manager, "--authentication-kubeconfig="+manager, "--authorization-kubeconfig="+manager,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[3]), "--leader-elect=false",
		"--cluster-signing-cert-file="+ca.cert, "--cluster-signing-key-file="+ca.key,
		"--controllers=certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller,namespace-controller,disruption-controller,serviceaccount-controller")
	c.Apply(t, bootstrapRights)
	// The authorizer learns of a new binding a moment later.
	review := []byte(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "create", "group": "certificates.k8s.io", "resource": "certificatesigningrequests"}}}`)
	require.Eventually(t, func() bool {
		answer := c.Request(t, BootstrapToken, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", review)
		return bytes.Contains(answer, []byte(`"allowed":true`))
	}, startWithin, 50*time.Millisecond)
	return c
}

// StartAPIServer starts the API server again after StopAPIServer, and waits until it is ready.
func (c *Cluster) StartAPIServer(t *testing.T) {
	t.Helper()
	c.stopAPI = c.run(t, "kube-apiserver", c.api...)
	c.await(t, c.URL+"/readyz")
}

// StopAPIServer ends the API server; what it holds stays in etcd.
func (c *Cluster) StopAPIServer() { c.stopAPI() }

// programs finds the folder of the programs, or skips.
func programs(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("WSU_TEST_KUBE_BIN")
	if bin == "" {
		root, err := filepath.Abs(".")
		require.NoError(t, err)
		for root != "/" {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			root = filepath.Dir(root)
		}
		bin = filepath.Join(root, ".sandbox", "bin")
	}
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Skipf("SKIPPED: no real API server to test against: %v. Set WSU_TEST_KUBE_BIN to a folder with etcd, kube-apiserver and kube-controller-manager.", err)
		}
	}
	return bin
}

// tokens writes the static tokens.
func (c *Cluster) tokens(t *testing.T) string {
	t.Helper()
	file := filepath.Join(c.dir, "tokens.csv")
	content := AdminToken + `,admin,1,"system:masters"` + "\n" +
		BootstrapToken + "," + Bootstrapper + `,2,"system:serviceaccounts,system:serviceaccounts:openshift-machine-config-operator"` + "\n" +
		NobodyToken + ",nobody,3\n"
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

const bootstrapRights = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"bootstrap"},
"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"` + Bootstrapper + `"}],
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:node-bootstrapper"}}`

// run starts a program whose process ends with the test, or with the function that it returns.
func (c *Cluster) run(t *testing.T, program string, arguments ...string) (stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(c.dir, program+".log"))
	require.NoError(t, err)
	command := exec.Command(filepath.Join(c.bin, program), arguments...)
	command.Stdout, command.Stderr, command.Dir = log, log, c.dir
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	exited := make(chan struct{})
	go func() { _ = command.Wait(); close(exited) }()
	stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			_ = command.Process.Kill()
			<-exited
		}
	})
	t.Cleanup(func() {
		stop()
		if content, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s: %s", program, content[max(0, len(content)-1000):])
		}
		_ = log.Close()
	})
	return stop
}

func (c *Cluster) await(t *testing.T, url string) {
	t.Helper()
	client := c.httpClient()
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		request.Header.Set("Authorization", "Bearer "+AdminToken)
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, startWithin, 50*time.Millisecond, "%s does not answer", url)
}

func (c *Cluster) httpClient() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CA)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}, Timeout: 20 * time.Second}
}

// Kubeconfig writes a kubeconfig for a token.
func (c *Cluster) Kubeconfig(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"x","user":{"token":%q}}]}`,
		c.URL, base64.StdEncoding.EncodeToString(c.CA), token)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// Config is a client configuration for a token.
func (c *Cluster) Config(token string) *rest.Config {
	return &rest.Config{Host: c.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}}
}

func freePorts(t *testing.T, count int) []int {
	t.Helper()
	ports := make([]int, 0, count)
	for range count {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
