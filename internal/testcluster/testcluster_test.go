package testcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAControlPlaneStartsAndTakesObjects(t *testing.T) {
	c := Start(t)
	c.Apply(t, `{apiVersion: v1, kind: Node, metadata: {name: w1}, status: {nodeInfo: {systemUUID: A, machineID: "", bootID: "", kernelVersion: "", osImage: "", containerRuntimeVersion: "", kubeletVersion: v1.36.3, kubeProxyVersion: "", operatingSystem: windows, architecture: amd64}}}`)
	var node struct {
		Status struct{ NodeInfo struct{ SystemUUID string } }
	}
	c.Get(t, "/api/v1/nodes/w1", &node)
	assert.Equal(t, "A", node.Status.NodeInfo.SystemUUID)
}
