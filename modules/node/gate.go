package node

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/identity"
	"wsu.windows/internal/reason"
)

// The gates that a node goes through, by where it may stop.
const (
	gateNoCSR         = "no_csr"
	gateCSRRefused    = "csr_refused"
	gateNotRegistered = "not_registered"
	gateNotReady      = "not_ready"
)

// logReader reads the last lines of the kubelet's log on the host.
type logReader interface {
	KubeletLog(ctx context.Context, lines int) ([]string, error)
}

// stuck says at which gate the node stopped.
func (t *task) stuck(ctx context.Context, node *corev1.Node, cause error) error {
	if reason.Is(cause, reason.APIUnreachable) {
		return cause
	}
	ctx, cancel := context.WithTimeout(ctx, diagnosis)
	defer cancel()
	failure := t.gate(ctx, node)
	t.readLog(ctx)
	if len(t.result.KubeletLog) > 0 {
		last := t.result.KubeletLog[max(0, len(t.result.KubeletLog)-3):]
		failure.Problem += "; the kubelet's log ends with: " + strings.Join(last, " | ")
	}
	return failure
}

func (t *task) gate(ctx context.Context, node *corev1.Node) *reason.Error {
	limit := fmt.Sprintf("within %d s", t.args.Timeout)
	if node == nil {
		return t.beforeRegistration(ctx, limit)
	}
	t.result.Gate = gateNotReady
	ready, message := cluster.Ready(node)
	if ready {
		return reason.New(reason.NodeNotReady, t.object(), fmt.Sprintf("it is Ready, but its kubelet still is %s, not %s, after %d s", node.Status.NodeInfo.KubeletVersion, t.args.KubeletVersion, t.args.Timeout),
			"See the kubelet's service on the host (wmcb status).")
	}
	words := []string{message}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			words = append(words, fmt.Sprintf("%s: %s", condition.Type, condition.Message))
		}
	}
	return reason.New(reason.NodeNotReady, t.object(), "it did not become Ready "+limit+": "+strings.Join(words, "; "), notReadyRemedy(message))
}

// notReadyRemedy knows the two messages that people meet.
func notReadyRemedy(message string) string {
	switch {
	case strings.Contains(message, "cni"), strings.Contains(message, "NetworkPluginNotReady"):
		return "The node's network is not configured: check the CNI configuration and the network's services on the host."
	case strings.Contains(message, "container runtime"), strings.Contains(message, "PLEG"):
		return "Check the container runtime's service on the host."
	case strings.Contains(message, "stopped posting"):
		return "The kubelet does not reach the API server: check its service and its log on the host."
	}
	return ""
}

// beforeRegistration looks the node's CSRs up.
func (t *task) beforeRegistration(ctx context.Context, limit string) *reason.Error {
	newest, err := t.newestCSR(ctx)
	if err != nil {
		t.result.Gate = gateNotRegistered
		return reason.New(reason.NodeNotRegistered, t.object(), "it did not appear "+limit+" (its CSRs could not be looked up: "+reason.Of(err).Problem+")", "")
	}
	if newest == nil {
		t.result.Gate = gateNoCSR
		return reason.New(reason.NodeNotRegistered, t.object(), "it did not appear "+limit+", and no CSR in its name is there",
			"Check that the kubelet runs on the host and reaches the API server (wmcb preflight, wmcb status).")
	}
	object := fmt.Sprintf("%s, csr %s", t.object(), newest.Name)
	for _, condition := range newest.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateDenied:
			t.result.Gate = gateCSRRefused
			return reason.New(reason.CSRRefused, object, fmt.Sprintf("it was denied (%s: %s)", condition.Reason, condition.Message), "")
		case certificatesv1.CertificateFailed:
			t.result.Gate = gateCSRRefused
			return reason.New(reason.CertificateNotIssued, object, fmt.Sprintf("the signer failed (%s: %s)", condition.Reason, condition.Message), "")
		case certificatesv1.CertificateApproved:
			t.result.Gate = gateNotRegistered
			if len(newest.Status.Certificate) == 0 {
				return reason.New(reason.CertificateNotIssued, object, "it is approved, but no certificate was issued", "")
			}
			return reason.New(reason.NodeNotRegistered, t.object(), "its certificate is issued, but it did not appear "+limit, "")
		}
	}
	t.result.Gate = gateCSRRefused
	return reason.New(reason.CSRRefused, object, "it is pending and nobody approved it", "Run the playbook again: csr_approve says which rule it breaks.")
}

func (t *task) newestCSR(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
	var newest *certificatesv1.CertificateSigningRequest
	err := t.client.EachCSR(ctx, certificatesv1.KubeAPIServerClientKubeletSignerName, func(csr *certificatesv1.CertificateSigningRequest) {
		request, err := identity.Parse(csr.Spec.Request)
		if err != nil || request.Subject.CommonName != identity.NodeUserPrefix+t.args.Name {
			return
		}
		if newest == nil || newest.CreationTimestamp.Before(&csr.CreationTimestamp) {
			newest = csr
		}
	})
	return newest, err
}

// readLog fetches the end of the kubelet's log. Not getting it never hides the failure itself.
func (t *task) readLog(ctx context.Context) {
	if t.log == nil || t.args.LogLines < 1 {
		return
	}
	lines, err := t.log.KubeletLog(ctx, t.args.LogLines)
	if err != nil {
		t.env.Progress.Say("node", "the kubelet's log could not be read: "+err.Error())
		return
	}
	t.result.KubeletLog = lines
}
