package apply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/wmcb/state"
)

// builder makes the list of steps of one specification on one machine.
type builder struct {
	spec   *nodespec.NodeSpec
	host   Host
	layout layout
	// before is the state that was found, or nil, and after the commit the new one; replaced is then the one that was found.
	before, replaced *state.State
	// made is what was recorded when the specification was applied, for a status and a roll-back; else nil, and everything is made anew.
	made *contents
	// restoring is a roll-back: the node's identity and trust stay as they are.
	restoring bool
	// worker is nil where the Ignition is not there and does not have to be.
	worker *ignition.Worker
	nodeIP string
	enroll func(ctx context.Context) (nodereport.Enroll, error)
	// dependants are the services that were stopped with the kubelet and have to run again.
	dependants []string
	warnings   []string
	// logOffset is where the kubelet's log ended before it was started, failureLog what it said in it if that failed.
	logOffset  int64
	failureLog []string
}

// newBuilder reads what the steps are made of. With recorded it takes what was made when that was applied. Without, the Ignition has to be
// there, but for a dry run: content that was not transferred yet is no error then.
func newBuilder(ctx context.Context, options Options, before *state.State, recorded *state.Applied) (*builder, error) {
	b := &builder{spec: options.Spec, host: options.Host, layout: layoutOf(options.Spec), before: before}
	worker, err := b.readIgnition()
	if err != nil && !((options.DryRun || recorded != nil) && reason.Is(err, reason.FileMissing)) {
		return nil, err
	}
	b.worker = worker
	if recorded != nil {
		b.made = b.readMade(recorded)
		b.nodeIP = recorded.NodeIP
	}
	if b.nodeIP == "" {
		if b.nodeIP, err = b.chooseNodeIP(ctx); err != nil {
			return nil, err
		}
	}
	b.enroll = func(ctx context.Context) (nodereport.Enroll, error) {
		return options.Enroll(ctx, options.Spec, options.EnrollWait)
	}
	return b, nil
}

func (b *builder) readIgnition() (*ignition.Worker, error) { return ReadIgnition(b.spec) }

// ReadIgnition reads the worker Ignition that a specification names, from the store or from a file. Its digest is verified.
func ReadIgnition(spec *nodespec.NodeSpec) (*ignition.Worker, error) {
	path, object := spec.Bootstrap.IgnitionFile, spec.Bootstrap.IgnitionFile
	digest := spec.Bootstrap.IgnitionSHA256
	if digest != "" {
		path, object = filepath.Join(layoutOf(spec).store, digest), "Ignition "+digest
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.New(reason.FileMissing, object, "it is not on this machine", "")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	sum := sha256.Sum256(raw)
	if digest != "" && hex.EncodeToString(sum[:]) != digest {
		return nil, reason.New(reason.FileMissing, object, "its content in the store is damaged: the SHA-256 is "+hex.EncodeToString(sum[:]),
			"Transfer the release's files again.")
	}
	return ignition.Parse(raw)
}

// chooseNodeIP keeps the address that the node registered with as long as the routing table does not say another one.
func (b *builder) chooseNodeIP(ctx context.Context) (string, error) {
	if len(b.spec.Node.Addresses) > 0 {
		return b.spec.Node.Addresses[0], nil
	}
	recorded := ""
	if b.before != nil && b.before.Current != nil {
		recorded = b.before.Current.NodeIP
	}
	if b.worker == nil {
		return recorded, nil
	}
	address, err := b.host.NodeIP(ctx, b.worker.APIServer)
	if err == nil {
		return address, nil
	}
	if recorded != "" {
		return recorded, nil
	}
	return "", reason.Wrap(reason.NetworkUnsuitable, "node "+b.spec.Node.Name, err, "")
}

// steps is the list: what the running kubelet does not see first, then the stop, then what it reads, then the start.
func (b *builder) steps() ([]transaction.Step, error) {
	c, err := b.contents()
	if err != nil {
		return nil, err
	}
	l := b.layout
	var steps []transaction.Step
	for _, folder := range folders(b.spec) {
		steps = append(steps, folderStep(folder.path, folder.protected))
	}
	if !b.restoring {
		steps = append(steps, purgeStep(l, b.before == nil || b.before.Current == nil))
	}
	var held []transaction.Step // files of a release that is running already
	for _, f := range b.spec.Files {
		if f.Name == "wmcb.exe" {
			continue // the transfer puts it into the install folder; it is not part of what a release folder runs
		}
		if b.before != nil && b.before.Current != nil && b.before.Current.Release == b.spec.Release {
			held = append(held, releaseFile(l, f))
			continue
		}
		steps = append(steps, releaseFile(l, f))
	}
	if !b.restoring {
		steps = append(steps,
			file{name: "bootstrap-kubeconfig", action: "Write " + l.bootstrap, path: l.bootstrap, content: c.bootstrap, secret: true}.step(l.install),
			file{name: "kubelet-ca", action: "Write " + l.kubeletCA, path: l.kubeletCA, content: c.kubeletCA}.step(l.install),
			b.certificateStep())
	}
	steps = append(append(steps, b.firewallStep(), b.stopStep()), held...)
	for _, f := range c.files {
		steps = append(steps, f.step(l.install))
	}
	return append(steps, b.serviceStep(c.service), b.startStep(c.kubeletConfig), b.recordStep()), nil
}

type folder struct {
	path      string
	protected bool
}

// folders are in the order in which they are made. The kubelet's data inherit their access rights: pods that run as ContainerUser
// read their volumes there; its keys do not.
func folders(spec *nodespec.NodeSpec) []folder {
	l := layoutOf(spec)
	var list []folder
	for _, parent := range append(parents(l.kubeletData), parents(l.logs)...) {
		if !slices.Contains(list, folder{parent, false}) {
			list = append(list, folder{parent, false})
		}
	}
	return append(list, folder{l.install, true}, folder{l.releases, true}, folder{l.release, true}, folder{l.kubeletData, false},
		folder{l.pki, true}, folder{l.logs, true})
}

// parents gives the folders above path, the highest first, without the root of the drive.
func parents(path string) []string {
	parent := filepath.Dir(path)
	if parent == filepath.Dir(parent) {
		return nil
	}
	return append(parents(parent), parent)
}

// certificateStep makes sure that the kubelet starts with a certificate of its own. It is not undone: the node's identity outlives
// releases, and remove deletes it.
func (b *builder) certificateStep() transaction.Step {
	return transaction.Step{
		Name: "client-certificate", Action: "Have the node's client certificate issued",
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			problem := b.certificateProblem()
			if problem == "" {
				return transaction.Finding{}, nil
			}
			return transaction.Finding{Drift: drift.Whole(problem), Restart: true}, nil
		},
		Do: func(ctx context.Context) error {
			report, err := b.enroll(ctx)
			if err != nil {
				return err
			}
			if report.State == nodereport.CertificatePending {
				return reason.New(reason.CertificateNotIssued, "CSR "+report.CSR, "it was not approved in time",
					"Approve it once its public key's SHA-256 is "+report.PublicKeySHA256+", then run it again.")
			}
			return nil
		},
	}
}

func (b *builder) certificateProblem() string {
	if _, err := kubeconfig.Load(b.layout.kubeconfig); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "the kubeconfig is missing"
		}
		return "the kubeconfig: " + err.Error()
	}
	certificate, err := Certificate(ClientCertificate(b.layout.kubeletData))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return drift.Missing
	case err != nil:
		return err.Error()
	case certificate.Subject.CommonName != "system:node:"+b.spec.Node.Name:
		return fmt.Sprintf("it is %s's, not system:node:%s's", certificate.Subject.CommonName, b.spec.Node.Name)
	case time.Now().After(certificate.NotAfter):
		return "it expired at " + certificate.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// Certificate reads the first certificate of a PEM file that holds its key too, and that they belong together.
func Certificate(path string) (*x509.Certificate, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pair.Leaf, nil
}

// recordStep makes a change of the specification alone a change, which the commit writes down.
func (b *builder) recordStep() transaction.Step {
	return transaction.Step{
		Name: recordName, Action: "Record the specification as applied", CheckLast: true,
		Check: func(context.Context, *transaction.Plan) (transaction.Finding, error) {
			raw, err := json.Marshal(b.spec)
			if err != nil {
				return transaction.Finding{}, err
			}
			if b.before == nil || b.before.Current == nil {
				return transaction.Finding{Drift: drift.Whole(drift.Missing)}, nil
			}
			var applied bytes.Buffer
			if json.Compact(&applied, b.before.Current.Spec) == nil && bytes.Equal(applied.Bytes(), raw) && b.before.Current.NodeIP == b.nodeIP {
				return transaction.Finding{}, nil
			}
			return transaction.Finding{Drift: drift.Whole("the specification differs from the applied one")}, nil
		},
		Do: func(context.Context) error { return nil },
	}
}
