package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible/sidecar"
)

func TestTheDocumentationIsTheCodes(t *testing.T) {
	problems, err := sidecar.Problems("rollout.yml", Module, Result{})
	require.NoError(t, err)
	assert.Empty(t, problems)
}
