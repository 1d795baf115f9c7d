//go:build sandbox

package sandboxtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"wsu.windows/internal/securefile"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/enroll"
	"wsu.windows/internal/wmcb/initialize"
	"wsu.windows/internal/wmcb/state"
)

func TestAnAccessRightThatWasOpenedIsClosed(t *testing.T) {
	removeNode(t)
	spec := newSpec(t, "1.0.0", "kubelet.exe")
	_, err := run(t, spec)
	require.NoError(t, err)
	path := filepath.Join(install, "bootstrap-kubeconfig")
	open(t, path)
	report, err := run(t, spec)
	require.NoError(t, err)
	require.Equal(t, []string{"bootstrap-kubeconfig"}, changedSteps(report))
	extra, err := securefile.CheckAccess(path)
	require.NoError(t, err)
	require.Empty(t, extra)
	removeNode(t)
}

func open(t *testing.T, path string) {
	descriptor, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FR;;;WD)")
	require.NoError(t, err)
	dacl, _, err := descriptor.DACL()
	require.NoError(t, err)
	require.NoError(t, windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl, nil))
	extra, err := securefile.CheckAccess(path)
	require.NoError(t, err)
	require.NotEmpty(t, extra)
}

func TestInitializeJoinsWithTheTwoInputs(t *testing.T) {
	removeNode(t)
	options := initialize.Options{
		IgnitionFile: payload(t, "worker.ign"), KubeletPath: payload(t, "kubelet.exe"), NodeIP: os.Getenv("WSU_TEST_NODE_IP"),
		Enroll: enroll.For(nil), Wait: time.Minute, Host: apply.ThisHost(),
	}
	report, err := initialize.Run(t.Context(), options)
	require.NoError(t, err)
	require.True(t, report.Changed)
	again, err := initialize.Run(t.Context(), options)
	require.NoError(t, err)
	require.Empty(t, changedSteps(again))
	loaded, err := state.Load(install)
	require.NoError(t, err)
	require.Equal(t, "v1.36.3", loaded.Current.KubeletVersion)
	removeNode(t)
}
