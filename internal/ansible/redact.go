package ansible

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// hidden stands where a secret was; it is the text that Ansible itself uses.
const hidden = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"

// Secrets below shortestSecret bytes are not searched for, and those below freestandingSecret only where no letter or
// digit touches them: replacing every "a", or the 1234 inside a digest, would break the result and show nothing less.
const (
	shortestSecret     = 4
	freestandingSecret = 8
)

var secretNames = regexp.MustCompile(`(?i)(password|passphrase|token|secret_key|bootstrap_kubeconfig|client_key_data)$`)

func secretName(name string) bool { return secretNames.MatchString(name) }

// redactor is the second line of defence: modules do not put secrets into results, and if one does, it is replaced.
type redactor struct {
	mu      sync.RWMutex
	secrets []string
}

// collect adds every secret among the arguments.
func (r *redactor) collect(value any, options []Option, secret bool) {
	switch v := value.(type) {
	case string:
		if secret {
			r.add(v)
		}
	case json.Number:
		if secret {
			r.add(v.String())
		}
	case []any:
		for _, item := range v {
			r.collect(item, options, secret)
		}
	case map[string]any:
		for name, item := range v {
			var sub []Option
			isSecret := secret || secretName(name)
			if i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name }); i >= 0 {
				sub, isSecret = options[i].Suboptions, isSecret || options[i].Secret
			}
			r.collect(item, sub, isSecret)
		}
	}
}

// add takes secrets and the shapes in which they may turn up.
func (r *redactor) add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, value := range values {
		quoted, _ := json.Marshal(value)
		for _, shape := range []string{
			value, strings.TrimSpace(value), strings.Trim(string(quoted), `"`),
			base64.StdEncoding.EncodeToString([]byte(value)), url.QueryEscape(value), url.PathEscape(value),
		} {
			if len(shape) >= shortestSecret && len(strings.TrimSpace(value)) >= shortestSecret && !slices.Contains(r.secrets, shape) {
				r.secrets = append(r.secrets, shape)
			}
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) }) // a secret within a secret comes later
}

// text replaces the secrets in a text.
func (r *redactor) text(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.secrets {
		if len(secret) >= freestandingSecret {
			text = strings.ReplaceAll(text, secret, hidden)
		} else {
			text = replaceFreestanding(text, secret)
		}
	}
	return text
}

func replaceFreestanding(text, secret string) string {
	var clean strings.Builder
	rest := text
	for {
		at := strings.Index(rest, secret)
		if at < 0 {
			clean.WriteString(rest)
			return clean.String()
		}
		end := at + len(secret)
		before := clean.String() + rest[:at]
		touched := len(before) > 0 && isWord(before[len(before)-1]) || end < len(rest) && isWord(rest[end])
		clean.WriteString(rest[:at])
		if touched {
			clean.WriteString(secret)
		} else {
			clean.WriteString(hidden)
		}
		rest = rest[end:]
	}
}

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// value replaces the secrets in every string of a JSON value, keys included.
func (r *redactor) value(value any) any {
	switch v := value.(type) {
	case string:
		return r.text(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, item := range v {
			clean[r.text(name)] = r.value(item)
		}
		return clean
	}
	return value
}

// writer replaces secrets in whole writes: progress lines and log lines are one write each.
func (r *redactor) writer(w io.Writer) io.Writer { return &redactedWriter{r, w} }

type redactedWriter struct {
	redactor *redactor
	w        io.Writer
}

func (w *redactedWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.redactor.text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
