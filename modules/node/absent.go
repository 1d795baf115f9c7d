package node

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/identity"
	"wsu.windows/internal/reason"
)

// absent deletes the Node object and waits until it is gone.
func (t *task) absent(ctx context.Context) (string, error) {
	node, err := t.client.Node(ctx, t.args.Name)
	if cluster.IsNotFound(err) {
		return t.object() + " is absent already", nil
	}
	if err != nil {
		return "", err
	}
	if err := t.mayDelete(node); err != nil {
		return "", err
	}
	t.note(fmt.Sprintf("node %s (uid %s)\n", node.Name, node.UID), "")
	if t.env.CheckMode {
		return t.object() + " would be deleted", nil
	}
	if err := t.client.DeleteNode(ctx, node); err != nil && !cluster.IsNotFound(err) {
		t.changed = false
		return "", err
	}
	if err := t.awaitGone(ctx, node); err != nil {
		return "", err
	}
	return t.object() + " deleted", t.deleteCSRs(ctx)
}

// deleteCSRs deletes the node's requests, so that none that still waits can be approved any more. Kubernetes cannot revoke a certificate that it
// has issued: the key goes with the removal on the host.
func (t *task) deleteCSRs(ctx context.Context) error {
	user := identity.NodeUserPrefix + t.args.Name
	var requests []*certificatesv1.CertificateSigningRequest
	for _, signer := range []string{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName} {
		err := t.client.EachCSR(ctx, signer, func(csr *certificatesv1.CertificateSigningRequest) {
			request, err := identity.Parse(csr.Spec.Request)
			if err == nil && request.Subject.CommonName == user {
				requests = append(requests, csr)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, csr := range requests {
		if err := t.client.DeleteCSR(ctx, csr); err != nil && !cluster.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// mayDelete wants the node to be known as this machine: an empty UUID proves nothing.
func (t *task) mayDelete(node *corev1.Node) error {
	if err := t.sameMachine(node); err != nil {
		return err
	}
	if node.Status.NodeInfo.SystemUUID == "" && !t.args.Force {
		return reason.New(reason.ForeignNode, t.object(), "it does not say which machine it is", "Give force: true if it is this host's.")
	}
	return nil
}

func (t *task) awaitGone(ctx context.Context, deleted *corev1.Node) error {
	limited, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	gone := false
	err := t.client.FollowNode(limited, t.args.Name, cluster.Follower[*corev1.Node]{
		See: func(_ context.Context, node *corev1.Node, wasDeleted bool) error {
			gone = wasDeleted || node.UID != deleted.UID
			return nil
		},
		Listed: func(_ context.Context, names map[string]bool) error { gone = gone || !names[t.args.Name]; return nil },
		Done:   func() bool { return gone },
	})
	if ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) && !gone {
		return reason.New(reason.Timeout, t.object(), fmt.Sprintf("it is deleted but still there after %d s: a finalizer holds it", t.args.Timeout), "See its metadata.finalizers.")
	}
	return err
}
