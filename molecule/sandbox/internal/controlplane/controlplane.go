// Package controlplane runs the real etcd, kube-apiserver and kube-controller-manager as an OpenShift cluster runs them, so far
// as a joining node can tell.
package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/pki"
	"wsu.windows/sandbox/internal/state"
)

// ServiceNetwork is OpenShift's default; its first address is the kubernetes Service's, its tenth the cluster DNS's.
const ServiceNetwork = "172.30.0.0/16"

// readyWithin bounds the wait for a component: generous, since the machine may be busy with compiling.
const readyWithin = 3 * time.Minute

// ControlPlane starts the components. Started is called with each process as soon as it exists.
type ControlPlane struct {
	Config  config.Config
	CAs     *pki.Authorities
	Bin     string // folder of the programs
	Started func(state.Process) error
}

// StartEtcd starts etcd on its loopback address with mutual TLS, and waits until it serves.
func (c ControlPlane) StartEtcd(ctx context.Context) error {
	loopback := c.Config.Loopback()
	server, serverKey, err := c.CAs.Etcd.Issue(pki.Leaf{Name: "etcd", CommonName: "etcd", Addresses: []netip.Addr{loopback}, Server: true, Client: true})
	if err != nil {
		return err
	}
	client, peer := hostURL(loopback, config.EtcdPort), hostURL(loopback, config.EtcdPeerPort)
	process, err := c.start("etcd", "etcd",
		"--name=sandbox", "--data-dir="+c.Config.Path("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=sandbox="+peer,
		"--cert-file="+server, "--key-file="+serverKey, "--client-cert-auth", "--trusted-ca-file="+c.CAs.Etcd.CertFile(),
		"--peer-cert-file="+server, "--peer-key-file="+serverKey, "--peer-client-cert-auth", "--peer-trusted-ca-file="+c.CAs.Etcd.CertFile(),
		// The data does not outlive the sandbox: speed is worth more than surviving a power failure.
		"--unsafe-no-fsync", "--log-level=warn")
	if err != nil {
		return err
	}
	return awaitHTTPS(ctx, process, client+"/health", c.CAs.Etcd.PEM, server, serverKey)
}

// StartAPIServer starts kube-apiserver on the bridge address and waits until it is ready.
func (c ControlPlane) StartAPIServer(ctx context.Context) error {
	files, err := c.issueAPIServerCertificates()
	if err != nil {
		return err
	}
	process, err := c.start("kube-apiserver", "kube-apiserver",
		"--bind-address="+c.Config.Gateway().String(), "--advertise-address="+c.Config.Gateway().String(),
		fmt.Sprintf("--secure-port=%d", config.APIPort),
		"--etcd-servers="+hostURL(c.Config.Loopback(), config.EtcdPort), "--etcd-cafile="+c.CAs.Etcd.CertFile(),
		"--etcd-certfile="+files["etcd-client"], "--etcd-keyfile="+files["etcd-client-key"],
		"--tls-cert-file="+files["serving"], "--tls-private-key-file="+files["serving-key"],
		"--client-ca-file="+c.CAs.ClientCAFile(),
		"--kubelet-client-certificate="+files["kubelet-client"], "--kubelet-client-key="+files["kubelet-client-key"],
		"--kubelet-certificate-authority="+c.CAs.CSR.CertFile(),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file="+c.CAs.TokenKey, "--service-account-key-file="+c.CAs.TokenPublicKey,
		"--service-cluster-ip-range="+ServiceNetwork,
		"--allow-privileged=true", "--profiling=false")
	if err != nil {
		return err
	}
	return awaitHTTPS(ctx, process, c.Config.APIURL()+"/readyz", c.CAs.APIServer.PEM, files["admin"], files["admin-key"])
}

func (c ControlPlane) issueAPIServerCertificates() (map[string]string, error) {
	serving := pki.APIServerLeaf([]string{config.APIInt, config.API},
		c.Config.Gateway(), netip.MustParsePrefix(ServiceNetwork).Addr().Next())
	files := map[string]string{}
	for _, certificate := range []struct {
		name string
		ca   *pki.CA
		leaf pki.Leaf
	}{
		{"serving", c.CAs.APIServer, serving},
		{"etcd-client", c.CAs.Etcd, pki.Leaf{Name: "kube-apiserver-etcd-client", CommonName: "kube-apiserver", Client: true}},
		{"kubelet-client", c.CAs.APIToKubelet, pki.Leaf{Name: "kube-apiserver-kubelet-client", CommonName: "system:kube-apiserver", Client: true}},
		{"admin", c.CAs.Admin, pki.Leaf{Name: "admin", CommonName: "system:admin", Organization: []string{"system:masters"}, Client: true}},
	} {
		cert, key, err := certificate.ca.Issue(certificate.leaf)
		if err != nil {
			return nil, err
		}
		files[certificate.name], files[certificate.name+"-key"] = cert, key
	}
	return files, c.writeKubeconfig(c.Config.Path("kubeconfig"), "admin", files["admin"], files["admin-key"])
}

// controllers are those that nodes, CSRs and the workloads of tests need. Node addresses and routes are the network plugin's
// business in OpenShift: no nodeipam, no cloud controllers.
var controllers = []string{
	"certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller", "certificatesigningrequest-cleaner-controller",
	"node-lifecycle-controller", "taint-eviction-controller", "ttl-controller", "pod-garbage-collector-controller",
	"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller", "namespace-controller", "garbage-collector-controller", "disruption-controller",
	"deployment-controller", "replicaset-controller", "daemonset-controller", "statefulset-controller", "job-controller",
	"endpointslice-controller", "endpoints-controller",
}

// StartControllerManager starts kube-controller-manager and waits until it is healthy. It approves a node's renewals, since
// OpenShift binds the nodes to that right, and nobody's first request.
func (c ControlPlane) StartControllerManager(ctx context.Context) error {
	cert, key, err := c.CAs.Admin.Issue(pki.Leaf{Name: "kube-controller-manager", CommonName: "system:kube-controller-manager", Client: true})
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(c.CAs.Dir, "kube-controller-manager.kubeconfig")
	if err := c.writeKubeconfig(kubeconfig, "kube-controller-manager", cert, key); err != nil {
		return err
	}
	loopback := c.Config.Loopback()
	serving, servingKey, err := c.CAs.APIServer.Issue(pki.Leaf{Name: "kube-controller-manager-serving", CommonName: "kube-controller-manager", Addresses: []netip.Addr{loopback}, Server: true})
	if err != nil {
		return err
	}
	process, err := c.start("kube-controller-manager", "kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address="+loopback.String(), fmt.Sprintf("--secure-port=%d", config.ControllerManagerPort),
		"--tls-cert-file="+serving, "--tls-private-key-file="+servingKey,
		"--controllers="+strings.Join(controllers, ","), "--use-service-account-credentials=true",
		"--cluster-signing-cert-file="+c.CAs.CSR.CertFile(), "--cluster-signing-key-file="+c.CAs.CSR.KeyFile(),
		"--cluster-signing-duration=720h",
		"--root-ca-file="+c.CAs.APIServer.CertFile(), "--service-account-private-key-file="+c.CAs.TokenKey,
		"--leader-elect=false", "--profiling=false")
	if err != nil {
		return err
	}
	return awaitHTTPS(ctx, process, hostURL(loopback, config.ControllerManagerPort)+"/healthz", c.CAs.APIServer.PEM, "", "")
}

func (c ControlPlane) start(name, program string, arguments ...string) (state.Process, error) {
	command := exec.Command(filepath.Join(c.Bin, program), arguments...)
	command.Dir = c.Config.Dir
	process, err := state.Start(name, c.Config.Path("logs", name+".log"), command)
	if err != nil {
		return state.Process{}, err
	}
	return process, c.Started(process)
}

func hostURL(address netip.Addr, port int) string {
	return "https://" + netip.AddrPortFrom(address, uint16(port)).String()
}

// awaitHTTPS asks url until it answers 200, the process ends or the time is over.
func awaitHTTPS(ctx context.Context, process state.Process, url string, ca []byte, cert, key string) error {
	client, err := httpsClient(ca, cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", process.Name, err)
	}
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(readyWithin)
	var last string
	for time.Now().Before(deadline) {
		if last = get(ctx, client, url); last == "" {
			return nil
		}
		if !process.Running() {
			return fmt.Errorf("%s ended during its start; the last lines of %s:\n%s", process.Name, process.Log, tail(process.Log, 8))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", process.Name, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s is not ready after %s (%s: %s); see %s", process.Name, readyWithin, url, last, process.Log)
}

func httpsClient(ca []byte, cert, key string) (*http.Client, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	settings := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings, Proxy: nil}, Timeout: 10 * time.Second}, nil
}

// get returns what is wrong, or nothing.
func get(ctx context.Context, client *http.Client, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return response.Status + " " + strings.TrimSpace(string(body))
	}
	return ""
}

func tail(file string, lines int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Await waits until a server of the sandbox's own answers url with 200.
func Await(ctx context.Context, process state.Process, ca []byte, url string) error {
	return awaitHTTPS(ctx, process, url, ca, "", "")
}
