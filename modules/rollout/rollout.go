// Package rollout is the module rollout: which hosts of a run join, which stay as they are, and which have to change their release, in which
// order and how many at a time.
package rollout

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/Masterminds/semver/v3"
	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

// Module is the module.
var Module = ansible.New("rollout", Run)

// Args are the module's arguments.
type Args struct {
	Kubeconfig string `json:"kubeconfig" path:"true"`
	// Hosts maps the inventory's name of a host to what the task with wmcb preflight returned; Order names them in the inventory's order.
	Hosts map[string]any `json:"hosts" required:"true"`
	Order []string       `json:"order" required:"true"`
	// Release is the one to bring.
	Release string `json:"release" required:"true"`
	// MaxUnavailable is a count or a percentage.
	MaxUnavailable string `json:"max_unavailable" default:"1"`
}

// What happens to a host.
const (
	Join      = "join"
	Keep      = "keep"
	Upgrade   = "upgrade"
	Downgrade = "downgrade"
	// Resume is for a node that has the release already, but whose roll-out was interrupted before it was back in service.
	Resume = "resume"
)

// Step is what happens to one host.
type Step struct {
	Action string `json:"action"`
	Node   string `json:"node"`
	// From and FromKubelet are the release and the kubelet's version that it runs, empty where it has not joined.
	From        string `json:"from"`
	FromKubelet string `json:"from_kubelet"`
}

// Result is what the module returns.
type Result struct {
	Hosts map[string]Step `json:"hosts"`
	// Rollout names the hosts that change their release, in the order in which they do: those out of service already come first.
	Rollout    []string `json:"rollout"`
	Downgrades []string `json:"downgrades"`
	// MaxUnavailable is the bound as a count, AtOnce how many hosts it leaves for this run.
	MaxUnavailable int `json:"max_unavailable"`
	AtOnce         int `json:"at_once"`
	// Unavailable names the nodes that are out of service already, and do not change in this run.
	Unavailable []string `json:"unavailable"`
}

// Run plans and changes nothing.
func Run(ctx context.Context, _ *ansible.Env, args *Args) (ansible.Result, error) {
	release, err := semver.StrictNewVersion(args.Release)
	if err != nil {
		return ansible.Result{}, reason.New(reason.ArgumentInvalid, "argument release="+args.Release, "it is no version as 1.2.3", "")
	}
	bound, err := parseBound(args.MaxUnavailable)
	if err != nil {
		return ansible.Result{}, err
	}
	client, err := cluster.Connect(args.Kubeconfig)
	if err != nil {
		return ansible.Result{}, err
	}
	nodes := map[string]*corev1.Node{}
	if err := client.EachNode(ctx, func(node *corev1.Node) { nodes[node.Name] = node }); err != nil {
		return ansible.Result{}, err
	}
	result, err := plan(args, release, bound, nodes)
	if err != nil {
		return ansible.Result{}, err
	}
	return ansible.Result{Msg: summary(result), Data: result}, nil
}

func plan(args *Args, release *semver.Version, bound bound, nodes map[string]*corev1.Node) (Result, error) {
	result := Result{Hosts: map[string]Step{}, Rollout: []string{}, Downgrades: []string{}, Unavailable: []string{}}
	changing := map[string]bool{}
	var inService []string
	for _, host := range args.Order {
		facts, err := factsOf(host, args.Hosts[host])
		if err != nil {
			return Result{}, err
		}
		if facts == nil {
			continue // its preflight failed: it does not go on
		}
		node := nodes[facts.NodeName]
		step := stepOf(facts, node, release)
		result.Hosts[host] = step
		if step.Action == Downgrade {
			result.Downgrades = append(result.Downgrades, host)
		}
		if step.Action == Join || step.Action == Keep {
			continue
		}
		changing[facts.NodeName] = true
		if outOfService(node) {
			result.Rollout = append(result.Rollout, host)
		} else {
			inService = append(inService, host)
		}
	}
	result.Rollout = append(result.Rollout, inService...)
	result.fill(bound, nodes, changing)
	return result, nil
}

func stepOf(facts *nodereport.Facts, node *corev1.Node, release *semver.Version) Step {
	step := Step{Action: Join, Node: facts.NodeName}
	if facts.Joined == nil {
		return step
	}
	step.From, step.FromKubelet = facts.Joined.Release, facts.Joined.KubeletVersion
	if node == nil {
		return step // nothing to drain: its kubelet registers it again
	}
	from, err := semver.NewVersion(step.From)
	switch {
	case err != nil, from.LessThan(release):
		step.Action = Upgrade
	case from.GreaterThan(release):
		step.Action = Downgrade
	case node.Spec.Unschedulable && node.Annotations[cluster.CordonedAnnotation] != "":
		step.Action = Resume
	default:
		step.Action = Keep
	}
	return step
}

// fill counts. Nodes count that WSU manages, whatever inventory they stand in.
func (r *Result) fill(bound bound, nodes map[string]*corev1.Node, changing map[string]bool) {
	managed := 0
	for _, name := range sortedNames(nodes) {
		node := nodes[name]
		if _, ours := node.Annotations[cluster.VersionAnnotation]; !ours && !changing[name] {
			continue
		}
		managed++
		if outOfService(node) && !changing[name] {
			r.Unavailable = append(r.Unavailable, name)
		}
	}
	r.MaxUnavailable = bound.of(managed)
	r.AtOnce = max(1, r.MaxUnavailable-len(r.Unavailable))
}

func outOfService(node *corev1.Node) bool {
	ready, _ := cluster.Ready(node)
	return !ready || node.Spec.Unschedulable
}

// factsOf reads one task's result; nil where the preflight failed.
func factsOf(host string, result any) (*nodereport.Facts, error) {
	encoded, err := json.Marshal(result)
	if err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument hosts."+host, err, "")
	}
	var outcome struct {
		Failed   bool                  `json:"failed"`
		Document *nodereport.Preflight `json:"document"`
	}
	if err := json.Unmarshal(encoded, &outcome); err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument hosts."+host, err, "Give what the task with wmcb preflight returned.")
	}
	if outcome.Failed || outcome.Document == nil {
		return nil, nil //nolint:nilnil // documented
	}
	return &outcome.Document.Facts, nil
}

func summary(result Result) string {
	if len(result.Rollout) == 0 {
		return "no node changes its release"
	}
	text := fmt.Sprintf("%d nodes change their release, the first alone, then %d at a time", len(result.Rollout), result.AtOnce)
	if len(result.Unavailable) > 0 {
		text += fmt.Sprintf("; %d others are out of service already", len(result.Unavailable))
	}
	return text
}
