package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
)

// slotEvery is the wait between two looks whether another node may be taken out of service.
const slotEvery = 2 * time.Second

// cordonedByUs reports whether WSU has cordoned the node: the mark alone says nothing once somebody has uncordoned it.
func cordonedByUs(node *corev1.Node) bool {
	_, marked := node.Annotations[cluster.CordonedAnnotation]
	return marked && node.Spec.Unschedulable
}

// cordon marks the node as cordoned by us in the same write, so that an interrupted run never forgets whose cordon it is.
func (t *task) cordon(ctx context.Context) (string, error) {
	node, err := t.current(ctx)
	if err != nil {
		return "", err
	}
	if err := t.awaitSlot(ctx, node); err != nil {
		return "", err
	}
	foreign := node.Spec.Unschedulable && !cordonedByUs(node)
	node, err = t.setCordon(ctx, node)
	if err != nil {
		return "", err
	}
	t.result.Node = describe(node)
	if foreign {
		return t.object() + " was cordoned by somebody else, and will stay so", nil
	}
	return t.object() + " is cordoned", nil
}

func (t *task) setCordon(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	before := cordonText(node)
	changed, err := t.change(ctx, node, func(node *corev1.Node) *cluster.NodeChange {
		change := &cluster.NodeChange{Annotations: map[string]any{}}
		if !node.Spec.Unschedulable {
			change.Spec = map[string]any{"unschedulable": true}
			change.Annotations[cluster.CordonedAnnotation] = time.Now().UTC().Format(time.RFC3339)
		}
		if release := t.args.Release; release != "" && node.Annotations[cluster.DesiredVersionAnnotation] != release {
			change.Annotations[cluster.DesiredVersionAnnotation] = release
		}
		if len(change.Spec)+len(change.Annotations) == 0 {
			return nil
		}
		return change
	})
	if err != nil {
		return nil, err
	}
	t.note(before, cordonText(changed))
	return changed, nil
}

// uncordon takes our cordon away, and nobody else's.
func (t *task) uncordon(ctx context.Context) (string, error) {
	node, err := t.current(ctx)
	if err != nil {
		return "", err
	}
	before := cordonText(node)
	changed, err := t.change(ctx, node, func(node *corev1.Node) *cluster.NodeChange {
		if _, marked := node.Annotations[cluster.CordonedAnnotation]; !marked {
			return nil
		}
		return &cluster.NodeChange{Spec: map[string]any{"unschedulable": nil}, Annotations: map[string]any{cluster.CordonedAnnotation: nil}}
	})
	if err != nil {
		return "", err
	}
	t.note(before, cordonText(changed))
	t.result.Node = describe(changed)
	if changed.Spec.Unschedulable && !t.env.CheckMode {
		return t.object() + " stays cordoned: somebody else has cordoned it", nil
	}
	return t.object() + " is not cordoned", nil
}

func cordonText(node *corev1.Node) string {
	return fmt.Sprintf("unschedulable: %t\n%s: %s\n", node.Spec.Unschedulable, cluster.DesiredVersionAnnotation, node.Annotations[cluster.DesiredVersionAnnotation])
}

// awaitSlot waits until the node may be out of service beside those that are already. Nodes count that WSU manages, whatever inventory they
// stand in and whoever took them out of service.
func (t *task) awaitSlot(ctx context.Context, node *corev1.Node) error {
	if t.args.MaxUnavailable == 0 || t.env.CheckMode || unavailable(node) != "" {
		return nil // a node that is out of service already makes it no worse
	}
	limit := time.Now().Add(t.timeout())
	for said := ""; ; {
		others, err := t.unavailableOthers(ctx)
		if err != nil {
			return err
		}
		if len(others) < t.args.MaxUnavailable {
			return nil
		}
		text := strings.Join(others, ", ")
		if time.Now().After(limit) {
			return reason.New(reason.Timeout, t.object(),
				fmt.Sprintf("it was not touched: for %d s these nodes have been out of service, and no more than %d may be: %s", t.args.Timeout, t.args.MaxUnavailable, text),
				"Put them right or uncordon them, or raise wsu_max_unavailable.")
		}
		if text != said {
			said = text
			t.env.Progress.Say("cordon", "waiting, because nodes are out of service: "+text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slotEvery):
		}
	}
}

func (t *task) unavailableOthers(ctx context.Context) ([]string, error) {
	var others []string
	err := t.client.EachNode(ctx, func(node *corev1.Node) {
		why := unavailable(node)
		if _, managed := node.Annotations[cluster.VersionAnnotation]; managed && why != "" && node.Name != t.args.Name {
			others = append(others, node.Name+" ("+why+")")
		}
	})
	slices.Sort(others)
	return others, err
}

// unavailable says why a node takes no pods, or nothing.
func unavailable(node *corev1.Node) string {
	ready, _ := cluster.Ready(node)
	switch {
	case !ready:
		return "not Ready"
	case node.Spec.Unschedulable:
		return "cordoned"
	}
	return ""
}
