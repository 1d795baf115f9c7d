// Package pki makes the sandbox's certification authorities and certificates. OpenShift has many CAs, and mixing two of
// them up is a mistake that the sandbox must show; so it has as many where a joining node meets them.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Validity of everything here. The sandbox makes it new at each start.
const validity = 10 * 365 * 24 * time.Hour

// CA signs certificates. Its certificate lies in DIR/NAME.crt and its key in DIR/NAME.key.
type CA struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
	PEM  []byte
}

// Leaf is what a certificate is for.
type Leaf struct {
	Name         string // file name
	CommonName   string
	Organization []string
	DNSNames     []string
	Addresses    []netip.Addr
	Server       bool
	Client       bool
	// UserPrincipal is the account that Windows maps a client's certificate to, as USER@DOMAIN.
	UserPrincipal string
}

// NewCA makes a CA with the subject OU=openshift, CN=commonName, as OpenShift's own are.
func NewCA(dir, name, commonName string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("CA %s: %w", name, err)
	}
	template, err := newTemplate(pkix.Name{OrganizationalUnit: []string{"openshift"}, CommonName: commonName})
	if err != nil {
		return nil, fmt.Errorf("CA %s: %w", name, err)
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("CA %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("CA %s: %w", name, err)
	}
	ca := &CA{dir: dir, name: name, cert: cert, key: key, PEM: certificatePEM(der)}
	if err := writeKeyPair(dir, name, ca.PEM, key); err != nil {
		return nil, fmt.Errorf("CA %s: %w", name, err)
	}
	return ca, nil
}

// CertFile is the CA's certificate.
func (ca *CA) CertFile() string { return filepath.Join(ca.dir, ca.name+".crt") }

// KeyFile is the CA's private key.
func (ca *CA) KeyFile() string { return filepath.Join(ca.dir, ca.name+".key") }

// Issue makes a key and a certificate for leaf and returns their files.
func (ca *CA) Issue(leaf Leaf) (certFile, keyFile string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("certificate %s: %w", leaf.Name, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organization})
	if err != nil {
		return "", "", fmt.Errorf("certificate %s: %w", leaf.Name, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.DNSNames = leaf.DNSNames
	for _, address := range leaf.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	if leaf.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if leaf.UserPrincipal != "" {
		extension, err := userPrincipal(leaf.UserPrincipal)
		if err != nil {
			return "", "", fmt.Errorf("certificate %s: %w", leaf.Name, err)
		}
		template.ExtraExtensions = append(template.ExtraExtensions, extension)
	}
	if leaf.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return "", "", fmt.Errorf("certificate %s: %w", leaf.Name, err)
	}
	if err := writeKeyPair(ca.dir, leaf.Name, certificatePEM(der), key); err != nil {
		return "", "", fmt.Errorf("certificate %s: %w", leaf.Name, err)
	}
	return filepath.Join(ca.dir, leaf.Name+".crt"), filepath.Join(ca.dir, leaf.Name+".key"), nil
}

// NewSigningKey makes the RSA key pair of the service account tokens: DIR/NAME.key and DIR/NAME.pub.
func NewSigningKey(dir, name string) (privateFile, publicFile string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", "", fmt.Errorf("key %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("key %s: %w", name, err)
	}
	privateFile, publicFile = filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if err := writeKey(privateFile, key); err != nil {
		return "", "", fmt.Errorf("key %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	return privateFile, publicFile, os.WriteFile(publicFile, block, 0o644)
}

// userPrincipal is a subject alternative name of Microsoft's kind userPrincipalName (RFC 5280 otherName, a UTF8String).
func userPrincipal(name string) (pkix.Extension, error) {
	text, err := asn1.MarshalWithParams(name, "utf8")
	if err != nil {
		return pkix.Extension{}, err
	}
	type otherName struct {
		ID    asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	one, err := asn1.MarshalWithParams(otherName{
		ID:    asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3},
		Value: asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: text},
	}, "tag:0")
	if err != nil {
		return pkix.Extension{}, err
	}
	names, err := asn1.Marshal([]asn1.RawValue{{FullBytes: one}})
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: names}, err
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity)}, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func writeKeyPair(dir, name string, cert []byte, key crypto.Signer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), cert, 0o644); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, name+".key"), key)
}

func writeKey(file string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
