package identity

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Tags of GeneralName, RFC 5280 section 4.2.1.6.
const (
	tagDNSName   = 2
	tagIPAddress = 7
)

// decideNames wants at least one subject alternative name, DNS names and addresses only, and each of them known.
func decideNames(request *x509.CertificateRequest, want Serving) Decision {
	for _, extension := range request.Extensions {
		if !extension.Id.Equal(oidSubjectAltName) {
			return refuse(RuleExtensions, "it asks for %s; only subject alternative names are allowed", showExtensions(request))
		}
		if err := onlyNamesAndAddresses(extension.Value); err != nil {
			return refuse(RuleSANTypes, "%s", err)
		}
	}
	if len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return refuse(RuleSANTypes, "it has no DNS name and no address")
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 {
		return refuse(RuleSANTypes, "it has e-mail addresses or URIs")
	}
	names := map[string]bool{normalName(want.NodeName): true}
	for _, name := range want.DNSNames {
		names[normalName(name)] = true
	}
	for _, name := range request.DNSNames {
		if name == "" || !names[normalName(name)] {
			return refuse(RuleDNSNames, "the DNS name %s is not among the machine's: %s", show(name), showAll(append([]string{want.NodeName}, want.DNSNames...)))
		}
	}
	return decideAddresses(request, want)
}

func decideAddresses(request *x509.CertificateRequest, want Serving) Decision {
	known := map[netip.Addr]bool{}
	for _, text := range want.Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			known[address.Unmap().WithZone("")] = true
		}
	}
	for _, ip := range request.IPAddresses {
		address, ok := netip.AddrFromSlice(ip)
		if !ok || !known[address.Unmap()] {
			return refuse(RuleAddresses, "the address %s is not among the machine's: %s", ip, showAll(want.Addresses))
		}
	}
	return Decision{Approve: true, Rule: RuleAll, Why: "the node asks for itself, and only for names and addresses that are known"}
}

// normalName makes names equal that DNS takes for equal.
func normalName(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// onlyNamesAndAddresses looks at the extension itself, since crypto/x509 leaves out the kinds of name that it does not know.
func onlyNamesAndAddresses(value []byte) error {
	var sequence asn1.RawValue
	rest, err := asn1.Unmarshal(value, &sequence)
	if err != nil || len(rest) > 0 || sequence.Tag != asn1.TagSequence || sequence.Class != asn1.ClassUniversal {
		return errors.New("its subject alternative names cannot be read")
	}
	for rest = sequence.Bytes; len(rest) > 0; {
		var name asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &name); err != nil {
			return errors.New("its subject alternative names cannot be read")
		}
		if name.Class != asn1.ClassContextSpecific || (name.Tag != tagDNSName && name.Tag != tagIPAddress) {
			return fmt.Errorf("it has a subject alternative name of another type than DNS name or address (tag %d)", name.Tag)
		}
	}
	return nil
}
