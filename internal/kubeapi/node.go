package kubeapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"wsu.windows/internal/reason"
)

// node is what of a Node, and of its Lease, tells when its kubelet was heard of.
type node struct {
	Status struct {
		Conditions []struct {
			LastHeartbeatTime time.Time `json:"lastHeartbeatTime"`
		} `json:"conditions"`
	} `json:"status"`
}

type lease struct {
	Spec struct {
		RenewTime time.Time `json:"renewTime"`
	} `json:"spec"`
}

// NodeHeard gives when the API server last heard of a node's kubelet, by the kubelet's own clock: a condition's heartbeat, in whole seconds,
// or the renewal of its Lease, whichever is later. ErrNotFound where there is no such Node.
func (c *Client) NodeHeard(ctx context.Context, name string) (time.Time, error) {
	var n node
	if err := c.do(ctx, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(name), nil, &n); err != nil {
		return time.Time{}, err
	}
	var heard time.Time
	for _, condition := range n.Status.Conditions {
		if condition.LastHeartbeatTime.After(heard) {
			heard = condition.LastHeartbeatTime
		}
	}
	var l lease
	err := c.do(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+url.PathEscape(name), nil, &l)
	if err != nil && !errors.Is(err, ErrNotFound) && !reason.Is(err, reason.APIForbidden) {
		return time.Time{}, err
	}
	if l.Spec.RenewTime.After(heard) {
		heard = l.Spec.RenewTime
	}
	return heard, nil
}
