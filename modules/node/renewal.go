package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
)

// renewalEvery is the time between two looks at the Lease, which a kubelet renews every 10 s.
const renewalEvery = time.Second

// awaitRenewal waits for a sign of the kubelet that was started again. The old one is gone when the task begins, so that any renewal of
// the node's Lease from now on is the new one's.
func (t *task) awaitRenewal(ctx context.Context) error {
	if !t.args.Restarted {
		return nil
	}
	first, err := t.renewal(ctx)
	if err != nil {
		return err
	}
	for seen := first; seen == first; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(renewalEvery):
		}
		if seen, err = t.renewal(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renewal waits while the API server is away.
func (t *task) renewal(ctx context.Context) (string, error) {
	for {
		seen, err := t.client.LeaseRenewal(ctx, t.args.Name)
		if err == nil || !reason.Is(err, reason.APIUnreachable) {
			return seen, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(renewalEvery):
		}
	}
}

// silent is the failure of a kubelet that was started and is not heard of.
func (t *task) silent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diagnosis)
	defer cancel()
	if node, err := t.client.Node(ctx, t.args.Name); err == nil {
		t.result.Node = describe(node)
	} else if !cluster.IsNotFound(err) {
		return err
	}
	t.result.Gate = gateNotReady
	t.readLog(ctx)
	problem := fmt.Sprintf("the API server has not heard of its kubelet for %d s since it was started", t.args.Timeout)
	if len(t.result.KubeletLog) > 0 {
		problem += "; the kubelet's log ends with: " + strings.Join(lastOf(t.result.KubeletLog, 3), " | ")
	}
	return reason.New(reason.NodeNotReady, t.object(), problem, "See the kubelet's service and log on the host (wmcb status).")
}

func lastOf(lines []string, count int) []string { return lines[max(0, len(lines)-count):] }
