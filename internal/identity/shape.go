package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	// maxRequest bounds the PEM in bytes; a request with a 4096-bit RSA key and some names has about 2 kB.
	maxRequest = 16 << 10
	// RSA keys in bits: below the minimum they are weak, above the maximum they only cost time.
	minRSA, maxRSA = 2048, 8192
	// expirationSeconds: the API's own minimum, and a leap year. Kubelets ask for nothing.
	minExpiration, maxExpiration = 600, 366 * 24 * 3600
	pemType                      = "CERTIFICATE REQUEST"
)

// decideUsages wants exactly the usages that a kubelet asks for: digital signature and the one given, and with RSA keys
// (older kubelets: with all) also key encipherment.
func decideUsages(spec certificatesv1.CertificateSigningRequestSpec, auth certificatesv1.KeyUsage) Decision {
	least := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, auth}
	if !sameSet(spec.Usages, least) && !sameSet(spec.Usages, append(least, certificatesv1.UsageKeyEncipherment)) {
		return refuse(RuleUsages, "the usages are %s, not digital signature and %s (with or without key encipherment)", showAll(spec.Usages), auth)
	}
	if seconds := spec.ExpirationSeconds; seconds != nil && (*seconds < minExpiration || *seconds > maxExpiration) {
		return refuse(RuleExpiration, "it asks for %d seconds of validity; %d to %d are allowed", *seconds, minExpiration, maxExpiration)
	}
	return approve
}

// decideShape reads the request and applies what client and serving requests have in common.
func decideShape(spec certificatesv1.CertificateSigningRequestSpec, nodeName string) (*x509.CertificateRequest, Decision) {
	request, err := Parse(spec.Request)
	if err != nil {
		return nil, refuse(RuleEncoding, "%s", show(err.Error()))
	}
	// The API server checks the signature when a request is made; whoever holds the key must have signed it.
	if err := request.CheckSignature(); err != nil {
		return nil, refuse(RuleSignature, "the request is not signed with its own key: %s", show(err.Error()))
	}
	if problem := weakness(request); problem != "" {
		return nil, refuse(RuleKeyType, "%s", problem)
	}
	return request, decideSubject(request, nodeName)
}

// Parse reads one PEM block of a certificate request, without anything before or after it.
func Parse(content []byte) (*x509.CertificateRequest, error) {
	if len(content) > maxRequest {
		return nil, fmt.Errorf("the request has more than %d bytes", maxRequest)
	}
	if !bytes.HasPrefix(content, []byte("-----BEGIN "+pemType+"-----")) {
		return nil, errors.New("the request does not begin with a PEM block of type " + pemType)
	}
	block, rest := pem.Decode(content)
	if block == nil || block.Type != pemType {
		return nil, errors.New("the request is not a PEM block of type " + pemType)
	}
	if len(block.Headers) > 0 {
		return nil, errors.New("the PEM block has headers")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("something follows the PEM block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	return request, nil
}

func weakness(request *x509.CertificateRequest) string {
	switch key := request.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return fmt.Sprintf("the RSA key has %d bits; %d to %d are allowed", bits, minRSA, maxRSA)
		}
	case *ecdsa.PublicKey:
		if !slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, key.Curve) {
			return fmt.Sprintf("the ECDSA key is on the curve %s; P-256, P-384 and P-521 are allowed", key.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Sprintf("the key is of the kind %s; ECDSA, RSA and Ed25519 are allowed", request.PublicKeyAlgorithm)
	}
	return ""
}

func decideSubject(request *x509.CertificateRequest, nodeName string) Decision {
	if want := NodeUserPrefix + nodeName; nodeName == "" || request.Subject.CommonName != want {
		return refuse(RuleCommonName, "the common name is %s, not %s", show(request.Subject.CommonName), want)
	}
	if !slices.Equal(request.Subject.Organization, []string{nodesGroup}) {
		return refuse(RuleOrganization, "the organisations are %s, not exactly %s", showAll(request.Subject.Organization), nodesGroup)
	}
	if len(request.Subject.Names) != 2 {
		return refuse(RuleSubject, "the subject has more than a common name and an organisation: %s", show(request.Subject.String()))
	}
	return approve
}

func decideKey(request *x509.CertificateRequest, want string) Decision {
	seen := PublicKeySHA256(request)
	if want = strings.ToLower(want); len(want) != len(seen) || subtle.ConstantTimeCompare([]byte(seen), []byte(want)) != 1 {
		return refuse(RulePublicKey, "its public key (SHA-256 %s) is not the one that the machine reported (%s)", seen, show(want))
	}
	return Decision{Approve: true, Rule: RuleAll, Why: "it carries the key that the machine reported, and every other field is as expected"}
}

// PublicKeySHA256 is the digest of a request's SubjectPublicKeyInfo (DER), in lower-case hexadecimal.
func PublicKeySHA256(request *x509.CertificateRequest) string {
	sum := sha256.Sum256(request.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

func extensionRule(request *x509.CertificateRequest) Rule {
	if request.Extensions[0].Id.Equal(oidSubjectAltName) {
		return RuleSANTypes
	}
	return RuleExtensions
}

func showExtensions(request *x509.CertificateRequest) string {
	var shown []string
	for _, extension := range request.Extensions {
		if extension.Id.Equal(oidSubjectAltName) {
			shown = append(shown, "subject alternative names")
		} else {
			shown = append(shown, "extension "+extension.Id.String())
		}
	}
	return strings.Join(shown[:min(len(shown), 5)], ", ")
}
