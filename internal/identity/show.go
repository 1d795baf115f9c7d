package identity

import (
	"fmt"
	"strconv"
	"strings"
)

var approve = Decision{Approve: true}

func refuse(rule Rule, format string, values ...any) Decision {
	return Decision{Rule: rule, Why: fmt.Sprintf(format, values...)}
}

// show quotes a text that a stranger may have written: no control characters, bounded.
func show(text string) string {
	if text == "" {
		return "empty"
	}
	quoted := strconv.QuoteToASCII(text[:min(len(text), 200)])
	return quoted[1 : len(quoted)-1]
}

func showAll[T ~string](texts []T) string {
	if len(texts) == 0 {
		return "none"
	}
	shown := make([]string, 0, len(texts))
	for _, text := range texts[:min(len(texts), 10)] {
		shown = append(shown, show(string(text)))
	}
	if len(texts) > 10 {
		shown = append(shown, "...")
	}
	return strings.Join(shown, ", ")
}
