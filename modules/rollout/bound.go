package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"wsu.windows/internal/reason"
)

// bound is how many nodes may be out of service: a count, or a percentage of all.
type bound struct{ count, percent int }

func parseBound(text string) (bound, error) {
	number, isPercentage := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.Atoi(number)
	if err != nil || value < 1 || isPercentage && value > 100 {
		return bound{}, reason.New(reason.ArgumentInvalid, fmt.Sprintf("wsu_max_unavailable=%q", text), "it is neither a count from 1 on nor a percentage from 1% to 100%",
			"Set it to how many nodes may be out of service at once, as 2 or 10%.")
	}
	if isPercentage {
		return bound{percent: value}, nil
	}
	return bound{count: value}, nil
}

// of gives the count for this many nodes. A percentage is never exceeded, except that one node may always go.
func (b bound) of(nodes int) int {
	if b.percent == 0 {
		return b.count
	}
	return max(1, nodes*b.percent/100)
}

func sortedNames(nodes map[string]*corev1.Node) []string { return slices.Sorted(maps.Keys(nodes)) }
