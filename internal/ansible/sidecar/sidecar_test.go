package sidecar

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible"
)

type args struct {
	Name  string `json:"name" required:"true"`
	Force bool   `json:"force"`
	Inner struct {
		Port int `json:"port" default:"22"`
	} `json:"inner"`
}

type result struct {
	Seen  int `json:"seen"`
	Nodes []struct {
		UID string `json:"uid"`
	} `json:"nodes"`
}

const good = `
DOCUMENTATION:
  module: example
  short_description: An example
  description: [Text.]
  version_added: 0.1.0
  author: [Us]
  options:
    name: {description: x, type: str, required: true}
    force: {description: x, type: bool, default: false}
    inner:
      description: x
      type: dict
      suboptions:
        port: {description: x, type: int, default: 22}
EXAMPLES: |
  - name: Do
    wsu.windows.example:
      name: x
RETURN:
  reason: {description: x, returned: failed, type: str}
  object: {description: x, returned: failed, type: str}
  remedy: {description: x, returned: failed, type: str}
  seen: {description: x, returned: always, type: int}
  nodes: {description: x, returned: always, type: list, elements: dict, contains: {uid: {description: x, type: str}}}
`

func problems(t *testing.T, text string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "example.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	module := ansible.New("example", func(context.Context, *ansible.Env, *args) (ansible.Result, error) { return ansible.Result{}, nil })
	found, err := Problems(file, module, result{})
	require.NoError(t, err)
	return found
}

func TestDifferencesAreFound(t *testing.T) {
	assert.Empty(t, problems(t, good))
	for name, change := range map[string]struct{ old, new, problem string }{
		"an option that is not documented": {"    force: {description: x, type: bool, default: false}\n", "", "options.force is not documented"},
		"a documented option that is none": {"    force:", "    forced: {description: x, type: str}\n    force:", "options.forced is documented, but no argument"},
		"another default":                  {"default: 22", "default: 23", `options.inner.port has the default "22", documented is "23"`},
		"another type":                     {"type: int, default", "type: str, default", `options.inner.port has type int, documented is "str"`},
		"required":                         {"required: true", "required: false", "options.name required is true, documented is false"},
		"a result that is not documented":  {"uid: {description: x, type: str}", "", "RETURN.nodes.uid is not documented"},
		"a documented result that is none": {"  seen:", "  saw: {description: x, returned: always, type: int}\n  seen:", "RETURN.saw is documented, but no result"},
		"an example with a wrong argument": {"      name: x", "      name: x\n      nmae: y", "EXAMPLES[0] uses nmae, which is no argument"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, good, change.old)
			assert.Contains(t, problems(t, strings.Replace(good, change.old, change.new, 1)), change.problem)
		})
	}
}
