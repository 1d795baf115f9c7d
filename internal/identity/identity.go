// Package identity holds the rules by which a certificate signing request (CSR) of a node may be approved, and nothing
// else: pure functions of the request and of what the control host knows of the machine.
//
// Whoever holds the cluster's bootstrap token can ask for any node's name; subject, requester, groups and usages of a
// forged request are then those of a genuine one. Only the key tells them apart. So a client CSR must carry the key that the
// machine reported over its authenticated channel. A serving CSR is authenticated by the client certificate, and may ask only
// for names and addresses that the inventory or the machine reported. The shapes are those of Kubernetes' own signers
// (k8s.io/kubernetes/pkg/apis/certificates/helpers.go), made stricter.
package identity

import (
	certificatesv1 "k8s.io/api/certificates/v1"
)

// Rule names one rule; a decision against a request carries the first one that it breaks.
type Rule string

// The rules, in the order in which they are applied.
const (
	RuleSigner       Rule = "signer"
	RuleRequester    Rule = "requester"
	RuleGroups       Rule = "groups"
	RuleUsages       Rule = "usages"
	RuleExpiration   Rule = "expiration"
	RuleEncoding     Rule = "encoding"
	RuleSignature    Rule = "signature"
	RuleKeyType      Rule = "key_type"
	RuleCommonName   Rule = "common_name"
	RuleOrganization Rule = "organization"
	RuleSubject      Rule = "subject"
	RuleExtensions   Rule = "extensions"
	RuleSANTypes     Rule = "san_types"
	RuleDNSNames     Rule = "dns_names"
	RuleAddresses    Rule = "addresses"
	RulePublicKey    Rule = "public_key"
	// RuleAll is the rule of an approval: every other one holds.
	RuleAll Rule = "all"
)

// Decision is what the rules say of one request.
type Decision struct {
	Approve bool
	// Rule is the first broken rule, or RuleAll.
	Rule Rule
	// Why says in one sentence what was seen and what was expected. It may quote the request, cleaned and shortened.
	Why string
}

// Client is what is known of a node that asks for its client certificate.
type Client struct {
	NodeName string
	// PublicKeySHA256 is the digest of the key's SubjectPublicKeyInfo (DER) that the machine reported, in hexadecimal.
	PublicKeySHA256 string
	// Requesters are the bootstrap identities of this cluster.
	Requesters []Requester
}

// Serving is what is known of a node that asks for its serving certificate.
type Serving struct {
	NodeName string
	// Addresses and DNSNames are those that the inventory or the machine itself reported; the node's name is one of them
	// by itself.
	Addresses []string
	DNSNames  []string
}

// NodeUserPrefix begins every node's user name and every node certificate's common name.
const NodeUserPrefix = "system:node:"

const nodesGroup = "system:nodes"

// DecideClient applies the rules for client certificates.
func DecideClient(spec certificatesv1.CertificateSigningRequestSpec, want Client) Decision {
	if spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return refuse(RuleSigner, "the signer is %s, not %s", show(spec.SignerName), certificatesv1.KubeAPIServerClientKubeletSignerName)
	}
	if d := decideRequester(spec, want.Requesters); !d.Approve {
		return d
	}
	if d := decideUsages(spec, certificatesv1.UsageClientAuth); !d.Approve {
		return d
	}
	request, d := decideShape(spec, want.NodeName)
	if !d.Approve {
		return d
	}
	if len(request.Extensions) > 0 {
		return refuse(extensionRule(request), "it asks for %s; a client certificate has no names and no extensions", showExtensions(request))
	}
	return decideKey(request, want.PublicKeySHA256)
}

// DecideServing applies the rules for serving certificates.
func DecideServing(spec certificatesv1.CertificateSigningRequestSpec, want Serving) Decision {
	if spec.SignerName != certificatesv1.KubeletServingSignerName {
		return refuse(RuleSigner, "the signer is %s, not %s", show(spec.SignerName), certificatesv1.KubeletServingSignerName)
	}
	if want.NodeName == "" {
		return refuse(RuleCommonName, "no node name is expected")
	}
	if d := decideRequester(spec, []Requester{NodeRequester(want.NodeName)}); !d.Approve {
		return d
	}
	if d := decideUsages(spec, certificatesv1.UsageServerAuth); !d.Approve {
		return d
	}
	request, d := decideShape(spec, want.NodeName)
	if !d.Approve {
		return d
	}
	return decideNames(request, want)
}
