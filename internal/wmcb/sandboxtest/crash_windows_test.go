//go:build sandbox

package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"wsu.windows/internal/securefile"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/initialize"
	"wsu.windows/internal/wmcb/state"
)

// childRelease, in the environment, makes this program apply that release and nothing else: the process that gets killed.
const childRelease = "WSU_TEST_CHILD_RELEASE"

func TestChild(t *testing.T) {
	release := os.Getenv(childRelease)
	if release == "" {
		t.Skip("only as a child of TestAKilledApplyConverges")
	}
	_, err := run(t, newSpec(t, release, "kubelet.exe"))
	require.NoError(t, err)
}

// TestAKilledApplyConverges kills the process at moments all over join and upgrade; the same apply again then succeeds, and what the
// service names is one whole release at every moment.
func TestAKilledApplyConverges(t *testing.T) {
	removeNode(t)
	kills, undone := 0, 0
	for i, after := range []int{20, 120, 200, 260, 320, 380, 440, 500, 700, 900, 1300, 2000} {
		release := []string{"1.0.0", "2.0.0"}[i%2]
		child := exec.Command(os.Args[0], "-test.run", "^TestChild$")
		child.Env = append(os.Environ(), childRelease+"="+release)
		require.NoError(t, child.Start())
		time.Sleep(time.Duration(after) * time.Millisecond)
		if child.Process.Kill() == nil {
			kills++
		}
		_ = child.Wait()
		if _, err := os.Stat(filepath.Join(install, state.JournalName)); err == nil {
			undone++
		}
		requireWholeService(t)
		_, err := run(t, newSpec(t, release, "kubelet.exe"))
		require.NoError(t, err)
		requireRuns(t, release)
	}
	t.Logf("%d kills, %d in the middle of a transaction", kills, undone)
	require.Positive(t, undone)
	removeNode(t)
}

func requireWholeService(t *testing.T) {
	t.Helper()
	_, err := state.Load(install)
	require.NoError(t, err)
	config, err := winservice.Open().Config(apply.KubeletService)
	require.NoError(t, err)
	if config == nil {
		return
	}
	words, err := windows.DecomposeCommandLine(config.CommandLine)
	require.NoError(t, err)
	folder := filepath.Dir(words[0])
	for _, name := range []string{"kubelet.exe", "kube-log-runner.exe", "kubelet.conf"} {
		require.FileExists(t, filepath.Join(folder, name))
		require.Contains(t, config.CommandLine, filepath.Join(folder, name))
	}
}

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
		Enroll: enroll(t), Host: apply.ThisHost(),
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
