// Package csrapprove is the module csr_approve: it approves the certificate signing requests of one host that is being joined,
// and of nobody else. The rules are those of internal/identity.
package csrapprove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/identity"
	"wsu.windows/internal/reason"
)

// Module is the module.
var Module = ansible.New("csr_approve", Run)

// Args are the module's arguments.
type Args struct {
	Kubeconfig string `json:"kubeconfig" path:"true"`
	NodeName   string `json:"node_name" required:"true"`
	// Exactly one of Client and Serving.
	Client  *Client  `json:"client"`
	Serving *Serving `json:"serving"`
	// Timeout is in seconds.
	Timeout int `json:"timeout" default:"120"`
}

// Client says what the host reported of its client CSR.
type Client struct {
	CSR             string   `json:"csr"`
	PublicKeySHA256 string   `json:"public_key_sha256" required:"true"`
	Requesters      []string `json:"requesters" required:"true"`
}

// Serving says for what the host may have a serving certificate.
type Serving struct {
	Addresses []string `json:"addresses"`
	DNSNames  []string `json:"dns_names"`
	// Since is RFC 3339, in the API server's time: requests made before do not count as this run's.
	Since string `json:"since"`
}

// Result is what the module returns.
type Result struct {
	Approved []Approved `json:"approved"`
	Already  []Approved `json:"already"`
	Refused  []Refused  `json:"refused"`
	// Seen counts the requests in this node's name.
	Seen int `json:"seen"`
}

// Approved is a request that is approved.
type Approved struct {
	Name   string `json:"name"`
	Signer string `json:"signer"`
}

// Refused is a request in this node's name that breaks a rule.
type Refused struct {
	Name string        `json:"name"`
	Rule identity.Rule `json:"rule"`
	Why  string        `json:"why"`
}

// maxRefused bounds the list: whoever floods the cluster with requests shall not fill the log of this run.
const maxRefused = 50

// Validate checks what the struct's tags cannot say.
func (a *Args) Validate() error {
	if (a.Client == nil) == (a.Serving == nil) {
		return reason.New(reason.ArgumentInvalid, "arguments client, serving", "exactly one of them must be given", "Give client for the node's first certificate, serving for the kubelet's.")
	}
	if a.Timeout < 1 {
		return reason.New(reason.ArgumentInvalid, fmt.Sprintf("argument timeout=%d", a.Timeout), "it must be at least 1", "Give the time limit in seconds.")
	}
	if a.Client != nil {
		return a.Client.validate()
	}
	if a.Serving.Since == "" {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, a.Serving.Since); err != nil {
		return reason.New(reason.ArgumentInvalid, "argument serving.since", "it is no time as 2026-01-31T12:00:00Z", "Give cluster_info's api_time.")
	}
	return nil
}

func (c *Client) validate() error {
	if len(c.PublicKeySHA256) != 64 || strings.Trim(strings.ToLower(c.PublicKeySHA256), "0123456789abcdef") != "" {
		return reason.New(reason.ArgumentInvalid, "argument client.public_key_sha256", "it is not 64 hexadecimal digits", "Give what wmcb enroll reported.")
	}
	for _, name := range c.Requesters {
		if len(identity.RequesterNamed(name)) == 0 {
			return reason.New(reason.ArgumentInvalid, "argument client.requesters", fmt.Sprintf("%q is no service account, bootstrap token or node", name),
				"Give user names as system:serviceaccount:NAMESPACE:NAME or system:bootstrap:ID.")
		}
	}
	return nil
}

// Run waits for the host's request and approves it.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	client, err := cluster.Connect(args.Kubeconfig)
	if err != nil {
		return ansible.Result{}, err
	}
	approver := newApprover(client, env, args)
	if env.CheckMode {
		err = approver.look(ctx)
	} else {
		err = approver.wait(ctx)
	}
	return ansible.Result{Changed: len(approver.result.Approved) > 0, Msg: approver.summary(), Data: approver.result}, err
}

// api is what the approver needs of the cluster.
type api interface {
	FollowCSRs(ctx context.Context, signer string, f cluster.Follower[*certificatesv1.CertificateSigningRequest]) error
	EachCSR(ctx context.Context, signer string, see func(*certificatesv1.CertificateSigningRequest)) error
	CSR(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error)
	ApproveCSR(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, why, message string) error
}

// approver goes through the requests of one signer for one node.
type approver struct {
	api       api
	env       *ansible.Env
	args      *Args
	signer    string
	checkMode bool
	result    Result
	seen      map[string]bool // UIDs of what was decided on
}

func newApprover(client api, env *ansible.Env, args *Args) *approver {
	signer := certificatesv1.KubeAPIServerClientKubeletSignerName
	if args.Serving != nil {
		signer = certificatesv1.KubeletServingSignerName
	}
	return &approver{
		api: client, env: env, args: args, signer: signer, checkMode: env.CheckMode, seen: map[string]bool{},
		result: Result{Approved: []Approved{}, Already: []Approved{}, Refused: []Refused{}},
	}
}

// wait follows the requests until the host's own is approved, or the time is over.
func (a *approver) wait(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, time.Duration(a.args.Timeout)*time.Second)
	defer cancel()
	a.env.Progress.Say("csr", fmt.Sprintf("waiting for the %s CSR of node %s", a.kind(), a.args.NodeName))
	err := a.api.FollowCSRs(limited, a.signer, cluster.Follower[*certificatesv1.CertificateSigningRequest]{
		See: func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, deleted bool) error {
			if deleted {
				return nil
			}
			return a.consider(ctx, csr)
		},
		Done: a.done,
	})
	if ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) && !a.done() {
		return a.nothingCame(err)
	}
	return err
}

// look decides on what is there, for check mode.
func (a *approver) look(ctx context.Context) error {
	var first error
	err := a.api.EachCSR(ctx, a.signer, func(csr *certificatesv1.CertificateSigningRequest) {
		if err := a.consider(ctx, csr); err != nil && first == nil {
			first = err
		}
	})
	return errors.Join(err, first)
}

func (a *approver) done() bool { return len(a.result.Approved)+len(a.result.Already) > 0 }

func (a *approver) kind() string {
	if a.args.Serving != nil {
		return "serving"
	}
	return "client"
}

// consider decides on one request, once.
func (a *approver) consider(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	if csr.Spec.SignerName != a.signer || a.seen[string(csr.UID)] || !a.concerns(csr) {
		return nil
	}
	settled, decision := a.settled(csr), a.decide(csr)
	if !decision.Approve {
		if settled == certificatesv1.CertificateDenied && !a.isReported(csr) {
			return nil // somebody saw to it
		}
		a.count(csr)
		return a.refuse(csr, decision)
	}
	if settled != "" && a.ofFormerLife(csr) {
		return nil
	}
	if err := a.approve(ctx, csr); err != nil {
		return err
	}
	a.count(csr)
	return nil
}

func (a *approver) count(csr *certificatesv1.CertificateSigningRequest) {
	a.seen[string(csr.UID)] = true
	a.result.Seen++
}

// concerns tells requests in this node's name from all others. Reading a stranger's request costs microseconds.
func (a *approver) concerns(csr *certificatesv1.CertificateSigningRequest) bool {
	if a.isReported(csr) || csr.Spec.Username == identity.NodeUserPrefix+a.args.NodeName {
		return true
	}
	request, err := identity.Parse(csr.Spec.Request)
	return err == nil && request.Subject.CommonName == identity.NodeUserPrefix+a.args.NodeName
}

// isReported is true for the request that the host itself named.
func (a *approver) isReported(csr *certificatesv1.CertificateSigningRequest) bool {
	return a.args.Client != nil && a.args.Client.CSR != "" && csr.Name == a.args.Client.CSR
}

func (a *approver) decide(csr *certificatesv1.CertificateSigningRequest) identity.Decision {
	if serving := a.args.Serving; serving != nil {
		return identity.DecideServing(csr.Spec, identity.Serving{NodeName: a.args.NodeName, Addresses: serving.Addresses, DNSNames: serving.DNSNames})
	}
	var requesters []identity.Requester
	for _, name := range a.args.Client.Requesters {
		requesters = append(requesters, identity.RequesterNamed(name)...)
	}
	return identity.DecideClient(csr.Spec, identity.Client{NodeName: a.args.NodeName, PublicKeySHA256: a.args.Client.PublicKeySHA256, Requesters: requesters})
}

// refuse records a request that breaks a rule. The one that the host reported can never become right.
func (a *approver) refuse(csr *certificatesv1.CertificateSigningRequest, decision identity.Decision) error {
	if len(a.result.Refused) < maxRefused {
		a.result.Refused = append(a.result.Refused, Refused{Name: csr.Name, Rule: decision.Rule, Why: decision.Why})
	}
	a.env.Progress.Say("csr", fmt.Sprintf("%s not approved, rule %s: %s", csr.Name, decision.Rule, decision.Why))
	if a.isReported(csr) {
		return reason.New(reason.CSRRefused, "csr "+csr.Name, fmt.Sprintf("it breaks the rule %s: %s", decision.Rule, decision.Why), "")
	}
	return nil
}

// ofFormerLife is true for settled serving requests that are none of this run's: the kubelet's key is its own secret, so only
// the time tells. Creation times have whole seconds.
func (a *approver) ofFormerLife(csr *certificatesv1.CertificateSigningRequest) bool {
	if a.args.Serving == nil {
		return false
	}
	if a.args.Serving.Since == "" {
		return a.settled(csr) != certificatesv1.CertificateApproved
	}
	since, err := time.Parse(time.RFC3339, a.args.Serving.Since)
	return err == nil && csr.CreationTimestamp.Time.Before(since.Truncate(time.Second))
}

// settled gives the condition that ends a request, or "". A failed request is approved too: the failure counts.
func (a *approver) settled(csr *certificatesv1.CertificateSigningRequest) certificatesv1.RequestConditionType {
	var found certificatesv1.RequestConditionType
	for _, condition := range csr.Status.Conditions {
		if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed || found == "" {
			found = condition.Type
		}
	}
	return found
}

// approve approves exactly what was decided on, or finds that somebody did.
func (a *approver) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	entry := Approved{Name: csr.Name, Signer: a.signer}
	for {
		switch a.settled(csr) {
		case certificatesv1.CertificateApproved:
			a.result.Already = append(a.result.Already, entry)
			return nil
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return a.ended(csr)
		}
		if a.checkMode {
			a.result.Approved = append(a.result.Approved, entry)
			return nil
		}
		message := fmt.Sprintf("wsu.windows: every identity rule holds for node %s", a.args.NodeName)
		err := a.api.ApproveCSR(ctx, csr, "WSUApproved", message)
		if err == nil {
			a.env.Progress.Say("csr", csr.Name+" approved")
			a.result.Approved = append(a.result.Approved, entry)
			return nil
		}
		if !cluster.IsConflict(err) {
			return err
		}
		// Somebody wrote to it meanwhile. A request's content cannot change, but a new one can have the old one's name.
		again, err := a.api.CSR(ctx, csr.Name)
		if cluster.IsNotFound(err) || (err == nil && again.UID != csr.UID) {
			return nil
		}
		if err != nil {
			return err
		}
		csr = again
	}
}

// ended says why a request that is the host's own will never have a certificate.
func (a *approver) ended(csr *certificatesv1.CertificateSigningRequest) error {
	code, words := reason.CSRRefused, "it was denied"
	if a.settled(csr) == certificatesv1.CertificateFailed {
		code, words = reason.CertificateNotIssued, "the signer failed"
	}
	for _, condition := range csr.Status.Conditions {
		if condition.Type == a.settled(csr) {
			words += fmt.Sprintf(" (%s: %s)", condition.Reason, condition.Message)
		}
	}
	return reason.New(code, "csr "+csr.Name, words, "Find out who decided so; then run the playbook again, which makes a new request.")
}

// nothingCame says what was seen instead of the host's request.
func (a *approver) nothingCame(cause error) error {
	if away := reason.Of(cause); reason.Is(cause, reason.APIUnreachable) {
		return away
	}
	object := fmt.Sprintf("%s CSR of node %s", a.kind(), a.args.NodeName)
	waited := fmt.Sprintf("within %d s", a.args.Timeout)
	if len(a.result.Refused) == 0 {
		return reason.New(reason.CSRMissing, object, "no request came "+waited, a.missingRemedy())
	}
	var refused []string
	own := a.args.Serving != nil
	for _, r := range a.result.Refused[:min(len(a.result.Refused), 5)] {
		refused = append(refused, fmt.Sprintf("%s breaks the rule %s: %s", r.Name, r.Rule, r.Why))
	}
	if more := len(a.result.Refused) - len(refused); more > 0 {
		refused = append(refused, fmt.Sprintf("and %d more", more))
	}
	// Only the node itself can make a serving request in its name; a client request anybody with the bootstrap token can.
	if own && slices.ContainsFunc(a.result.Refused, func(r Refused) bool { return r.Rule != identity.RuleRequester }) {
		return reason.New(reason.CSRRefused, object, "no request was approved "+waited+"; "+strings.Join(refused, "; "), "Correct the host's names and addresses, in the inventory or on the machine; approve nothing by hand before you know why.")
	}
	return reason.New(reason.CSRMissing, object, "the host's own request did not come "+waited+"; others in its name did: "+strings.Join(refused, "; "),
		"Find out who made them: somebody may be using the bootstrap token.")
}

func (a *approver) missingRemedy() string {
	if a.args.Serving != nil {
		return "See the kubelet's log on the host: it asks for its serving certificate when it runs and knows its addresses."
	}
	return "Check that the host reaches the API server, then run the playbook again."
}

func (a *approver) summary() string {
	node := fmt.Sprintf("%s CSR of node %s: ", a.kind(), a.args.NodeName)
	switch {
	case a.checkMode && len(a.result.Approved) == 0 && len(a.result.Already) == 0:
		return node + "none is there yet; it would be waited for and approved"
	case a.checkMode && len(a.result.Approved) > 0:
		return node + "would approve " + names(a.result.Approved)
	case len(a.result.Approved) > 0:
		return node + "approved " + names(a.result.Approved)
	case len(a.result.Already) > 0:
		return node + "was approved already: " + names(a.result.Already)
	}
	return node + "not approved"
}

func names(list []Approved) string {
	var all []string
	for _, entry := range list {
		all = append(all, entry.Name)
	}
	return strings.Join(all, ", ")
}
