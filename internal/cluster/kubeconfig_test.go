package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"wsu.windows/internal/reason"
)

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func kubeconfig(server, more string) string {
	return fmt.Sprintf(`{current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: %q%s}}], users: [{name: x, user: {token: hunter2hunter2}}]}`, server, more)
}

func TestAKubeconfigThatIsWrongIsNamedAndNeverQuoted(t *testing.T) {
	good := kubeconfig("https://x:6443", "")
	tests := map[string]struct {
		content string
		code    reason.Code
		words   string
	}{
		"garbage":                 {"hunter2hunter2: [", reason.KubeconfigInvalid, "not a kubeconfig"},
		"empty":                   {"", reason.KubeconfigInvalid, "no current-context"},
		"a context that is not":   {strings.Replace(good, "current-context: x", "current-context: other", 1), reason.KubeconfigInvalid, `"other" does not exist`},
		"a cluster that is not":   {strings.Replace(good, "cluster: x, user", "cluster: other, user", 1), reason.KubeconfigInvalid, `the cluster "other"`},
		"a user that is not":      {strings.Replace(good, "user: x}", "user: other}", 1), reason.KubeconfigInvalid, `the user "other"`},
		"verification turned off": {kubeconfig("https://x:6443", ", insecure-skip-tls-verify: true"), reason.APIUntrusted, "insecure-skip-tls-verify"},
		"no TLS":                  {kubeconfig("http://x:8080", ""), reason.APIUntrusted, "without TLS"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := write(t, test.content)
			_, err := LoadKubeconfig(file)
			require.Error(t, err)
			assert.True(t, reason.Is(err, test.code), err)
			assert.ErrorContains(t, err, test.words)
			assert.ErrorContains(t, err, file)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestWhereTheKubeconfigIsLookedFor(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	_, err := LoadKubeconfig("")
	assert.True(t, reason.Is(err, reason.KubeconfigMissing), err)
	assert.ErrorContains(t, err, filepath.Join(home, ".kube", "config"))
	_, err = LoadKubeconfig("/no/such/file")
	assert.True(t, reason.Is(err, reason.KubeconfigMissing), err)
	_, err = LoadKubeconfig(home)
	assert.True(t, reason.Is(err, reason.KubeconfigMissing), err)

	require.NoError(t, os.Mkdir(filepath.Join(home, ".kube"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".kube", "config"), []byte(kubeconfig("https://home:6443", "")), 0o600))
	config, err := LoadKubeconfig("")
	require.NoError(t, err)
	assert.Equal(t, "https://home:6443", config.Host)

	t.Setenv("KUBECONFIG", "/no/such/file:"+write(t, kubeconfig("https://env:6443", "")))
	config, err = LoadKubeconfig("")
	require.NoError(t, err)
	assert.Equal(t, "https://env:6443", config.Host)
	config, err = LoadKubeconfig(write(t, kubeconfig("https://argument:6443", "")))
	require.NoError(t, err)
	assert.Equal(t, "https://argument:6443", config.Host)
}

func TestWhatAnswersInTheAPIServersPlace(t *testing.T) {
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	defer stranger.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	broken := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer broken.Close()
	trusting := func(server *httptest.Server) *rest.Config {
		return &rest.Config{Host: server.URL, Transport: server.Client().Transport}
	}
	tests := map[string]struct {
		config *rest.Config
		code   reason.Code
	}{
		"nobody":                 {&rest.Config{Host: "https://127.0.0.1:1"}, reason.APIUnreachable},
		"a name that is none":    {&rest.Config{Host: "https://no-such-host.invalid"}, reason.APIUnreachable},
		"another certificate":    {&rest.Config{Host: stranger.URL}, reason.APIUntrusted},
		"something in clear":     {&rest.Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}, reason.APIUnreachable},
		"a broken load balancer": {trusting(broken), reason.APIUnreachable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client, err := NewClient(test.config)
			require.NoError(t, err)
			_, err = client.KubernetesVersion(t.Context())
			require.Error(t, err)
			assert.True(t, reason.Is(err, test.code), err)
			assert.ErrorContains(t, err, test.config.Host)
		})
	}
}

func TestAReadThatIsUnauthorizedOnceIsTriedAgainAndAWriteIsNot(t *testing.T) {
	asked := map[string]int{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.Method]++
		w.Header().Set("Content-Type", "application/json")
		if asked[r.Method] == 1 {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}`))
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion": "v1.36.3+abc"}`))
	}))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL, Transport: server.Client().Transport})
	require.NoError(t, err)
	version, err := client.KubernetesVersion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "v1.36.3", version)
	assert.Equal(t, 2, asked[http.MethodGet])
	err = client.core.Post().Resource("pods").Do(t.Context()).Error()
	require.Error(t, err)
	assert.Equal(t, 1, asked[http.MethodPost])
}

func TestPermissionsAreNamedAsRBACNamesThem(t *testing.T) {
	for path, want := range map[string][3]string{
		"/api/v1/namespaces/a/secrets/b":                       {"secrets", "b", "a"},
		"/apis/config.openshift.io/v1/clusterversions/version": {"clusterversions.config.openshift.io", "version", ""},
		"/apis/config.openshift.io":                            {"apis", "config.openshift.io", ""},
		"/namespaces/default/pods/x/eviction":                  {"pods/eviction", "x", "default"},
		"nodes/w1":                                             {"nodes", "w1", ""},
		"certificatesigningrequests":                           {"certificatesigningrequests", "", ""},
		"/version":                                             {"version", "", ""},
	} {
		resource, name, namespace := resourceOf(path)
		assert.Equal(t, want, [3]string{resource, name, namespace}, path)
	}
}
