package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
)

// inspect names every difference between the node and the arguments, and changes nothing.
func (t *task) inspect(ctx context.Context) (string, error) {
	node, err := t.client.Node(ctx, t.args.Name)
	if cluster.IsNotFound(err) {
		t.result.Differences = []string{"there is no such node in the cluster"}
		return t.object() + " is not there", nil
	}
	if err != nil {
		return "", err
	}
	t.result.Node = describe(node)
	if err := t.sameMachine(node); err != nil {
		t.result.Differences = []string{reason.Of(err).Problem}
		return t.object() + " is another machine", nil
	}
	wanted, err := parseTaints(t.args.Taints)
	if err != nil {
		return "", err
	}
	labels, annotations := t.wanted(node, true)
	list := slices.Concat(
		differences(node, "label", node.Labels, labels), differences(node, "annotation", node.Annotations, annotations),
		taintDifferences(node, wanted), t.stateDifferences(node), badConditions(node),
	)
	t.result.Differences = list
	if len(list) == 0 {
		return t.object() + " is as it shall be", nil
	}
	return t.object() + ": " + strings.Join(list, "; "), nil
}

// differences are those of labels or annotations; kind is one of the two words.
func differences(node *corev1.Node, kind string, present, wanted map[string]string) []string {
	var list []string
	for _, key := range keysOf(node, kind+"s", wanted) {
		have, was := present[key]
		want, will := wanted[key]
		switch {
		case was == will && have == want:
		case !was:
			list = append(list, fmt.Sprintf("%s %s is missing", kind, key))
		case !will:
			list = append(list, fmt.Sprintf("%s %s is no longer wanted", kind, key))
		default:
			list = append(list, fmt.Sprintf("%s %s is %q, not %q", kind, key, have, want))
		}
	}
	return list
}

func taintDifferences(node *corev1.Node, wanted []corev1.Taint) []string {
	var list []string
	for _, want := range wanted {
		same := func(taint corev1.Taint) bool { return taint.MatchTaint(&want) && taint.Value == want.Value }
		if !slices.ContainsFunc(node.Spec.Taints, same) {
			list = append(list, "taint "+want.ToString()+" is missing")
		}
	}
	return list
}

func (t *task) stateDifferences(node *corev1.Node) []string {
	var list []string
	if seen := node.Status.NodeInfo.KubeletVersion; t.args.KubeletVersion != "" && seen != t.args.KubeletVersion {
		list = append(list, fmt.Sprintf("its kubelet is %s, not %s", seen, t.args.KubeletVersion))
	}
	if cordonedByUs(node) {
		list = append(list, "it is cordoned by a run that did not end (since "+node.Annotations[cluster.CordonedAnnotation]+")")
	}
	return list
}

// badConditions are those that say that something is wrong.
func badConditions(node *corev1.Node) []string {
	var list []string
	if ready, message := cluster.Ready(node); !ready {
		list = append(list, "it is not Ready: "+message)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			list = append(list, fmt.Sprintf("%s: %s", condition.Type, condition.Message))
		}
	}
	return list
}
