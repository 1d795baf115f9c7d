package enroll

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/wmcb/apply"
)

// files are where the kubelet and wmcb look.
type files struct {
	// pki is the kubelet's folder of certificates; current the link to its client certificate and key there.
	pki, current string
	// pending is the key whose certificate was not issued yet.
	pending    string
	kubeconfig string
}

func filesOf(spec *nodespec.NodeSpec) files {
	current := apply.ClientCertificate(spec.Paths.KubeletData)
	pki := filepath.Dir(current)
	return files{
		pki: pki, current: current, pending: filepath.Join(pki, "wsu-client-pending.key"),
		kubeconfig: filepath.Join(spec.Paths.Install, "kubeconfig"),
	}
}

// pendingKey gives the key that waits for its certificate, and makes one where there is none. A damaged one is replaced: nobody has
// got a certificate for it.
func (f files) pendingKey() (*key, error) {
	raw, err := os.ReadFile(f.pending)
	if err == nil {
		if found, err := parseKey(raw); err == nil {
			return found, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	made, err := newKey()
	if err != nil {
		return nil, err
	}
	encoded, err := made.pem()
	if err != nil {
		return nil, err
	}
	if err := f.makeFolder(); err != nil {
		return nil, err
	}
	return made, securefile.Write(f.pending, encoded)
}

// makeFolder makes the kubelet's folder of keys: its own rights are strict, those above inherit as the kubelet's data do.
func (f files) makeFolder() error {
	if err := os.MkdirAll(filepath.Dir(f.pki), 0o755); err != nil {
		return err
	}
	return securefile.MakeFolder(f.pki)
}

func (f files) dropPendingKey() error {
	if err := os.Remove(f.pending); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// certificate gives the node's present certificate, nil where there is none that can be used.
func (f files) certificate() (*x509.Certificate, error) {
	certificate, err := apply.Certificate(f.current)
	var unreadable *fs.PathError
	if errors.As(err, &unreadable) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, nil //nolint:nilerr // a missing or damaged certificate is what enrolling is for
	}
	return certificate, nil
}

// keep writes certificate and key as the kubelet's own certificate store does: a file with the time in its name, and the link
// kubelet-client-current.pem to it, so that the kubelet rotates on from there.
func (f files) keep(issued []byte, k *key) error {
	encoded, err := k.pem()
	if err != nil {
		return err
	}
	path := filepath.Join(f.pki, "kubelet-client-"+time.Now().Format("2006-01-02-15-04-05")+".pem")
	if err := securefile.Write(path, join(issued, encoded)); err != nil {
		return err
	}
	updated := filepath.Join(f.pki, "kubelet-client-updated.pem")
	if err := remove(updated); err != nil {
		return err
	}
	if err := os.Symlink(path, updated); err != nil {
		return fmt.Errorf("link to the client certificate: %w", err)
	}
	if err := remove(f.current); err != nil { // Windows does not rename over a link
		return err
	}
	return os.Rename(updated, f.current)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeKubeconfig makes the kubelet's kubeconfig, which names the certificate's file and holds no secret itself.
func (f files) writeKubeconfig(server string, authority []byte) (changed bool, err error) {
	const name = "default"
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{"server": server, "certificate-authority-data": authority}}},
		"users":    []any{map[string]any{"name": name, "user": map[string]any{"client-certificate": f.current, "client-key": f.current}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
	})
	if err != nil {
		return false, err
	}
	if found, err := os.ReadFile(f.kubeconfig); err == nil && bytes.Equal(found, content) {
		return false, nil
	}
	return true, securefile.Write(f.kubeconfig, content)
}
