//go:build sandbox

package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/apply"
)

// process gives the one of the program.
func process(t *testing.T, program string) winservice.Process {
	t.Helper()
	found, err := winservice.OpenProcesses().Under(filepath.Join(install, "releases"))
	require.NoError(t, err)
	for _, p := range found {
		if strings.EqualFold(filepath.Base(p.Path), program) {
			return p
		}
	}
	require.Fail(t, "there is no process of "+program)
	return winservice.Process{}
}

var suspend = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtSuspendProcess")

// TestAKubeletThatDoesNotStopIsKilledAndNamed freezes the kubelet, so that it takes no request to stop.
func TestAKubeletThatDoesNotStopIsKilledAndNamed(t *testing.T) {
	removeNode(t)
	_, err := run(t, newSpec(t, "1.0.0", "kubelet.exe"))
	require.NoError(t, err)
	frozen := process(t, "kubelet.exe")
	handle, err := windows.OpenProcess(windows.PROCESS_SUSPEND_RESUME, false, frozen.PID)
	require.NoError(t, err)
	defer windows.CloseHandle(handle)
	status, _, _ := suspend.Call(uintptr(handle))
	require.Zero(t, status)
	report, err := run(t, newSpec(t, "2.0.0", "kubelet.exe"))
	require.NoError(t, err)
	require.Contains(t, strings.Join(report.Warnings, "\n"), frozen.Path)
	requireRuns(t, "2.0.0")
	removeNode(t)
}

// TestAnOrphanedKubeletIsEndedBeforeTheSwap ends the log runner, which is the service's process; the kubelet goes on without it.
func TestAnOrphanedKubeletIsEndedBeforeTheSwap(t *testing.T) {
	removeNode(t)
	_, err := run(t, newSpec(t, "1.0.0", "kubelet.exe"))
	require.NoError(t, err)
	require.NoError(t, winservice.OpenProcesses().Kill([]winservice.Process{process(t, "kube-log-runner.exe")}))
	_, err = run(t, newSpec(t, "2.0.0", "kubelet.exe"))
	require.NoError(t, err)
	requireRuns(t, "2.0.0")
	removeNode(t)
}

// TestAFileThatSomebodyHoldsIsNamedAndTheOldReleaseGoesOn holds a file of the new release as a scanner does, without sharing it.
func TestAFileThatSomebodyHoldsIsNamedAndTheOldReleaseGoesOn(t *testing.T) {
	removeNode(t)
	_, err := run(t, newSpec(t, "1.0.0", "kubelet.exe"))
	require.NoError(t, err)
	two := newSpec(t, "2.0.0", "kubelet.exe")
	path := filepath.Join(install, "releases", "2.0.0", "kubelet.exe")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	name, err := windows.UTF16PtrFromString(path)
	require.NoError(t, err)
	held, err := windows.CreateFile(name, windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING, 0, 0)
	require.NoError(t, err)
	report, err := run(t, two)
	require.False(t, report.Changed)
	require.True(t, reason.Is(err, reason.FileLocked), "%v", err)
	require.ErrorContains(t, err, "kubelet.exe")
	requireRuns(t, "1.0.0")
	require.NoError(t, windows.CloseHandle(held))
	_, err = run(t, two)
	require.NoError(t, err)
	requireRuns(t, "2.0.0")
	removeNode(t)
}

// TestAServiceThatDependsOnTheKubeletIsStartedAgain makes a second containerd one that depends on the kubelet.
func TestAServiceThatDependsOnTheKubeletIsStartedAgain(t *testing.T) {
	removeNode(t)
	_, err := run(t, newSpec(t, "1.0.0", "kubelet.exe"))
	require.NoError(t, err)
	services := winservice.Open()
	containerd, err := services.Config("containerd")
	require.NoError(t, err)
	dependant := winservice.Config{
		DisplayName: "dependant", CommandLine: strings.ReplaceAll(containerd.CommandLine, "--run-service", "--run-service --service-name dependant") +
			` --address \\.\pipe\dependant --root C:\dependant\root --state C:\dependant\state`,
		StartType: winservice.StartManual, Dependencies: []string{apply.KubeletService},
	}
	require.NoError(t, services.Create(t.Context(), "dependant", dependant))
	defer func() {
		_, _ = services.Stop(t.Context(), "dependant")
		_ = services.Delete(t.Context(), "dependant")
	}()
	require.NoError(t, services.Start(t.Context(), "dependant"))
	_, err = run(t, newSpec(t, "2.0.0", "kubelet.exe"))
	require.NoError(t, err)
	status, err := services.Status("dependant")
	require.NoError(t, err)
	require.Equal(t, winservice.Running, status.State)
	removeNode(t)
}
