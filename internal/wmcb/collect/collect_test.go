package collect

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/winservice/winservicetest"
	"wsu.windows/internal/wmcb/apply"
)

const (
	token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlLWJvb3RzdHJhcHBlciJ9.c2lnbmF0dXJlLWNhbmFyeQ"
	key   = "-----BEGIN PRIVATE KEY-----\nQ0FOQVJZS0VZ\n-----END PRIVATE KEY-----"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func collected(t *testing.T, install, logs string) map[string]string {
	t.Helper()
	var archive bytes.Buffer
	machine := winservicetest.New()
	report, err := Run(t.Context(), Options{Install: install, Logs: logs, To: &archive, Host: apply.Host{Services: machine, Processes: machine}})
	require.NoError(t, err)
	assert.EqualValues(t, archive.Len(), report.Size)
	reader, err := zip.NewReader(bytes.NewReader(archive.Bytes()), report.Size)
	require.NoError(t, err)
	contents := map[string]string{}
	for _, file := range reader.File {
		opened, err := file.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(opened)
		require.NoError(t, err)
		contents[file.Name] = string(content)
		assert.Contains(t, report.Files, file.Name)
	}
	return contents
}

func TestTheArchiveHasLogsAndConfigurationAndNoSecret(t *testing.T) {
	root := t.TempDir()
	install, logs := filepath.Join(root, "k"), filepath.Join(root, "log")
	write(t, filepath.Join(logs, "kubelet", "kubelet.log"), "I0101 kubelet.go:1] started\nAuthorization: Bearer "+token+"\nproxy http://user:canarypass@proxy:3128\n"+key+"\n")
	write(t, filepath.Join(install, "releases", "0.1.0", "kubelet.conf"), "kind: KubeletConfiguration\nmaxPods: 250\n")
	write(t, filepath.Join(install, "releases", "0.1.0", "kubelet.exe"), "MZ")
	for _, name := range []string{"bootstrap-kubeconfig", "kubeconfig", "store/" + strings.Repeat("a", 64)} {
		write(t, filepath.Join(install, name), "token: canarytoken\n"+key)
	}
	write(t, filepath.Join(logs, "pods", "shop_app_uid", "c", "0.log"), "a customer's order")
	contents := collected(t, install, logs)
	assert.NotContains(t, contents, "logs/pods/shop_app_uid/c/0.log")
	assert.Contains(t, contents["logs/kubelet/kubelet.log"], "kubelet.go:1] started")
	assert.Contains(t, contents["releases/0.1.0/kubelet.conf"], "maxPods: 250")
	assert.Contains(t, contents["install/listing.txt"], "bootstrap-kubeconfig")
	assert.Contains(t, contents, "problems.txt")
	for name, content := range contents {
		for _, secret := range []string{token, "canarytoken", "canarypass", "Q0FOQVJZS0VZ"} {
			assert.NotContains(t, content, secret, name)
		}
	}
}

func TestABigLogIsCutAtItsBeginning(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "log", "kubelet.log"), "first line\n"+strings.Repeat("x", tail)+"\nlast line\n")
	contents := collected(t, filepath.Join(root, "k"), filepath.Join(root, "log"))
	assert.Contains(t, contents["logs/kubelet.log"], "last line")
	assert.NotContains(t, contents["logs/kubelet.log"], "first line")
}

func TestSecretsOfEveryShapeAreRemoved(t *testing.T) {
	for _, text := range []string{
		`"token": "canary-value"`, "password=canary-value", "client-key-data: canary-value", "bootstrap abcdef.canaryvalue12345",
		"Bearer canary-value", "Authorization: Basic canary-value", "--token canary-value", `{\"token\":\"canary-value\"}`,
		"canaryvaluebase64\n-----END PRIVATE KEY-----\nrest", "https://me:canary-value@mirror/", "-----BEGIN RSA PRIVATE KEY-----\ncanary-value",
	} {
		assert.NotContains(t, string(redact([]byte(text))), "canary", text)
	}
	for _, text := range []string{"kubelet v1.36.3 started", "node win1 is Ready", "https://api:6443/version"} {
		assert.Equal(t, text, string(redact([]byte(text))))
	}
}
