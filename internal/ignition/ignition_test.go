package ignition

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/reason"
)

func TestEveryServedIgnitionOfARealReleaseIsAWorker(t *testing.T) {
	for _, path := range glob(t, "release-*/worker.served.*.ign") {
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
			w, err := Parse(read(t, path))
			require.NoError(t, err)
			assert.Contains(t, path, w.SpecVersion)
			assert.Regexp(t, `^https://api-int\..*:6443$`, w.APIServer)
			assert.Contains(t, string(w.BootstrapKubeconfig), "token:")
			assert.Len(t, w.CASHA256, 64)
			assert.Len(t, w.KubeletCASHA256, 64)
			assert.Contains(t, string(w.KubeletConfig), "KubeletConfiguration")
			assert.Equal(t, "2", w.KubeletFlags["v"], "KUBELET_LOG_LEVEL comes from the drop-in 20-logging.conf")
			assert.Contains(t, w.KubeletFlags, "cloud-provider")
			assert.Equal(t, "node-role.kubernetes.io/worker", w.KubeletFlags["node-labels"], "elements with unknown variables are dropped")
			for name, val := range w.KubeletFlags {
				assert.NotContains(t, val, "$", name)
			}
			assert.NotContains(t, w.KubeletFlags, "hostname-override", "KUBELET_NODE_NAME is only known on the machine")
		})
	}
}

func TestAllSpecVersionsOfOneReleaseGiveTheSameWorker(t *testing.T) {
	for _, dir := range glob(t, "release-*") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var first *Worker
			for _, path := range glob(t, filepath.Join(filepath.Base(dir), "worker.served.*.ign")) {
				w, err := Parse(read(t, path))
				require.NoError(t, err)
				w.SpecVersion, w.SHA256 = "", ""
				if first == nil {
					first = w
				}
				assert.Equal(t, first, w, path)
			}
		})
	}
}

func TestTheCloudProviderIsWhatThePlatformSays(t *testing.T) {
	for dir, want := range map[string]string{"release-5.0-aws": "external", "release-5.0-none": "", "release-4.20-none": "",
		"release-4.16-vsphere-with-gzip-files": "external"} {
		w, err := Parse(read(t, filepath.Join(dataDir(t), dir, "worker.served.spec3.2.0.ign")))
		require.NoError(t, err)
		got, there := w.KubeletFlags["cloud-provider"]
		assert.True(t, there, dir)
		assert.Equal(t, want, got, dir)
	}
	w, err := Parse(read(t, filepath.Join(dataDir(t), "release-5.0-aws", "worker.served.spec3.2.0.ign")))
	require.NoError(t, err)
	assert.Contains(t, w.KubeletFlags, "image-credential-provider-bin-dir", "the first of two flags on one line")
	assert.Contains(t, w.KubeletFlags, "image-credential-provider-config", "the second of two flags on one line")
}

func TestPointerIgnitionsAreNamedAsSuch(t *testing.T) {
	paths := append(glob(t, "pointer-configs/*.ign"), glob(t, "pointer-configs/*/*.ign")...)
	for _, path := range paths {
		_, err := Parse(read(t, path))
		require.Error(t, err, path)
		assert.True(t, reason.Is(err, reason.IgnitionInvalid))
		assert.Contains(t, err.Error(), "pointer Ignition", path)
		assert.Contains(t, err.Error(), ":22623/config/worker", path)
	}
}

func TestACompletedMachineConfigIsTheWorkerThatTheServerServes(t *testing.T) {
	for _, path := range glob(t, "release-*/rendered-worker.machineconfig.yaml") {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			var mc struct {
				Spec struct {
					Config json.RawMessage `json:"config"`
				} `json:"spec"`
			}
			require.NoError(t, yaml.Unmarshal(read(t, path), &mc))
			_, err := Parse(mc.Spec.Config)
			require.Error(t, err, "a MachineConfig alone has no bootstrap kubeconfig")
			assert.Contains(t, err.Error(), BootstrapKubeconfigPath)

			served, err := Parse(read(t, filepath.Join(filepath.Dir(path), "worker.served.spec3.2.0.ign")))
			require.NoError(t, err)
			completed, err := Complete(mc.Spec.Config, served.BootstrapKubeconfig, served.KubeletCA)
			require.NoError(t, err)
			again, err := Complete(completed, served.BootstrapKubeconfig, served.KubeletCA)
			require.NoError(t, err)
			assert.Equal(t, string(completed), string(again), "completing twice changes nothing")

			w, err := Parse(completed)
			require.NoError(t, err)
			w.SpecVersion, w.SHA256 = served.SpecVersion, served.SHA256
			assert.Equal(t, served, w)
		})
	}
}

// edit changes a real Ignition and says what came of it.
func edit(t *testing.T, change func(doc map[string]any)) error {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal(read(t, filepath.Join(dataDir(t), "release-5.0-none", "worker.served.spec3.2.0.ign")), &doc))
	change(doc)
	raw, err := json.Marshal(doc)
	require.NoError(t, err)
	_, err = Parse(raw)
	return err
}

func files(doc map[string]any) []any { return doc["storage"].(map[string]any)["files"].([]any) }

func file(doc map[string]any, path string) map[string]any {
	for _, f := range files(doc) {
		if f.(map[string]any)["path"] == path {
			return f.(map[string]any)
		}
	}
	return nil
}

func kubelet(doc map[string]any) map[string]any {
	for _, u := range doc["systemd"].(map[string]any)["units"].([]any) {
		if u.(map[string]any)["name"] == KubeletUnit {
			return u.(map[string]any)
		}
	}
	return nil
}

func TestADamagedWorkerIgnitionSaysWhatIsWrong(t *testing.T) {
	const bomb = "H4sIAAAAAAAC/0vOSSwtTgUAxYkCHQUAAAA=" // gzip of a few bytes; the size bound has its own test
	cases := map[string]struct {
		change func(doc map[string]any)
		want   string
	}{
		"no kubeconfig": {func(d map[string]any) { file(d, BootstrapKubeconfigPath)["path"] = "/etc/other" }, "holds no file /etc/kubernetes/kubeconfig"},
		"no kubelet CA": {func(d map[string]any) { file(d, KubeletCAPath)["path"] = "/etc/other" }, "holds no file /etc/kubernetes/kubelet-ca.crt"},
		"empty kubelet CA": {func(d map[string]any) {
			file(d, KubeletCAPath)["contents"] = map[string]any{"source": "data:,"}
		}, "/etc/kubernetes/kubelet-ca.crt: it is empty"},
		"kubelet CA that is no certificate": {func(d map[string]any) {
			file(d, KubeletCAPath)["contents"] = map[string]any{"source": "data:,hello"}
		}, "holds no PEM certificate"},
		"kubeconfig elsewhere": {func(d map[string]any) {
			file(d, BootstrapKubeconfigPath)["contents"] = map[string]any{"source": "https://example.com/kubeconfig"}
		}, "its contents are at a https URL"},
		"kubeconfig without a token": {func(d map[string]any) {
			file(d, BootstrapKubeconfigPath)["contents"] = map[string]any{"source": "data:,clusters%3A%20%5B%7Bcluster%3A%20%7Bserver%3A%20%22https%3A%2F%2Fa%22%7D%7D%5D"}
		}, "neither a token nor a client certificate"},
		"wrong compression": {func(d map[string]any) {
			file(d, BootstrapKubeconfigPath)["contents"] = map[string]any{"source": "data:;base64," + bomb, "compression": "xz"}
		}, "compression"},
		"not gzip": {func(d map[string]any) {
			file(d, BootstrapKubeconfigPath)["contents"].(map[string]any)["compression"] = "gzip"
		}, "not gzip"},
		"wrong hash": {func(d map[string]any) {
			file(d, KubeletCAPath)["contents"].(map[string]any)["verification"] = map[string]any{"hash": "sha256-" + strings.Repeat("0", 64)}
		}, "verification.hash says 0000"},
		"no kubelet unit": {func(d map[string]any) { kubelet(d)["name"] = "other.service" }, "no unit kubelet.service"},
		"kubelet unit without a command": {func(d map[string]any) {
			kubelet(d)["contents"] = "[Service]\nType=notify\n"
		}, "kubelet.service: it has no ExecStart"},
		"control plane": {func(d map[string]any) {
			kubelet(d)["contents"] = strings.ReplaceAll(kubelet(d)["contents"].(string), "node-role.kubernetes.io/worker", "node-role.kubernetes.io/control-plane,node-role.kubernetes.io/master")
		}, "control plane's Ignition"},
		"unknown version":   {func(d map[string]any) { d["ignition"] = map[string]any{"version": "3.99.0"} }, `spec version "3.99.0"`},
		"unknown 2 version": {func(d map[string]any) { d["ignition"] = map[string]any{"version": "2.99.0"} }, `spec version "2.99.0"`},
		"no version":        {func(d map[string]any) { d["ignition"] = map[string]any{} }, "not an Ignition"},
		"wrong type":        {func(d map[string]any) { d["storage"] = "x" }, "storage"},
		"relative path":     {func(d map[string]any) { files(d)[3].(map[string]any)["path"] = "etc/x" }, "$.storage.files.3.path"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := edit(t, c.change)
			require.Error(t, err)
			assert.True(t, reason.Is(err, reason.IgnitionInvalid))
			assert.Contains(t, err.Error(), c.want)
			assert.NotEmpty(t, reason.Of(err).Remedy)
			assert.NotContains(t, err.Error(), "eyJ", "no token in a message")
		})
	}
}

func TestSpec2IsValidatedByField(t *testing.T) {
	var doc map[string]any
	require.NoError(t, json.Unmarshal(read(t, filepath.Join(dataDir(t), "release-5.0-none", "worker.served.spec2.2.0.ign")), &doc))
	files(doc)[2].(map[string]any)["path"] = "relative"
	raw, err := json.Marshal(doc)
	require.NoError(t, err)
	_, err = Parse(raw)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "$.storage.files.2.path")
}

func TestATruncatedIgnitionIsCalledTruncated(t *testing.T) {
	raw := read(t, filepath.Join(dataDir(t), "release-5.0-none", "worker.served.spec3.2.0.ign"))
	for _, n := range []int{1, 17, 1000, len(raw) / 2, len(raw) - 2} {
		_, err := Parse(raw[:n])
		require.Error(t, err, n)
		assert.Contains(t, err.Error(), "truncated", n)
	}
}

func TestWhatIsNoIgnitionIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "empty", " \n": "empty", "hello": "line 1 column 1", "{\n\"a\" 1}": "line 2 column 5", "[]": "array", "null": "not an Ignition",
		"{}": "not an Ignition", `{"kind":"MachineConfig"}`: "MachineConfig", `{"ignition":{"version":"3.2.0"}}`: "no unit kubelet.service",
		"#cloud-config\n": "not JSON",
	} {
		_, err := Parse([]byte(text))
		require.Error(t, err, text)
		assert.True(t, reason.Is(err, reason.IgnitionInvalid), text)
		assert.Contains(t, err.Error(), want, text)
	}
}

func TestTheDigestOfAnAuthorityIgnoresWhatSurroundsIt(t *testing.T) {
	w, err := Parse(read(t, filepath.Join(dataDir(t), "release-5.0-none", "worker.served.spec3.2.0.ign")))
	require.NoError(t, err)
	assert.Equal(t, w.KubeletCASHA256, kubeconfig.CADigest(append([]byte("# a comment\n\n"), w.KubeletCA...)))
	assert.Empty(t, kubeconfig.CADigest([]byte("nothing")))
}
