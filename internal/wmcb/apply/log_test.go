package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTailShowsWhyAProgramEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	log := "old line\r\n" + `I1121 03:21:56.069414    1596 flags.go:64] FLAG: --v="2"
panic: unrecognized feature gate: NoSuchGate` + "\x1b[31m" + `

goroutine 1 [running]:
k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1.SetDefaults_KubeletConfiguration(0x131888131508)
	k8s.io/kubernetes@v1.36.3/pkg/kubelet/apis/config/v1beta1/defaults.go:72 +0x13e5
k8s.io/apimachinery/pkg/runtime.(*Scheme).Default(0x144dc5220?, {0x142e4f230, 0x131888131508})
	k8s.io/apimachinery@v0.36.3/pkg/runtime/scheme.go:357 +0x90
github.com/spf13/cobra.(*Command).Execute(...)
main.main()
	k8s.io/kubernetes@v1.36.3/cmd/kubelet/kubelet.go:37 +0x2a
2026/11/21 03:21:56 running command: exit status 2
`
	require.NoError(t, os.WriteFile(path, []byte(log), 0o600))
	require.Equal(t, []string{"panic: unrecognized feature gate: NoSuchGate [31m", "2026/11/21 03:21:56 running command: exit status 2"},
		Tail(path, int64(len("old line\r\n")), 30))
	require.Equal(t, "old line", Tail(path, 0, 30)[0])
	require.Len(t, Tail(path, 1<<40, 30), 3, "a log that was rotated is read from its beginning")
	require.Len(t, Tail(path, 0, 1), 1)
	require.Nil(t, Tail(path+"x", 0, 1))
}

func TestTailIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(strings.Repeat("x", 2000)+"\n", 1000)), 0o600))
	lines := Tail(path, 0, 1000)
	require.Less(t, len(lines), 40)
	require.LessOrEqual(t, len(lines[0]), lineLength+3)
}
