package ignitionmodule

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/testcluster"
)

// dataDir is the folder with real Ignitions of real clusters.
func dataDir(t *testing.T) string {
	t.Helper()
	root := os.Getenv("WSU_SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(root, "ignition")); err != nil {
		t.Skipf("SKIPPED: the real Ignitions are not here (set WSU_SHARED_DATA): %v", err)
	}
	return filepath.Join(root, "ignition")
}

type outcome struct {
	Result
	Changed, Failed     bool
	Msg, Reason, Object string
	raw                 string
}

func run(t *testing.T, arguments map[string]any) outcome {
	t.Helper()
	content, err := json.Marshal(arguments)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "arguments")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	var stdout, stderr bytes.Buffer
	ansible.Run(t.Context(), Module, []string{file}, &stdout, &stderr)
	result := outcome{raw: stdout.String() + stderr.String()}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &result), stdout.String())
	return result
}

// machineConfigServer serves a worker's Ignition over HTTP/1.1 as the real one does, and checks what it is asked.
func machineConfigServer(t *testing.T, served []byte) (server *httptest.Server, ca string) {
	t.Helper()
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/config/worker" || r.ProtoMajor != 1 || !strings.Contains(r.Header.Get("Accept"), "version=3.2.0") || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(served)
	}))
	t.Cleanup(server.Close)
	return server, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// object is one object of the API as JSON.
func object(t *testing.T, apiVersion, kind, namespace, name string, fields map[string]any) string {
	t.Helper()
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	all := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	for key, value := range fields {
		all[key] = value
	}
	encoded, err := json.Marshal(all)
	require.NoError(t, err)
	return string(encoded)
}

// install puts a real cluster's rendered MachineConfig, and what belongs to it, into the API server.
func install(t *testing.T, c *testcluster.Cluster, folder string) (served []byte) {
	t.Helper()
	served, err := os.ReadFile(filepath.Join(folder, "worker.served.spec3.2.0.ign"))
	require.NoError(t, err)
	worker, err := ignition.Parse(served)
	require.NoError(t, err)
	bootstrap, err := kubeconfig.Parse(worker.BootstrapKubeconfig, "")
	require.NoError(t, err)
	var name string
	for _, file := range []string{"rendered-worker.machineconfig.yaml", "controllerconfig.yaml"} {
		content, err := os.ReadFile(filepath.Join(folder, file))
		require.NoError(t, err)
		c.Apply(t, string(content))
		var head struct{ Metadata struct{ Name string } }
		require.NoError(t, yaml.Unmarshal(content, &head))
		if name == "" {
			name = head.Metadata.Name
		}
	}
	configuration := func(name string) map[string]any { return map[string]any{"configuration": map[string]any{"name": name}} }
	// One machine has the new configuration: the server serves that one.
	status := configuration("rendered-worker-of-before")
	status["updatedMachineCount"] = 1
	c.Apply(t, object(t, "machineconfiguration.openshift.io/v1", "MachineConfigPool", "", "worker", map[string]any{"spec": configuration(name), "status": status}))
	c.Apply(t, object(t, "config.openshift.io/v1", "Infrastructure", "", "cluster", map[string]any{"status": map[string]any{"apiServerInternalURI": bootstrap.Server}}))
	c.Apply(t, object(t, "v1", "Secret", "openshift-machine-config-operator", "node-bootstrapper-token", map[string]any{"data": map[string]any{"token": []byte(bootstrap.Token), "ca.crt": bootstrap.CA}}))
	return served
}

func pointTo(t *testing.T, c *testcluster.Cluster, address, ca string) {
	t.Helper()
	tls := map[string]any{}
	if ca != "" {
		tls["certificateAuthorities"] = []any{map[string]any{"source": "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(ca))}}
	}
	content, err := json.Marshal(map[string]any{"ignition": map[string]any{"version": "3.2.0",
		"config": map[string]any{"merge": []any{map[string]any{"source": address + "/config/worker"}}}, "security": map[string]any{"tls": tls}}})
	require.NoError(t, err)
	c.Apply(t, object(t, "v1", "Secret", "openshift-machine-api", "worker-user-data", map[string]any{"data": map[string]any{"userData": content}}))
}

func parse(t *testing.T, path string) *ignition.Worker {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	worker, err := ignition.Parse(raw)
	require.NoError(t, err)
	return worker
}

func TestAgainstARealAPIServer(t *testing.T) {
	data := dataDir(t)
	c := testcluster.Start(t)
	c.AddOpenShift(t)
	admin := c.Kubeconfig(t, testcluster.AdminToken)
	folders, err := filepath.Glob(filepath.Join(data, "release-*"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	arguments := func(source, cache string) map[string]any {
		return map[string]any{"kubeconfig": admin, "source": source, "cache_dir": cache}
	}

	for _, folder := range folders {
		t.Run("both ways give the same worker for "+filepath.Base(folder), func(t *testing.T) {
			served := install(t, c, folder)
			server, ca := machineConfigServer(t, served)
			pointTo(t, c, server.URL, "")
			c.Apply(t, object(t, "v1", "ConfigMap", "openshift-machine-config-operator", "machine-config-server-ca", map[string]any{"data": map[string]any{"ca-bundle.crt": ca}}))
			cache := t.TempDir()
			api := run(t, arguments("api", cache))
			require.False(t, api.Failed, api.Msg)
			fromServer := run(t, arguments("server", cache))
			require.False(t, fromServer.Failed, fromServer.Msg)
			assert.False(t, api.Changed)
			assert.NotEmpty(t, api.MachineConfig)

			one, other := parse(t, api.Path), parse(t, fromServer.Path)
			assert.NotContains(t, api.raw+fromServer.raw, bootstrapOf(t, one).Token, "no secret in results and progress")
			one.SHA256, other.SHA256, one.SpecVersion, other.SpecVersion = "", "", "", ""
			// Some servers write an empty `preferences` too, which says nothing.
			assert.Equal(t, bootstrapOf(t, other), bootstrapOf(t, one))
			one.BootstrapKubeconfig, other.BootstrapKubeconfig = nil, nil
			assert.Equal(t, other, one)

			info, err := os.Stat(api.Path)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			info, err = os.Stat(filepath.Dir(api.Path))
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			assert.Equal(t, api.SHA256, run(t, arguments("api", cache)).SHA256, "equal clusters give equal bytes")
		})
	}

	t.Run("the server's way", func(t *testing.T) { server(t, c, admin, folders[0]) })
	t.Run("a pool that has not moved on serves what it served before", func(t *testing.T) {
		install(t, c, folders[0])
		pool := "/apis/machineconfiguration.openshift.io/v1/machineconfigpools/worker"
		c.Request(t, testcluster.AdminToken, http.MethodPatch, pool, "application/merge-patch+json", []byte(`{"status": {"updatedMachineCount": 0}}`))
		result := run(t, arguments("api", t.TempDir()))
		assert.Equal(t, "ignition_unavailable", result.Reason)
		assert.Contains(t, result.Msg, "rendered-worker-of-before")
	})
	t.Run("no rights: both ways are named", func(t *testing.T) {
		result := run(t, map[string]any{"kubeconfig": c.Kubeconfig(t, testcluster.NobodyToken), "cache_dir": t.TempDir()})
		assert.Equal(t, "ignition_unavailable", result.Reason)
		assert.Contains(t, result.Msg, "machineconfigpools")
		assert.Contains(t, result.Msg, "worker-user-data")
		assert.Contains(t, result.Msg, "wsu_ignition_file")
	})
}

func server(t *testing.T, c *testcluster.Cluster, admin, folder string) {
	served := install(t, c, folder)
	server, ca := machineConfigServer(t, served)
	caMap := "/api/v1/namespaces/openshift-machine-config-operator/configmaps/machine-config-server-ca"
	c.Delete(t, caMap)
	arguments := map[string]any{"kubeconfig": admin, "source": "server", "cache_dir": t.TempDir()}

	t.Run("is not asked where the cluster holds no authority for it", func(t *testing.T) {
		pointTo(t, c, server.URL, "")
		result := run(t, arguments)
		assert.Equal(t, "ignition_unavailable", result.Reason)
		assert.Contains(t, result.Msg, "no authority")
	})
	t.Run("is trusted by the pointer's authority", func(t *testing.T) {
		pointTo(t, c, server.URL, ca)
		result := run(t, arguments)
		assert.False(t, result.Failed, result.Msg)
	})
	t.Run("is trusted by root-ca", func(t *testing.T) {
		pointTo(t, c, server.URL, "")
		c.Apply(t, object(t, "v1", "ConfigMap", "kube-system", "root-ca", map[string]any{"data": map[string]any{"ca.crt": ca}}))
		assert.False(t, run(t, arguments).Failed)
		c.Delete(t, "/api/v1/namespaces/kube-system/configmaps/root-ca")
	})
	t.Run("with another certificate gets no request", func(t *testing.T) {
		stranger := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
		stranger.StartTLS()
		defer stranger.Close()
		pointTo(t, c, stranger.URL, string(c.CA))
		result := run(t, arguments)
		assert.Equal(t, "api_untrusted", result.Reason)
	})
	t.Run("is the way out where the API does not give it, and the result says why", func(t *testing.T) {
		pointTo(t, c, server.URL, ca)
		c.Delete(t, "/api/v1/namespaces/openshift-machine-config-operator/secrets/node-bootstrapper-token")
		result := run(t, map[string]any{"kubeconfig": admin, "cache_dir": t.TempDir()})
		require.False(t, result.Failed, result.Msg)
		assert.Equal(t, "server", result.Source)
		assert.Contains(t, result.SourceWhy, "node-bootstrapper-token")
	})
}

func bootstrapOf(t *testing.T, worker *ignition.Worker) *kubeconfig.Kubeconfig {
	t.Helper()
	bootstrap, err := kubeconfig.Parse(worker.BootstrapKubeconfig, "")
	require.NoError(t, err)
	require.NotEmpty(t, bootstrap.Token)
	return bootstrap
}

func TestAFileIsTakenAndABadOneIsNamed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(dataDir(t), "release-*", "worker.served.*.ign"))
	require.NoError(t, err)
	good, err := os.ReadFile(files[0])
	require.NoError(t, err)
	cache := t.TempDir()
	result := run(t, map[string]any{"source": "file", "file": files[0], "cache_dir": cache})
	require.False(t, result.Failed, result.Msg)
	assert.Equal(t, "file", result.Source)

	for name, content := range map[string][]byte{"empty": {}, "truncated": good[:len(good)/2], "malformed": []byte("{]"), "foreign": []byte(`{"ignition": {"version": "3.2.0"}}`)} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "worker.ign")
			require.NoError(t, os.WriteFile(file, content, 0o600))
			result := run(t, map[string]any{"file": file, "cache_dir": cache})
			assert.Equal(t, "ignition_invalid", result.Reason)
			assert.Contains(t, result.Msg, file)
		})
	}
	t.Run("missing", func(t *testing.T) {
		result := run(t, map[string]any{"file": "/no/such.ign", "cache_dir": cache})
		assert.Equal(t, "ignition_unavailable", result.Reason)
		assert.Contains(t, result.Msg, "/no/such.ign")
	})
	t.Run("absent removes it", func(t *testing.T) {
		result := run(t, map[string]any{"state": "absent", "sha256": result.SHA256, "cache_dir": cache})
		assert.False(t, result.Changed)
		left, err := os.ReadDir(filepath.Join(cache, "ignition"))
		require.NoError(t, err)
		assert.Empty(t, left)
		assert.False(t, run(t, map[string]any{"state": "absent", "cache_dir": cache}).Failed, "twice is fine")
	})
	t.Run("a folder that cannot be made is named", func(t *testing.T) {
		blocked := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(blocked, nil, 0o600))
		result := run(t, map[string]any{"file": files[0], "cache_dir": blocked})
		assert.Equal(t, "access_denied", result.Reason, fmt.Sprint(result))
	})
}
