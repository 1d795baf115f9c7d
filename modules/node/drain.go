package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
)

const (
	// evictAgain is the wait before an eviction that a PodDisruptionBudget forbids is asked for again, as kubectl does.
	evictAgain = 5 * time.Second
	// lookAgain is the wait between two looks at the pods that are still there.
	lookAgain = time.Second
	// mirrorAnnotation marks pods that the kubelet made out of files: the API server cannot end them.
	mirrorAnnotation = "kubernetes.io/config.mirror"
)

// drain cordons the node and evicts its pods, all but those of DaemonSets.
func (t *task) drain(ctx context.Context) (string, error) {
	node, err := t.current(ctx)
	if err != nil {
		return "", err
	}
	if node, err = t.setCordon(ctx, node); err != nil {
		return "", err
	}
	t.result.Node = describe(node)
	pods, err := t.evictable(ctx)
	if err != nil {
		return "", err
	}
	if t.env.CheckMode {
		t.changed = t.changed || len(pods) > 0
		return fmt.Sprintf("%s would be drained of %d pods", t.object(), len(pods)), nil
	}
	limited, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	d := &drainer{task: t, refusals: map[string]string{}, next: map[string]time.Time{}}
	if err := d.run(limited, pods); err != nil {
		if ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
			return "", d.blocked()
		}
		return "", err
	}
	return fmt.Sprintf("%s is drained, %d pods evicted", t.object(), len(t.result.Evicted)), nil
}

// evictable gives the pods to evict. Pods whose data or whose self would be lost for ever need the user's word, before anything
// is evicted.
func (t *task) evictable(ctx context.Context) ([]corev1.Pod, error) {
	all, err := t.client.PodsOn(ctx, t.args.Name)
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	var problems []string
	t.result.Skipped = nil
	for _, pod := range all {
		skip, problem := t.judge(&pod)
		switch {
		case skip:
			t.result.Skipped = append(t.result.Skipped, podName(&pod))
		case problem != "":
			problems = append(problems, podName(&pod)+" "+problem)
		default:
			pods = append(pods, pod)
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return nil, reason.New(reason.DrainBlocked, t.object(), strings.Join(problems, "; "),
			"Set wsu_drain_delete_emptydir or wsu_drain_force to true if that may be lost, or move the pods away first.")
	}
	slices.Sort(t.result.Skipped)
	return pods, nil
}

func (t *task) judge(pod *corev1.Pod) (skip bool, problem string) {
	if _, mirror := pod.Annotations[mirrorAnnotation]; mirror {
		return true, ""
	}
	owner := metav1.GetControllerOf(pod)
	if owner != nil && owner.Kind == "DaemonSet" {
		return true, ""
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
		return false, "" // nothing is lost any more, or nothing can be kept
	}
	if owner == nil && !t.args.DeleteUnmanaged {
		return false, "has no controller and would be lost"
	}
	if !t.args.DeleteEmptyDirData && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil }) {
		return false, "has data in an emptyDir volume, which would be lost"
	}
	return false, ""
}

// drainer evicts pods until none is left.
type drainer struct {
	*task
	left     []corev1.Pod
	refusals map[string]string    // why a pod is still there, by its name
	next     map[string]time.Time // when to ask again, by UID
}

func (d *drainer) run(ctx context.Context, pods []corev1.Pod) error {
	for d.left = pods; len(d.left) > 0; {
		d.env.Progress.Say("drain", fmt.Sprintf("%d pods to evict", len(d.left)))
		for _, pod := range d.left {
			if err := d.evict(ctx, &pod); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
		left, err := d.evictable(ctx)
		if err != nil {
			return err
		}
		d.left = left
	}
	return nil
}

// evict asks for one pod's eviction unless that was done already; a PodDisruptionBudget's no is for now only.
func (d *drainer) evict(ctx context.Context, pod *corev1.Pod) error {
	id := string(pod.UID)
	if pod.DeletionTimestamp != nil {
		d.refusals[podName(pod)] = "it is terminating"
		return nil
	}
	if time.Now().Before(d.next[id]) {
		return nil
	}
	d.next[id] = time.Now().Add(evictAgain)
	err := d.client.Evict(ctx, pod, int64(d.args.GracePeriod))
	switch {
	case err == nil:
		d.changed = true
		d.refusals[podName(pod)] = "it was evicted and is terminating"
		if name := podName(pod); !slices.Contains(d.result.Evicted, name) {
			d.result.Evicted = append(d.result.Evicted, name)
		}
	case apierrors.IsTooManyRequests(err):
		d.refusals[podName(pod)] = budgetWords(err)
	case cluster.IsNotFound(err), cluster.IsConflict(err):
	default:
		return err
	}
	return nil
}

// budgetWords takes the PodDisruptionBudget's name out of the server's answer.
func budgetWords(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Message != "" {
				return cause.Message
			}
		}
	}
	return "a PodDisruptionBudget forbids its eviction"
}

func (d *drainer) blocked() error {
	var names []string
	for _, pod := range d.left {
		why := d.refusals[podName(&pod)]
		if why == "" {
			why = "it came after the drain began"
		}
		names = append(names, fmt.Sprintf("%s: %s", podName(&pod), why))
	}
	slices.Sort(names)
	if len(names) > 10 {
		names = append(names[:10], fmt.Sprintf("and %d more", len(names)-10))
	}
	return reason.New(reason.DrainBlocked, d.object(), fmt.Sprintf("after %d s these pods are still there: %s", d.args.Timeout, strings.Join(names, "; ")),
		"Give the workloads room elsewhere, change their PodDisruptionBudget, or raise wsu_drain_timeout.")
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
