// Package enroll gives a node its identity: a key that is made on the node and never leaves it, a request for a client certificate with the
// cluster's bootstrap credentials, and the issued certificate where the kubelet takes it. Each part is repeatable: a key that waits for its
// certificate is kept, and with it the request's name, so that an interrupted run goes on where it stopped.
package enroll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/ignition"
	"wsu.windows/internal/kubeapi"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
	"wsu.windows/internal/wmcb/apply"
)

const signer = "kubernetes.io/kube-apiserver-client-kubelet"

// usages are those that the signer wants of an ECDSA key.
var usages = []string{"digital signature", "client auth"}

// Options of one run.
type Options struct {
	Spec *nodespec.NodeSpec
	// Wait bounds the waiting for the certificate; 0 submits the request and looks once.
	Wait     time.Duration
	Progress *progress.Reporter
}

// For gives what apply calls where the node has no certificate.
func For(reporter *progress.Reporter) apply.Enroll {
	return func(ctx context.Context, spec *nodespec.NodeSpec, wait time.Duration) (nodereport.Enroll, error) {
		return Run(ctx, Options{Spec: spec, Wait: wait, Progress: reporter})
	}
}

// Run enrolls the node that the specification describes.
func Run(ctx context.Context, options Options) (nodereport.Enroll, error) {
	report := nodereport.Enroll{
		Header:   nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Enroll", WMCB: version.Release},
		NodeName: options.Spec.Node.Name, Addresses: []string{}, DNSNames: []string{},
	}
	err := run(ctx, options, &report)
	if err != nil {
		var known *reason.Error
		if !errors.As(err, &known) {
			err = reason.Wrap(reason.EnrollFailed, "node "+options.Spec.Node.Name, err, "Run it again; if it repeats, see the support archive.")
		}
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

// enrollment is one run on one machine.
type enrollment struct {
	Options
	worker *ignition.Worker
	files  files
	report *nodereport.Enroll
}

func run(ctx context.Context, options Options, report *nodereport.Enroll) error {
	worker, err := apply.ReadIgnition(options.Spec)
	if err != nil {
		return err
	}
	e := &enrollment{Options: options, worker: worker, files: filesOf(options.Spec), report: report}
	if err := e.describe(ctx); err != nil {
		return err
	}
	present, err := e.certificateIsGood(ctx)
	if err != nil || present {
		return err
	}
	bootstrap, err := kubeconfig.Parse(worker.BootstrapKubeconfig, "")
	if err != nil {
		return reason.New(reason.IgnitionInvalid, "bootstrap kubeconfig", err.Error(), "")
	}
	client, err := kubeapi.New(bootstrap)
	if err != nil {
		return err
	}
	defer client.Close()
	return e.request(ctx, client)
}

// describe says what the kubelet's serving certificate may carry.
func (e *enrollment) describe(ctx context.Context) error {
	e.report.Addresses = slices.Clone(e.Spec.Node.Addresses)
	if len(e.report.Addresses) == 0 {
		address, err := apply.ThisHost().NodeIP(ctx, e.worker.APIServer)
		if err != nil {
			return reason.Wrap(reason.NetworkUnsuitable, "node "+e.Spec.Node.Name, err, "")
		}
		e.report.Addresses = []string{address}
	}
	e.report.DNSNames = []string{e.Spec.Node.Name}
	if host, err := os.Hostname(); err == nil && !strings.EqualFold(host, e.Spec.Node.Name) {
		e.report.DNSNames = append(e.report.DNSNames, strings.ToLower(host))
	}
	return nil
}

// request brings the node's request to its certificate.
func (e *enrollment) request(ctx context.Context, client *kubeapi.Client) error {
	key, err := e.submit(ctx, client)
	if err != nil {
		return e.explain(err)
	}
	csr, err := client.WaitCSR(ctx, e.report.CSR, e.Wait)
	if err != nil {
		return e.explain(err)
	}
	if refusal, refused := csr.Refused(); refused {
		return reason.New(reason.CSRRefused, "CSR "+e.report.CSR, fmt.Sprintf("it was %s: %s %s", strings.ToLower(refusal.Type), refusal.Reason, refusal.Message),
			"Find out who refused it and why; the next run makes another request.")
	}
	if len(csr.Status.Certificate) == 0 {
		e.report.State = nodereport.CertificatePending
		return nil
	}
	return e.install(csr.Status.Certificate, key)
}

// submit makes sure that the request of the node's key is there. One that was refused in an earlier run is done with: it is made anew,
// with another key.
func (e *enrollment) submit(ctx context.Context, client *kubeapi.Client) (*key, error) {
	for {
		key, err := e.files.pendingKey()
		if err != nil {
			return nil, err
		}
		e.report.CSR, e.report.PublicKeySHA256 = key.requestName(e.Spec.Node.Name), key.digest
		request, err := key.request(e.Spec.Node.Name)
		if err != nil {
			return nil, err
		}
		e.Progress.Say("csr", fmt.Sprintf("%s with the key %s", e.report.CSR, key.digest[:16]))
		err = client.CreateCSR(ctx, e.report.CSR, kubeapi.CSRSpec{Request: request, SignerName: signer, Usages: usages})
		if err == nil {
			return key, nil
		}
		if !errors.Is(err, kubeapi.ErrExists) {
			return nil, err
		}
		existing, err := client.GetCSR(ctx, e.report.CSR)
		if err != nil {
			return nil, err
		}
		if !key.asked(existing.Spec) {
			return nil, reason.New(reason.CSRRefused, "CSR "+e.report.CSR, "somebody else made a request of that name with another content",
				"Find out who did; then delete it and run it again.")
		}
		if _, refused := existing.Refused(); !refused {
			return key, nil
		}
		if err := e.files.dropPendingKey(); err != nil {
			return nil, err
		}
	}
}

// explain says what the API server's answers mean here.
func (e *enrollment) explain(err error) error {
	switch {
	case errors.Is(err, kubeapi.ErrUnauthorized):
		return reason.New(reason.EnrollFailed, "bootstrap credentials of the Ignition", "the API server does not accept them: the token was revoked, or it is another cluster's",
			"Give the present worker Ignition of this cluster.")
	case errors.Is(err, kubeapi.ErrNotFound):
		return reason.New(reason.EnrollFailed, "CSR "+e.report.CSR, "it was deleted while the node waited for it", "Run it again.")
	}
	return err
}

// certificateIsGood reports whether the node has a certificate that this cluster accepts, for this name, for a while; and puts right what
// an interrupted run left undone around it.
func (e *enrollment) certificateIsGood(ctx context.Context) (bool, error) {
	certificate, err := e.files.certificate()
	if err != nil || certificate == nil || !isOf(certificate, e.Spec.Node.Name) || !inTime(certificate, time.Now()) {
		return false, err
	}
	raw, err := os.ReadFile(e.files.current)
	if err != nil {
		return false, err
	}
	client, err := kubeapi.New(&kubeconfig.Kubeconfig{Server: e.worker.APIServer, CA: e.worker.APIServerCA, ClientCert: raw, ClientKey: raw})
	if err != nil {
		return false, err
	}
	defer client.Close()
	if err := client.KnowsNode(ctx, e.Spec.Node.Name); errors.Is(err, kubeapi.ErrUnauthorized) {
		return false, nil // another cluster's, or this one's before its authority changed
	} else if err != nil && !reason.Is(err, reason.APIForbidden) {
		return false, err
	}
	e.report.State, e.report.PublicKeySHA256 = nodereport.CertificatePresent, publicKeyDigest(certificate)
	e.report.NotAfter = certificate.NotAfter.UTC().Format(time.RFC3339)
	return true, e.settleFiles()
}

// install verifies the issued certificate and puts it where the kubelet takes it.
func (e *enrollment) install(issued []byte, key *key) error {
	certificate, err := key.verify(issued, e.Spec.Node.Name, time.Now())
	if err != nil {
		return reason.Wrap(reason.EnrollFailed, "certificate of CSR "+e.report.CSR, err, "Check the cluster's signer and the machine's clock.")
	}
	if err := e.files.keep(issued, key); err != nil {
		return err
	}
	e.report.State, e.report.Changed = nodereport.CertificateIssued, true
	e.report.NotAfter = certificate.NotAfter.UTC().Format(time.RFC3339)
	return e.settleFiles()
}

// settleFiles makes the kubeconfig that names the certificate, and drops the pending key, which has served.
func (e *enrollment) settleFiles() error {
	changed, err := e.files.writeKubeconfig(e.worker.APIServer, e.worker.APIServerCA)
	if err != nil {
		return err
	}
	e.report.Changed = e.report.Changed || changed
	return e.files.dropPendingKey()
}
