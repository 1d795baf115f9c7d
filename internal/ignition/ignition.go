// Package ignition reads the worker Ignition of an OpenShift cluster and gives what a Windows node needs of it: the bootstrap
// kubeconfig, the kubelet's client CA, the cloud configuration and the kubelet's flags. Spec 3.x is read with Ignition's own
// parser, spec 2.x with Ignition's own types. Both the control host and wmcb.exe use it.
package ignition

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/reason"
)

// Paths in the worker Ignition, as the Machine Config Operator writes them.
const (
	BootstrapKubeconfigPath = "/etc/kubernetes/kubeconfig"
	KubeletCAPath           = "/etc/kubernetes/kubelet-ca.crt"
	KubeletConfigPath       = "/etc/kubernetes/kubelet.conf"
	KubeletUnit             = "kubelet.service"
)

// MaxSize bounds the Ignition itself, MaxFileSize one file in it after decompression; both in bytes. Real worker
// Ignitions have about 0.5 MB.
const (
	MaxSize     = 32 << 20
	MaxFileSize = 8 << 20
)

// Worker is what a worker Ignition says to a joining node. BootstrapKubeconfig is a secret.
type Worker struct {
	// SpecVersion is the Ignition's own, as 3.2.0.
	SpecVersion string
	// SHA256 is the digest of the raw Ignition, in hexadecimal.
	SHA256 string
	// BootstrapKubeconfig is the file's content: API server, its CA, the bootstrap token.
	BootstrapKubeconfig []byte
	// KubeletCA is PEM: who may sign the certificates of the kubelet's clients.
	KubeletCA []byte
	// CloudConfig is the content of the file that the kubelet's --cloud-config names, CloudConfigPath that name; both are
	// empty where the flag is absent.
	CloudConfig     []byte
	CloudConfigPath string
	// KubeletConfig is the Linux worker's KubeletConfiguration (YAML), or nil.
	KubeletConfig []byte
	// KubeletFlags are the flags of kubelet.service as written for Linux, name without dashes to value: take the ones that
	// mean something on Windows. Variables are resolved where the Ignition itself sets them; what stays unresolved (node.env is made
	// on the machine) is dropped, in comma-separated values element by element.
	KubeletFlags map[string]string
	// APIServer is the URL in the bootstrap kubeconfig, APIServerCA its authority (PEM), and CASHA256 the digest of that
	// (kubeconfig.CADigest); KubeletCASHA256 likewise for KubeletCA.
	APIServer       string
	APIServerCA     []byte
	CASHA256        string
	KubeletCASHA256 string
}

// remedy is what nearly every failure here needs.
const remedy = "Give the worker Ignition of this cluster: the rendered worker MachineConfig as the Machine Config Server serves it."

// Parse reads a worker Ignition of spec 2.x or 3.x. Every error is a reason.Error with the code IgnitionInvalid that names the
// field or file at fault; none of them quotes a secret.
func Parse(raw []byte) (*Worker, error) {
	c, err := parseConfig(raw)
	if err != nil {
		return nil, err
	}
	if err := c.refuseForeign(); err != nil {
		return nil, err
	}
	w := &Worker{SpecVersion: c.version}
	sum := sha256.Sum256(raw)
	w.SHA256 = hex.EncodeToString(sum[:])
	for _, step := range []func(*config, *Worker) error{readFlags, readKubeconfig, readKubeletCA, readCloudConfig, readKubeletConfig} {
		if err := step(c, w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func invalid(object, problem string) *reason.Error {
	return reason.New(reason.IgnitionInvalid, object, problem, remedy)
}

// refuseForeign tells apart the Ignitions that people give by mistake.
func (c *config) refuseForeign() error {
	if _, ok := c.units[KubeletUnit]; ok {
		return nil
	}
	if len(c.references) > 0 {
		return reason.New(reason.IgnitionInvalid, "Ignition",
			fmt.Sprintf("it is a pointer Ignition, which only names %s", strings.Join(c.references, ", ")),
			"Give the Ignition that this address serves, not the pointer from the user data.")
	}
	return invalid("Ignition", "it holds no unit kubelet.service, so it is not a worker's")
}

func readFlags(c *config, w *Worker) error {
	flags, err := kubeletFlags(c)
	if err != nil {
		return err
	}
	labels := flags["node-labels"]
	for _, role := range []string{"node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"} {
		if hasLabel(labels, role) && !hasLabel(labels, "node-role.kubernetes.io/worker") {
			return invalid(KubeletUnit, fmt.Sprintf("its node labels hold %s: this is a control plane's Ignition", role))
		}
	}
	w.KubeletFlags = flags
	return nil
}

func hasLabel(labels, name string) bool {
	for label := range strings.SplitSeq(labels, ",") {
		key, _, _ := strings.Cut(label, "=")
		if key == name {
			return true
		}
	}
	return false
}

func readKubeconfig(c *config, w *Worker) error {
	content, err := c.required(BootstrapKubeconfigPath)
	if err != nil {
		return err
	}
	parsed, err := kubeconfig.Parse(content, "")
	if err != nil {
		return invalid(BootstrapKubeconfigPath, err.Error())
	}
	if parsed.Token == "" && len(parsed.ClientCert) == 0 {
		return invalid(BootstrapKubeconfigPath, "it has neither a token nor a client certificate")
	}
	if err := checkCertificates(parsed.CA); err != nil {
		return invalid(BootstrapKubeconfigPath, "its certificate authority: "+err.Error())
	}
	w.BootstrapKubeconfig, w.APIServer, w.APIServerCA = content, parsed.Server, parsed.CA
	w.CASHA256 = kubeconfig.CADigest(parsed.CA)
	return nil
}

func readKubeletCA(c *config, w *Worker) error {
	content, err := c.required(KubeletCAPath)
	if err != nil {
		return err
	}
	if err := checkCertificates(content); err != nil {
		return invalid(KubeletCAPath, err.Error())
	}
	w.KubeletCA, w.KubeletCASHA256 = content, kubeconfig.CADigest(content)
	return nil
}

func readCloudConfig(c *config, w *Worker) error {
	path := w.KubeletFlags["cloud-config"]
	if path == "" {
		return nil
	}
	content, err := c.required(path)
	if err != nil {
		return err
	}
	w.CloudConfig, w.CloudConfigPath = content, path
	return nil
}

func readKubeletConfig(c *config, w *Worker) error {
	content, found, err := c.read(KubeletConfigPath)
	if err != nil || !found {
		return err
	}
	w.KubeletConfig = content
	return nil
}

// checkCertificates wants at least one certificate and nothing that cannot be parsed.
func checkCertificates(pemData []byte) error {
	count := 0
	for block, rest := pem.Decode(pemData); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("a PEM block is a %q, not a certificate", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d cannot be parsed: %w", count+1, err)
		}
		count++
	}
	if count == 0 {
		if len(bytes.TrimSpace(pemData)) == 0 {
			return errors.New("it is empty")
		}
		return errors.New("it holds no PEM certificate")
	}
	return nil
}
