package clusterinfo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/ansible/sidecar"
	"wsu.windows/internal/cluster"
)

func TestTheDocumentationIsTheCodes(t *testing.T) {
	problems, err := sidecar.Problems("cluster_info.yml", Module, cluster.Facts{})
	require.NoError(t, err)
	assert.Empty(t, problems)
}
