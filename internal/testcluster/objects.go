package testcluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// plurals of the kinds whose resource is not the kind with an s.
var plurals = map[string]string{"NetworkPolicy": "networkpolicies", "Proxy": "proxies", "DNS": "dnses", "Infrastructure": "infrastructures"}

// Apply creates or changes objects (YAML or JSON, several with ---), status included, as the administrator.
func (c *Cluster) Apply(t *testing.T, manifests string) {
	t.Helper()
	for _, manifest := range strings.Split(manifests, "\n---\n") {
		content, err := yaml.YAMLToJSON([]byte(manifest))
		require.NoError(t, err)
		var head struct {
			APIVersion string
			Kind       string
			Metadata   struct{ Name, Namespace string }
			Status     any
		}
		require.NoError(t, json.Unmarshal(content, &head))
		path := Path(head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name)
		const apply = "application/apply-patch+yaml"
		c.Request(t, AdminToken, http.MethodPatch, path+"?fieldManager=test&force=true", apply, content)
		if head.Status != nil {
			c.request(t, AdminToken, http.MethodPatch, path+"/status?fieldManager=test&force=true", apply, content)
		}
	}
}

// Path is the API's path of an object.
func Path(apiVersion, kind, namespace, name string) string {
	resource := plurals[kind]
	if resource == "" {
		resource = strings.ToLower(kind) + "s"
	}
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource + "/" + name
}

// Delete deletes what is at a path.
func (c *Cluster) Delete(t *testing.T, path string) {
	c.Request(t, AdminToken, http.MethodDelete, path, "", nil)
}

// Get reads what is at a path into a value.
func (c *Cluster) Get(t *testing.T, path string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(c.Request(t, AdminToken, http.MethodGet, path, "", nil), into))
}

// Request sends one request that has to succeed and gives the answer.
func (c *Cluster) Request(t *testing.T, token, method, path, contentType string, body []byte) []byte {
	t.Helper()
	status, answer := c.request(t, token, method, path, contentType, body)
	require.Less(t, status, 300, "%s %s: %s", method, path, answer)
	return answer
}

func (c *Cluster) request(t *testing.T, token, method, path, contentType string, body []byte) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.httpClient().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, answer
}

// AsNode gives the headers' worth of a node: requests of this cluster's admin in a node's name.
func (c *Cluster) AsNode(t *testing.T, node, method, path string, body []byte) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+AdminToken)
	request.Header.Set("Impersonate-User", "system:node:"+node)
	request.Header.Set("Impersonate-Group", "system:nodes")
	request.Header.Add("Impersonate-Group", "system:authenticated")
	request.Header.Set("Content-Type", "application/json")
	response, err := c.httpClient().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, response.StatusCode, 300, fmt.Sprintf("%s %s as node %s: %s", method, path, node, answer))
	return answer
}
