package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/cluster"
)

// ready is the state ready: registered as this machine, with its labels, annotations and taints, and Ready.
func (t *task) ready(ctx context.Context) (string, error) {
	if t.env.CheckMode {
		return t.wouldBeReady(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	w := &wait{task: t}
	t.env.Progress.Say("node", "waiting for "+t.object())
	err := t.client.FollowNode(limited, t.args.Name, cluster.Follower[*corev1.Node]{See: w.see, Listed: w.listed, Done: func() bool { return w.done }})
	if w.node != nil {
		t.result.Node = describe(w.node)
	}
	if ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) && !w.done {
		return "", t.stuck(ctx, w.node, err)
	}
	if err != nil {
		return "", err
	}
	return t.object() + " is Ready, " + t.result.Node.Version, nil
}

// wouldBeReady is check mode: nothing is waited for.
func (t *task) wouldBeReady(ctx context.Context) (string, error) {
	node, err := t.client.Node(ctx, t.args.Name)
	if cluster.IsNotFound(err) {
		t.changed = true
		return t.object() + " would be registered, and waited for until it is Ready", nil
	}
	if err != nil {
		return "", err
	}
	t.result.Node = describe(node)
	if err := t.sameMachine(node); err != nil {
		return "", err
	}
	if _, err := t.putMetadata(ctx, node, true); err != nil {
		return "", err
	}
	return t.object() + " is there already", nil
}

// wait follows the node until it is all that it shall be.
type wait struct {
	*task
	node     *corev1.Node
	labelled string // UID of the node that has its labels
	proven   bool   // it has the annotation of its release, too
	said     string
	done     bool
}

func (w *wait) see(ctx context.Context, node *corev1.Node, deleted bool) error {
	if deleted {
		w.node = nil
		return nil
	}
	w.node = node
	if err := w.sameMachine(node); err != nil {
		return err
	}
	w.say()
	ready, _ := cluster.Ready(node)
	proven := ready && w.rightVersion(node)
	if w.labelled != string(node.UID) || proven && !w.proven {
		patched, err := w.putMetadata(ctx, node, proven)
		if cluster.IsNotFound(err) || cluster.IsConflict(err) {
			return nil // deleted or replaced meanwhile: the watch will say so
		}
		if err != nil {
			return err
		}
		w.labelled, w.proven = string(patched.UID), proven
	}
	w.done = proven
	return nil
}

func (w *wait) rightVersion(node *corev1.Node) bool {
	return w.args.KubeletVersion == "" || node.Status.NodeInfo.KubeletVersion == w.args.KubeletVersion
}

// listed notices that the node went away while nobody watched.
func (w *wait) listed(_ context.Context, names map[string]bool) error {
	if !names[w.args.Name] {
		w.node = nil
	}
	return nil
}

// say reports what is waited for, when that changes.
func (w *wait) say() {
	ready, message := cluster.Ready(w.node)
	text := fmt.Sprintf("registered, not Ready: %s", message)
	switch {
	case ready && !w.rightVersion(w.node):
		text = "Ready with " + w.node.Status.NodeInfo.KubeletVersion + ", waiting for " + w.args.KubeletVersion
	case ready:
		text = "Ready"
	}
	if text != w.said {
		w.said = text
		w.env.Progress.Say("node", text)
	}
}

// diagnosis bounds how long finding out may take after the time limit is over.
const diagnosis = 30 * time.Second
