package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
)

// conflictTries bounds how often a change is made again because somebody else changed the node meanwhile: kubelets and
// controllers do, a few times a minute.
const conflictTries = 10

// label is the state labelled: labels, annotations and taints, without waiting for anything.
func (t *task) label(ctx context.Context) (string, error) {
	node, err := t.current(ctx)
	if err != nil {
		return "", err
	}
	if _, err := t.putMetadata(ctx, node, true); err != nil {
		return "", err
	}
	if !t.changed {
		return t.object() + " has its labels, annotations and taints already", nil
	}
	return t.object() + ": labels, annotations or taints put right", nil
}

// putMetadata makes the node have the wanted labels, annotations and taints, and gives its new state. What is right already is
// not written. proven is false until the node runs the release: it is not told before.
func (t *task) putMetadata(ctx context.Context, node *corev1.Node, proven bool) (*corev1.Node, error) {
	wantedLabels, wantedAnnotations := t.wanted(node, proven)
	labels, annotations := differenceOf(node, "labels", node.Labels, wantedLabels), differenceOf(node, "annotations", node.Annotations, wantedAnnotations)
	if labels.any() || annotations.any() {
		applied, err := t.client.ApplyNodeMetadata(ctx, node, wantedLabels, wantedAnnotations, t.env.CheckMode)
		if err != nil {
			return nil, err
		}
		t.note(labels.before+annotations.before, labels.after+annotations.after)
		node = applied
	}
	wanted, err := parseTaints(t.args.Taints)
	if err != nil {
		return nil, err
	}
	before := taintsText(node.Spec.Taints)
	changed, err := t.change(ctx, node, func(node *corev1.Node) *cluster.NodeChange {
		taints, changed := mergeTaints(node.Spec.Taints, wanted)
		if !changed {
			return nil
		}
		return &cluster.NodeChange{Spec: map[string]any{"taints": taints}}
	})
	if err != nil {
		return nil, err
	}
	if changed != node {
		t.note(before, taintsText(changed.Spec.Taints))
	}
	return changed, nil
}

// wanted gives the labels and annotations that the node shall have of us. Where the task does not speak of labels or annotations, those that we
// have put stay: what an apply does not name goes away.
func (t *task) wanted(node *corev1.Node, proven bool) (labels, annotations map[string]string) {
	labels, annotations = maps.Clone(t.args.Labels), maps.Clone(t.args.Annotations)
	if labels == nil {
		labels = present(node.Labels, ownedKeys(node, "labels"))
	}
	if annotations == nil && t.args.Release == "" {
		return labels, present(node.Annotations, ownedKeys(node, "annotations"))
	}
	if t.args.Release == "" {
		return labels, annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[cluster.DesiredVersionAnnotation] = t.args.Release
	if proven {
		annotations[cluster.VersionAnnotation] = t.args.Release
	} else if runs, ok := node.Annotations[cluster.VersionAnnotation]; ok {
		annotations[cluster.VersionAnnotation] = runs
	}
	return labels, annotations
}

// present gives those of the keys that the node has.
func present(all map[string]string, keys []string) map[string]string {
	have := map[string]string{}
	for _, key := range keys {
		if value, ok := all[key]; ok {
			have[key] = value
		}
	}
	return have
}

// note records a change for the result and for --diff.
func (t *task) note(before, after string) {
	if before == after {
		return
	}
	t.changed = true
	t.diff = append(t.diff, ansible.Diff{BeforeHeader: t.object(), AfterHeader: t.object(), Before: before, After: after})
}

// change patches the node with what decide says, nothing if that is nil; again if the node changed meanwhile.
func (t *task) change(ctx context.Context, node *corev1.Node, decide func(*corev1.Node) *cluster.NodeChange) (*corev1.Node, error) {
	for try := 0; ; try++ {
		patch := decide(node)
		if patch == nil {
			return node, nil
		}
		patched, err := t.client.MergeNode(ctx, node, *patch, t.env.CheckMode)
		if err == nil {
			return patched, nil
		}
		if !cluster.IsConflict(err) || try >= conflictTries {
			return nil, err
		}
		again, err := t.client.Node(ctx, node.Name)
		if err != nil {
			return nil, err
		}
		if err := t.sameMachine(again); err != nil {
			return nil, err
		}
		node = again
	}
}

// mergeTaints adds the wanted taints; one with the same key and effect is replaced, all others stay.
func mergeTaints(present, wanted []corev1.Taint) (merged []corev1.Taint, changed bool) {
	merged = slices.Clone(present)
	for _, want := range wanted {
		i := slices.IndexFunc(merged, func(taint corev1.Taint) bool { return taint.Key == want.Key && taint.Effect == want.Effect })
		switch {
		case i < 0:
			merged, changed = append(merged, want), true
		case merged[i].Value != want.Value:
			merged[i].Value, changed = want.Value, true
		}
	}
	return merged, changed
}

// parseTaints reads KEY=VALUE:EFFECT and KEY:EFFECT.
func parseTaints(texts []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, text := range texts {
		pair, effect, ok := strings.Cut(text, ":")
		key, value, _ := strings.Cut(pair, "=")
		known := slices.Contains([]string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}, effect)
		if !ok || key == "" || !known {
			return nil, reason.New(reason.ArgumentInvalid, fmt.Sprintf("argument taints: %q", text), "it is no taint", "Write KEY=VALUE:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute.")
		}
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}

// difference is what is not yet as it shall be, as texts for a diff.
type difference struct{ before, after string }

func (d difference) any() bool { return d.before != d.after }

// differenceOf compares the wanted values with the node's. A key that WSU put there before and that is not wanted any more goes
// away; keys of others, the user's above all, are left out of it.
func differenceOf(node *corev1.Node, field string, present, wanted map[string]string) difference {
	var d difference
	for _, key := range keysOf(node, field, wanted) {
		before, was := present[key]
		after, will := wanted[key]
		if was == will && before == after {
			continue
		}
		if was {
			d.before += fmt.Sprintf("%s: %s=%q\n", field, key, before)
		}
		if will {
			d.after += fmt.Sprintf("%s: %s=%q\n", field, key, after)
		}
	}
	return d
}

// keysOf are the wanted keys and those that WSU has put there, sorted.
func keysOf(node *corev1.Node, field string, wanted map[string]string) []string {
	keys := slices.AppendSeq(ownedKeys(node, field), maps.Keys(wanted))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// ownedKeys reads off the node's managed fields which labels or annotations WSU has applied.
func ownedKeys(node *corev1.Node, field string) []string {
	var keys []string
	for _, entry := range node.ManagedFields {
		if entry.Manager != cluster.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata map[string]map[string]any `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for key := range fields.Metadata["f:"+field] {
			if name, ok := strings.CutPrefix(key, "f:"); ok {
				keys = append(keys, name)
			}
		}
	}
	return keys
}

func taintsText(taints []corev1.Taint) string {
	var text strings.Builder
	for _, taint := range taints {
		fmt.Fprintf(&text, "taint: %s\n", taint.ToString())
	}
	return text.String()
}
