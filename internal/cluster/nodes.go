package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// FieldManager owns the labels and annotations that WSU puts on nodes.
const FieldManager = "wsu.windows"

// The annotations of a node.
const (
	// VersionAnnotation holds the release that a node runs. Nodes that have it are managed by WSU.
	VersionAnnotation = "wsu.windows/version"
	// DesiredVersionAnnotation holds the release that was asked for last; it is set before anything is changed.
	DesiredVersionAnnotation = "wsu.windows/desired-version"
	// CordonedAnnotation marks a node that WSU has cordoned, with the time. A cordoned node without it is somebody else's.
	CordonedAnnotation = "wsu.windows/cordoned"
)

// wmcoPrefix begins the labels and annotations of OpenShift's Windows Machine Config Operator.
const wmcoPrefix = "windowsmachineconfig.openshift.io/"

func (c *Client) nodeSource(name string) source {
	s := source{client: c, rest: c.core, resource: "nodes", newList: func() runtime.Object { return &corev1.NodeList{} }}
	if name != "" {
		s.selector = fieldIs("metadata.name", name)
	}
	return s
}

// FollowNode follows the node with exactly this name.
func (c *Client) FollowNode(ctx context.Context, name string, f Follower[*corev1.Node]) error {
	return follow(ctx, c.nodeSource(name), f)
}

// EachNode looks at all nodes.
func (c *Client) EachNode(ctx context.Context, see func(*corev1.Node)) error {
	_, err := listAll(ctx, c.nodeSource(""), Follower[*corev1.Node]{
		See: func(_ context.Context, node *corev1.Node, _ bool) error { see(node); return nil },
	})
	return err
}

// Node reads one node. IsNotFound holds for the error where there is none.
func (c *Client) Node(ctx context.Context, name string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	node := &corev1.Node{}
	err := c.core.Get().Resource("nodes").Name(name).Do(ctx).Into(node)
	return node, c.explain(err, "get", "nodes/"+name)
}

// ApplyNodeMetadata makes a node have these labels and annotations (server-side apply): those that WSU put there before and that
// are not named any more go away, and nobody else's are touched. dryRun changes nothing.
func (c *Client) ApplyNodeMetadata(ctx context.Context, node *corev1.Node, labels, annotations map[string]string, dryRun bool) (*corev1.Node, error) {
	metadata := map[string]any{"name": node.Name, "uid": node.UID}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	force := true
	options := metav1.PatchOptions{FieldManager: FieldManager, Force: &force}
	return c.patchNode(ctx, node.Name, types.ApplyPatchType, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": metadata}, options, dryRun)
}

// NodeChange is what MergeNode changes: fields of the spec, and annotations, of which those that are nil go away.
type NodeChange struct {
	Spec        map[string]any
	Annotations map[string]any
}

// MergeNode applies a JSON merge patch to exactly the node that was read: the patch gets its UID and resource version, so that
// IsConflict holds for the error where it changed meanwhile.
func (c *Client) MergeNode(ctx context.Context, node *corev1.Node, change NodeChange, dryRun bool) (*corev1.Node, error) {
	metadata := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	if len(change.Annotations) > 0 {
		metadata["annotations"] = change.Annotations
	}
	patch := map[string]any{"metadata": metadata}
	if len(change.Spec) > 0 {
		patch["spec"] = change.Spec
	}
	return c.patchNode(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, dryRun)
}

func (c *Client) patchNode(ctx context.Context, name string, kind types.PatchType, patch any, options metav1.PatchOptions, dryRun bool) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	node := &corev1.Node{}
	err = c.core.Patch(kind).Resource("nodes").Name(name).VersionedParams(&options, metav1.ParameterCodec).Body(body).Do(ctx).Into(node)
	return node, c.explain(err, "patch", "nodes/"+name)
}

// DeleteNode deletes exactly the node that was read.
func (c *Client) DeleteNode(ctx context.Context, node *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}}
	err := c.core.Delete().Resource("nodes").Name(node.Name).Body(&options).Do(ctx).Error()
	return c.explain(err, "delete", "nodes/"+node.Name)
}

// Ready gives the node's Ready condition: its status and message.
func Ready(node *corev1.Node) (ready bool, message string) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, condition.Reason + ": " + condition.Message
		}
	}
	return false, "the kubelet has not reported yet"
}

// OwnedByWMCO reports whether OpenShift's Windows Machine Config Operator manages the node.
func OwnedByWMCO(node *corev1.Node) bool {
	for _, names := range []map[string]string{node.Labels, node.Annotations} {
		for name := range names {
			if strings.HasPrefix(name, wmcoPrefix) {
				return true
			}
		}
	}
	return false
}
