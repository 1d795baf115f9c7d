// Package node is the module node: the state of one host's Node object, by its exact name.
package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/remotewmcb"
	"wsu.windows/internal/transport"
)

// Module is the module.
var Module = ansible.New("node", Run)

// Args are the module's arguments. Times are in seconds.
type Args struct {
	Kubeconfig  string            `json:"kubeconfig" path:"true"`
	Name        string            `json:"name" required:"true"`
	State       string            `json:"state" default:"ready" choices:"ready,absent,cordoned,uncordoned,drained,labelled,inspected"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	// Release is the release that the node runs when it is ready, for its annotations.
	Release string `json:"release"`
	// Taints are KEY=VALUE:EFFECT.
	Taints []string `json:"taints"`
	// SystemUUID and MachineID are the machine's own, as wmcb reports them.
	SystemUUID string `json:"system_uuid"`
	MachineID  string `json:"machine_id"`
	// KubeletVersion is what the node must run to count as ready.
	KubeletVersion string `json:"kubelet_version"`
	// MaxUnavailable bounds the managed nodes out of service; 0 is no bound.
	MaxUnavailable     int               `json:"max_unavailable"`
	Force              bool              `json:"force"`
	Timeout            int               `json:"timeout" default:"300"`
	GracePeriod        int               `json:"grace_period" default:"-1"`
	DeleteEmptyDirData bool              `json:"delete_emptydir_data"`
	DeleteUnmanaged    bool              `json:"delete_unmanaged"`
	LogLines           int               `json:"log_lines" default:"20"`
	Connection         *transport.Config `json:"connection" opaque:"true"`
	// WMCB is for reading the kubelet's log where the host has none yet.
	WMCB       *remotewmcb.Binary `json:"wmcb"`
	InstallDir string             `json:"install_dir" default:"C:\\k"`
}

// Result is what the module returns.
type Result struct {
	Node *Node `json:"node,omitempty"`
	// Gate is where a node that did not become ready stopped.
	Gate string `json:"gate,omitempty"`
	// KubeletLog holds the last lines of the kubelet's log, on failure.
	KubeletLog []string `json:"kubelet_log,omitempty"`
	// Evicted and Skipped name pods as NAMESPACE/NAME.
	Evicted []string `json:"evicted,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	// Differences are those from the arguments, in the state inspected.
	Differences []string `json:"differences,omitempty"`
}

// Node is the part of a Node object that people and playbooks look at.
type Node struct {
	Name          string `json:"name"`
	UID           string `json:"uid"`
	Ready         bool   `json:"ready"`
	Unschedulable bool   `json:"unschedulable"`
	// CordonedByUs is true where WSU has cordoned it.
	CordonedByUs bool        `json:"cordoned_by_us"`
	Version      string      `json:"version"`
	OSImage      string      `json:"os_image"`
	Addresses    []string    `json:"addresses"`
	Conditions   []Condition `json:"conditions"`
}

// Condition is one of the node's conditions.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Validate checks what the struct's tags cannot say.
func (a *Args) Validate() error {
	if a.Timeout < 1 {
		return reason.New(reason.ArgumentInvalid, fmt.Sprintf("argument timeout=%d", a.Timeout), "it must be at least 1", "Give the time limit in seconds.")
	}
	if a.MaxUnavailable < 0 {
		return reason.New(reason.ArgumentInvalid, fmt.Sprintf("argument max_unavailable=%d", a.MaxUnavailable), "it must be at least 0", "")
	}
	if a.State == "absent" && a.SystemUUID == "" && !a.Force {
		return reason.New(reason.ArgumentInvalid, "argument system_uuid", "it is missing, so that nothing tells whether the node is this machine", "Give system_uuid, or force: true where the machine is gone.")
	}
	_, err := parseTaints(a.Taints)
	return err
}

// task is one run of the module.
type task struct {
	client  *cluster.Client
	env     *ansible.Env
	args    *Args
	log     logReader
	changed bool
	result  Result
	diff    []ansible.Diff
}

// Run brings the node into the wanted state.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	client, err := cluster.Connect(args.Kubeconfig)
	if err != nil {
		return ansible.Result{}, err
	}
	t := &task{client: client, env: env, args: args, log: logOf(args)}
	states := map[string]func(context.Context) (string, error){
		"ready": t.ready, "absent": t.absent, "cordoned": t.cordon, "uncordoned": t.uncordon, "drained": t.drain, "labelled": t.label, "inspected": t.inspect,
	}
	msg, err := states[args.State](ctx)
	return ansible.Result{Changed: t.changed, Msg: msg, Data: t.result, Diff: t.diff}, err
}

// current reads the node, which has to be there and to be this machine.
func (t *task) current(ctx context.Context) (*corev1.Node, error) {
	node, err := t.client.Node(ctx, t.args.Name)
	if cluster.IsNotFound(err) {
		return nil, reason.New(reason.NodeNotRegistered, t.object(), "there is no such node", "Join the host first.")
	}
	if err != nil {
		return nil, err
	}
	t.result.Node = describe(node)
	return node, t.sameMachine(node)
}

// sameMachine refuses a node that is another machine with the same name. Both have to be known to differ.
func (t *task) sameMachine(node *corev1.Node) error {
	if t.args.Force {
		return nil
	}
	for _, id := range []struct{ what, seen, want string }{
		{"systemUUID", node.Status.NodeInfo.SystemUUID, t.args.SystemUUID},
		{"machineID", node.Status.NodeInfo.MachineID, t.args.MachineID},
	} {
		if id.seen != "" && id.want != "" && !strings.EqualFold(id.seen, id.want) {
			return reason.New(reason.ForeignNode, t.object(), fmt.Sprintf("it is another machine: the node's %s is %s, this host's is %s", id.what, id.seen, id.want),
				"Give this machine a host name of its own, or remove the node if its machine is gone (kubectl delete node "+node.Name+").")
		}
	}
	return nil
}

func (t *task) object() string { return "node " + t.args.Name }

func (t *task) timeout() time.Duration { return time.Duration(t.args.Timeout) * time.Second }

func describe(node *corev1.Node) *Node {
	ready, _ := cluster.Ready(node)
	described := &Node{
		Name: node.Name, UID: string(node.UID), Ready: ready, Unschedulable: node.Spec.Unschedulable, CordonedByUs: cordonedByUs(node),
		Version: node.Status.NodeInfo.KubeletVersion, OSImage: node.Status.NodeInfo.OSImage, Addresses: []string{}, Conditions: []Condition{},
	}
	for _, address := range node.Status.Addresses {
		described.Addresses = append(described.Addresses, address.Address)
	}
	for _, c := range node.Status.Conditions {
		described.Conditions = append(described.Conditions, Condition{string(c.Type), string(c.Status), c.Reason, c.Message})
	}
	return described
}
