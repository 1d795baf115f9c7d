package testcluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openshiftKinds are the kinds of OpenShift that the modules read. Their real schemas are the sandbox's; these take anything, so
// that tests can also make what a real cluster would refuse.
var openshiftKinds = []struct{ group, kind string }{
	{"config.openshift.io", "ClusterVersion"}, {"config.openshift.io", "Infrastructure"}, {"config.openshift.io", "Network"}, {"config.openshift.io", "Proxy"},
	{"operator.openshift.io", "Network"},
	{"machineconfiguration.openshift.io", "MachineConfig"}, {"machineconfiguration.openshift.io", "MachineConfigPool"}, {"machineconfiguration.openshift.io", "ControllerConfig"},
}

// AddOpenShift makes the API server know OpenShift's kinds, and the namespaces that joining needs.
func (c *Cluster) AddOpenShift(t *testing.T) {
	t.Helper()
	for _, k := range openshiftKinds {
		plural := plurals[k.kind]
		if plural == "" {
			plural = strings.ToLower(k.kind) + "s"
		}
		c.Apply(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: unapproved}},
spec: {group: %[2]s, scope: Cluster, names: {plural: %[1]s, kind: %[3]s, singular: %[4]s, listKind: %[3]sList},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
			plural, k.group, k.kind, strings.ToLower(k.kind)))
		require.Eventually(t, func() bool {
			status, _ := c.request(t, AdminToken, http.MethodGet, "/apis/"+k.group+"/v1/"+plural, "", nil)
			return status == http.StatusOK
		}, time.Minute, 50*time.Millisecond)
	}
	for _, namespace := range []string{"openshift-machine-config-operator", "openshift-machine-api"} {
		c.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+namespace+`}}`)
	}
}
