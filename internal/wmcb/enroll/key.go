package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"wsu.windows/internal/kubeapi"
)

// margin is how long a certificate must still hold to be left alone; the kubelet renews its own long before.
const margin = 10 * time.Minute

const organization = "system:nodes"

// key is the node's private key, ECDSA P-256.
type key struct {
	private *ecdsa.PrivateKey
	// digest is the SHA-256 of the SubjectPublicKeyInfo (DER), in hexadecimal: what the control host recognises the request by.
	digest string
}

func newKey() (*key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return keyOf(private)
}

func keyOf(private *ecdsa.PrivateKey) (*key, error) {
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	return &key{private, hex.EncodeToString(sum[:])}, nil
}

func parseKey(raw []byte) (*key, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("it is not an ECDSA key")
	}
	return keyOf(private)
}

func (k *key) pem() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// requestName belongs to this key alone, so that no other request can be taken for it, and fits an object's name whatever the node's.
func (k *key) requestName(node string) string { return "wsu-" + node + "-" + k.digest[:10] }

// request makes the certificate request, PEM.
func (k *key) request(node string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{organization}},
	}, k.private)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// asked reports whether a request is one for this key from our signer. ECDSA signatures differ from one request to the next, so that
// the bytes cannot be compared.
func (k *key) asked(spec kubeapi.CSRSpec) bool {
	block, _ := pem.Decode(spec.Request)
	if block == nil || spec.SignerName != signer {
		return false
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && request.CheckSignature() == nil && k.private.PublicKey.Equal(request.PublicKey)
}

// verify gives the leaf of the issued PEM where it is this key's, this node's, for clients, and in time.
func (k *key) verify(issued []byte, node string, now time.Time) (*x509.Certificate, error) {
	block, _ := pem.Decode(issued)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is not a certificate in PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return nil, err
	case !k.private.PublicKey.Equal(certificate.PublicKey):
		return nil, errors.New("it is for another key")
	case !isOf(certificate, node):
		return nil, fmt.Errorf("its subject is %s, not system:node:%s of %s", certificate.Subject, node, organization)
	case !slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return nil, errors.New("it is not for clients")
	case !inTime(certificate, now):
		return nil, fmt.Errorf("it holds from %s to %s, and this machine's clock says %s", stamp(certificate.NotBefore), stamp(certificate.NotAfter), stamp(now))
	}
	return certificate, nil
}

func isOf(certificate *x509.Certificate, node string) bool {
	return certificate.Subject.CommonName == "system:node:"+node && slices.Equal(certificate.Subject.Organization, []string{organization})
}

func inTime(certificate *x509.Certificate, now time.Time) bool {
	return !now.Before(certificate.NotBefore) && now.Add(margin).Before(certificate.NotAfter)
}

func publicKeyDigest(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// join puts certificate and key into one PEM, in the order that the kubelet has them.
func join(issued, key []byte) []byte {
	return append(append(bytes.TrimSpace(issued), '\n'), key...)
}
