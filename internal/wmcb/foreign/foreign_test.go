package foreign

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winservice/winservicetest"
)

func TestEachToolIsNamedByWhatItLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		service, line, file string
		code                reason.Code
		tool                string
	}{
		"the operator's service": {"windows-instance-config-daemon", "wicd.exe", "", reason.ForeignNode, "Windows Machine Config Operator"},
		"the operator's file":    {"", "", "windows-instance-config-daemon.exe", reason.ForeignNode, "Windows Machine Config Operator"},
		"the operator's kubelet": {
			"kubelet", `C:\k\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log C:\k\kubelet.exe --config=C:\k\kubelet.conf --v=2`, "",
			reason.ForeignKubelet, "Windows Machine Config Operator",
		},
		"RKE2's service":           {"rke2", `C:\usr\local\bin\rke2.exe agent service`, "", reason.ForeignNode, "RKE2"},
		"RKE2's kubelet":           {"kubelet", `C:\var\lib\rancher\rke2\bin\kubelet.exe`, "", reason.ForeignKubelet, "RKE2"},
		"k0s":                      {"k0sworker", `C:\k0s\k0s.exe worker`, "", reason.ForeignNode, "k0s"},
		"EKS":                      {"kubelet", `"C:\Program Files\Amazon\EKS\kubelet.exe" --v=2`, "", reason.ForeignKubelet, "Amazon EKS"},
		"sig-windows-tools":        {"kubelet", `C:\k\nssm.exe`, "", reason.ForeignKubelet, "sig-windows-tools"},
		"sig-windows-tools' files": {"", "", "StartKubelet.ps1", reason.ForeignNode, "sig-windows-tools"},
	} {
		t.Run(name, func(t *testing.T) {
			machine, install := winservicetest.New(), t.TempDir()
			require.NoError(t, Check(machine, install))
			if c.service != "" {
				require.NoError(t, machine.Create(t.Context(), c.service, winservice.Config{CommandLine: c.line}))
			}
			if c.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(install, c.file), nil, 0o600))
			}
			err := Check(machine, install)
			require.True(t, reason.Is(err, c.code), "%v", err)
			require.ErrorContains(t, err, c.tool)
			require.NotEmpty(t, reason.Of(err).Remedy)
		})
	}
}

func TestOurOwnKubeletAndAnUnknownOneAreNoKnownTools(t *testing.T) {
	machine, install := winservicetest.New(), t.TempDir()
	require.NoError(t, machine.Create(t.Context(), "kubelet", winservice.Config{CommandLine: filepath.Join(install, "releases", "1.0.0", "kubelet.exe") + ` --config=C:\rke2\x`}))
	require.NoError(t, Check(machine, install))
	other := winservice.Config{CommandLine: `D:\mine\kubelet.exe`}
	require.NoError(t, machine.Update("kubelet", other))
	require.NoError(t, Check(machine, install))
	require.ErrorContains(t, Unknown(&other), "by hand")
}
