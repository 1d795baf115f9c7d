package broken

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/kubeletconfig"
	"wsu.windows/internal/nodespec"
)

func configuration(t *testing.T, content string) string {
	file := filepath.Join(t.TempDir(), "kubelet.conf")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestTheHealthCheckIsWhereTheRealKubeletWouldHaveIt(t *testing.T) {
	for config, address := range map[string]string{
		"kind: KubeletConfiguration\n":                                                       "127.0.0.1:10248",
		"kind: KubeletConfiguration\nhealthzPort: 10300\n":                                   "127.0.0.1:10300",
		"kind: KubeletConfiguration\nhealthzPort: 10300\nhealthzBindAddress: \"10.0.0.7\"\n": "10.0.0.7:10300",
		"kind: KubeletConfiguration\nhealthzPort: 0\n":                                       "",
	} {
		kubelet, err := Parse([]string{"--config=" + configuration(t, config), "--windows-service=true", "--v=2"})
		require.NoError(t, err)
		assert.Equal(t, Kubelet{WindowsService: true, Healthz: address}, kubelet)
	}
}

func TestTheCommandLineThatIsWrittenForTheRealKubeletIsTaken(t *testing.T) {
	spec := &nodespec.NodeSpec{Flavour: nodespec.FlavourOpenShift}
	spec.Kubelet.Version = "v1.36.3"
	config, err := kubeletconfig.Config(kubeletconfig.Input{Version: "v1.36.3", ClientCAFile: `C:\k\kubelet-ca.crt`, Endpoint: "npipe:////./pipe/containerd-containerd"})
	require.NoError(t, err)
	args, err := kubeletconfig.Args(kubeletconfig.Command{Spec: spec, Program: "kubelet.exe", NodeIP: "10.0.0.7", Config: configuration(t, string(config))})
	require.NoError(t, err)
	kubelet, err := Parse(args[1:])
	require.NoError(t, err)
	assert.Equal(t, Kubelet{WindowsService: true, Healthz: "127.0.0.1:10248"}, kubelet)
}

func TestWhatTheRealKubeletRefusesIsRefused(t *testing.T) {
	for _, arguments := range [][]string{
		{"run"}, {"--config=/absent/kubelet.conf"}, {"--config=" + configuration(t, "kind: Pod\n")}, {"--config=" + configuration(t, "\tkind")},
	} {
		_, err := Parse(arguments)
		assert.Error(t, err, arguments)
	}
}

func TestAHealthyOneSaysOk(t *testing.T) {
	answer := httptest.NewRecorder()
	health().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	assert.Equal(t, "200 ok", answer.Result().Status[:4]+answer.Body.String())
}
