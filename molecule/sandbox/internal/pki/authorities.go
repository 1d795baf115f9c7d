package pki

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// Authorities are the CAs of the sandbox's cluster, named as OpenShift names them.
type Authorities struct {
	Dir            string
	Etcd           *CA
	APIServer      *CA // signs the API server's certificate; the CA of every kubeconfig
	Admin          *CA // signs the administrator's and the components' client certificates
	CSR            *CA // signs approved CSRs: the nodes' client and serving certificates
	APIToKubelet   *CA // signs the certificate with which the API server calls kubelets
	Root           *CA // the installer's root-ca, in ConfigMap kube-system/root-ca: signs nothing any more since 4.19
	MachineConfig  *CA // signs the Machine Config Server's certificate since 4.19
	Mirror         *CA // the payload mirror's
	TokenKey       string
	TokenPublicKey string
}

// NewAuthorities makes them all in dir.
func NewAuthorities(dir string) (*Authorities, error) {
	a := &Authorities{Dir: dir}
	for _, ca := range []struct {
		to               **CA
		name, commonName string
	}{
		{&a.Etcd, "etcd-ca", "etcd-signer"},
		{&a.APIServer, "kube-apiserver-ca", "kube-apiserver-lb-signer"},
		{&a.Admin, "admin-kubeconfig-ca", "admin-kubeconfig-signer"},
		{&a.CSR, "kube-csr-ca", "kube-csr-signer_sandbox"},
		{&a.APIToKubelet, "kube-apiserver-to-kubelet-ca", "kube-apiserver-to-kubelet-signer"},
		{&a.Root, "root-ca", "root-ca"},
		{&a.MachineConfig, "machine-config-server-ca", "machine-config-server"},
		{&a.Mirror, "mirror-ca", "payload-mirror"},
	} {
		made, err := NewCA(dir, ca.name, ca.commonName)
		if err != nil {
			return nil, err
		}
		*ca.to = made
	}
	var err error
	if a.TokenKey, a.TokenPublicKey, err = NewSigningKey(dir, "service-account"); err != nil {
		return nil, err
	}
	if err := os.WriteFile(a.ClientCAFile(), a.clientCAs(a.Admin, a.CSR), 0o644); err != nil {
		return nil, fmt.Errorf("client CA bundle: %w", err)
	}
	return a, nil
}

// ClientCAFile is the bundle by which the API server knows its clients.
func (a *Authorities) ClientCAFile() string { return filepath.Join(a.Dir, "client-ca-bundle.crt") }

// KubeletClientCAs is the bundle that OpenShift calls kubeAPIServerServingCAData and puts on the nodes as kubelet-ca.crt:
// the CAs of those who may call a kubelet.
func (a *Authorities) KubeletClientCAs() []byte {
	return a.clientCAs(a.Admin, a.CSR, a.APIToKubelet)
}

func (a *Authorities) clientCAs(cas ...*CA) []byte {
	var bundle bytes.Buffer
	for _, ca := range cas {
		bundle.Write(ca.PEM)
	}
	return bundle.Bytes()
}

// APIServerLeaf is the API server's serving certificate.
func APIServerLeaf(names []string, addresses ...netip.Addr) Leaf {
	names = append(names, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	return Leaf{Name: "kube-apiserver", CommonName: names[0], DNSNames: names, Addresses: addresses, Server: true}
}
