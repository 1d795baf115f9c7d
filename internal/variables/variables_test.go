package variables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func TestThePageIsWhatTheSpecificationSays(t *testing.T) {
	list, err := Read(root)
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "variables.md"))
	require.NoError(t, err)
	assert.Equal(t, string(Markdown(list)), string(page), "run go generate ./internal/variables")
}

func TestEveryVariableHasTheSameDefaultInBothFiles(t *testing.T) {
	list, err := Read(root)
	require.NoError(t, err)
	defaults, err := Defaults(root)
	require.NoError(t, err)
	require.Len(t, defaults, len(list))
	for _, v := range list {
		assert.Equal(t, v.Default, defaults[v.Name], v.Name)
		assert.NotEmpty(t, v.Description, v.Name)
	}
}

// What is documented and never read would be a promise that nobody keeps.
func TestEveryVariableIsRead(t *testing.T) {
	var everything strings.Builder
	for _, pattern := range []string{"roles/*/tasks/*.yml", "roles/*/vars/*.yml", "playbooks/*.yml", "plugins/action/*.py"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			everything.Write(raw)
		}
	}
	list, err := Read(root)
	require.NoError(t, err)
	for _, v := range list {
		assert.Contains(t, everything.String(), v.Name)
	}
}
