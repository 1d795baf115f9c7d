package identity

import (
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Requester is an identity that may ask, with the groups that it has: all of them and no other.
type Requester struct {
	Username string
	Groups   []string
}

// NodeRequester is a node that has its client certificate already.
func NodeRequester(name string) Requester {
	return Requester{Username: NodeUserPrefix + name, Groups: []string{nodesGroup, "system:authenticated"}}
}

// RequesterNamed gives the groups that the API server's authenticators put beside a user name: a service account, a
// bootstrap token (with kubeadm's group, or the plain one), a node. Any other name has no known groups and is nobody.
func RequesterNamed(username string) []Requester {
	if account, ok := strings.CutPrefix(username, "system:serviceaccount:"); ok {
		namespace, name, ok := strings.Cut(account, ":")
		if !ok || namespace == "" || name == "" || strings.Contains(name, ":") {
			return nil
		}
		return []Requester{{username, []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}}
	}
	if id, ok := strings.CutPrefix(username, "system:bootstrap:"); ok && id != "" {
		plain := []string{"system:bootstrappers", "system:authenticated"}
		return []Requester{
			{username, append(slices.Clone(plain), "system:bootstrappers:kubeadm:default-node-token")},
			{username, plain},
		}
	}
	if name, ok := strings.CutPrefix(username, NodeUserPrefix); ok && name != "" {
		return []Requester{NodeRequester(name)}
	}
	return nil
}

func decideRequester(spec certificatesv1.CertificateSigningRequestSpec, allowed []Requester) Decision {
	known := false
	for _, requester := range allowed {
		if spec.Username != requester.Username || requester.Username == "" {
			continue
		}
		known = true
		if sameSet(spec.Groups, requester.Groups) {
			return approve
		}
	}
	if known {
		return refuse(RuleGroups, "the requester's groups are %s, which are not exactly those of %s", showAll(spec.Groups), show(spec.Username))
	}
	names := make([]string, 0, len(allowed))
	for _, requester := range allowed {
		names = append(names, requester.Username)
	}
	return refuse(RuleRequester, "it was made by %s, not by %s", show(spec.Username), showAll(slices.Compact(names)))
}

// sameSet compares without order; a repeated element is no other set's.
func sameSet[T ~string](a, b []T) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
