package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodsOn lists the pods that are bound to a node.
func (c *Client) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	list := &corev1.PodList{}
	options := listOptions(fieldIs("spec.nodeName", node))
	err := c.core.Get().Resource("pods").VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
	return list.Items, c.explain(err, "list", "pods")
}

// Evict asks for a pod's eviction, which respects PodDisruptionBudgets: apierrors.IsTooManyRequests holds for the error where
// one forbids it now. gracePeriod is in seconds, negative for the pod's own.
func (c *Client) Evict(ctx context.Context, pod *corev1.Pod, gracePeriod int64) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	options := map[string]any{"preconditions": map[string]any{"uid": pod.UID}}
	if gracePeriod >= 0 {
		options["gracePeriodSeconds"] = gracePeriod
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"name": pod.Name, "namespace": pod.Namespace}, "deleteOptions": options,
	})
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// MaxRetries 0: client-go would wait out a 429 by itself, and nobody would learn which pod it waits for.
	err = c.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		SetHeader("Content-Type", "application/json").MaxRetries(0).Body(body).Do(ctx).Error()
	return c.explain(err, "create", "/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/eviction")
}
