package compat_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

const limit = 60 * time.Second

func connect(t *testing.T) *mgr.Mgr {
	t.Helper()
	manager, err := mgr.Connect()
	require.NoError(t, err)
	t.Cleanup(func() { manager.Disconnect() })
	return manager
}

// create makes a service that runs this executable with args, and deletes it in the end.
func create(t *testing.T, manager *mgr.Mgr, name string, config mgr.Config, args ...string) *mgr.Service {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	service, err := manager.CreateService(name, self, config, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		service.Control(svc.Stop)
		waitFor(t, service, svc.Stopped)
		assert.NoError(t, service.Delete())
		service.Close()
	})
	return service
}

func waitFor(t *testing.T, service *mgr.Service, state svc.State) svc.Status {
	t.Helper()
	var status svc.Status
	require.Eventually(t, func() bool {
		var err error
		status, err = service.Query()
		return err == nil && status.State == state
	}, limit, 20*time.Millisecond)
	return status
}

func TestAServiceKeepsTheConfigurationThatItWasGiven(t *testing.T) {
	manager := connect(t)
	create(t, manager, "compatbase", mgr.Config{StartType: mgr.StartManual}, "service", filepath.Join(t.TempDir(), "out"))
	service := create(t, manager, "compat", mgr.Config{
		StartType: mgr.StartAutomatic, DisplayName: "Compat", Description: "a test", Dependencies: []string{"compatbase"},
		ErrorControl: mgr.ErrorNormal,
	}, "service", `C:\with space\"quoted"`)

	config, err := service.Config()
	require.NoError(t, err)
	assert.Equal(t, []string{"compatbase"}, config.Dependencies)
	assert.Equal(t, "Compat", config.DisplayName)
	assert.Equal(t, "a test", config.Description)
	assert.EqualValues(t, mgr.StartAutomatic, config.StartType)
	assert.Contains(t, config.BinaryPathName, `"C:\with space\\\"quoted\""`)

	config.Dependencies, config.DelayedAutoStart, config.Description = []string{"compatbase", "eventlog"}, true, "changed"
	config.SidType = windows.SERVICE_SID_TYPE_UNRESTRICTED
	require.NoError(t, service.UpdateConfig(config))
	config, err = service.Config()
	require.NoError(t, err)
	assert.Equal(t, []string{"compatbase", "eventlog"}, config.Dependencies)
	assert.True(t, config.DelayedAutoStart)
	assert.Equal(t, "changed", config.Description)
	assert.EqualValues(t, windows.SERVICE_SID_TYPE_UNRESTRICTED, config.SidType)

	config.Dependencies, config.DisplayName = nil, "Other"
	require.NoError(t, service.UpdateConfig(config))
	config, err = service.Config()
	require.NoError(t, err)
	assert.Equal(t, []string{"compatbase", "eventlog"}, config.Dependencies, "no list leaves the dependencies as they are")
	assert.Equal(t, "Other", config.DisplayName)
}

func TestRecoveryActionsAreReadBackAsTheyWereSet(t *testing.T) {
	service := create(t, connect(t), "compat", mgr.Config{}, "service", filepath.Join(t.TempDir(), "out"))
	actions := []mgr.RecoveryAction{
		{Type: mgr.ServiceRestart, Delay: 5 * time.Second}, {Type: mgr.ServiceRestart, Delay: 10 * time.Second}, {Type: mgr.NoAction},
	}
	require.NoError(t, service.SetRecoveryActions(actions, 3600))
	require.NoError(t, service.SetRecoveryActionsOnNonCrashFailures(true))
	require.NoError(t, service.SetRecoveryCommand(`C:\k\tell.exe`))

	got, err := service.RecoveryActions()
	require.NoError(t, err)
	assert.Equal(t, actions, got)
	period, err := service.ResetPeriod()
	require.NoError(t, err)
	assert.EqualValues(t, 3600, period)
	flag, err := service.RecoveryActionsOnNonCrashFailures()
	require.NoError(t, err)
	assert.True(t, flag)
	command, err := service.RecoveryCommand()
	require.NoError(t, err)
	assert.Equal(t, `C:\k\tell.exe`, command)
	require.NoError(t, service.ResetRecoveryActions())
	got, err = service.RecoveryActions()
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestAServiceIsStartedAfterWhatItDependsOnAndStoppedBeforeIt(t *testing.T) {
	manager, dir := connect(t), t.TempDir()
	base := create(t, manager, "compatbase", mgr.Config{}, "service", filepath.Join(dir, "base"))
	service := create(t, manager, "compat", mgr.Config{Dependencies: []string{"compatbase"}}, "service", filepath.Join(dir, "own"))
	require.NoError(t, service.Start())
	waitFor(t, base, svc.Running)
	waitFor(t, service, svc.Running)

	_, err := base.Control(svc.Stop)
	require.ErrorIs(t, err, windows.ERROR_DEPENDENT_SERVICES_RUNNING)
	dependents, err := base.ListDependentServices(svc.Active)
	require.NoError(t, err)
	assert.Equal(t, []string{"compat"}, dependents)

	_, err = service.Control(svc.Stop)
	require.NoError(t, err)
	waitFor(t, service, svc.Stopped)
	_, err = service.Control(svc.Stop)
	require.ErrorIs(t, err, windows.ERROR_SERVICE_NOT_ACTIVE)
}

func TestAServiceWhoseDependencyIsMissingDoesNotStart(t *testing.T) {
	service := create(t, connect(t), "compat", mgr.Config{Dependencies: []string{"nosuchservice"}}, "service", `C:\never`)
	require.ErrorIs(t, service.Start(), windows.ERROR_SERVICE_DEPENDENCY_DELETED)
}

func TestACrashedServiceIsStoppedWithAnExitCode(t *testing.T) {
	service := create(t, connect(t), "compat", mgr.Config{}, "crash")
	require.NoError(t, service.Start())
	status := waitFor(t, service, svc.Stopped)
	assert.EqualValues(t, windows.ERROR_PROCESS_ABORTED, status.Win32ExitCode)
	require.NoError(t, service.Start(), "it can be started again")
}

func TestAServiceGetsItsOwnEnvironment(t *testing.T) {
	out := filepath.Join(t.TempDir(), "environment")
	service := create(t, connect(t), "compat", mgr.Config{}, "service", out)
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\compat`, registry.ALL_ACCESS)
	require.NoError(t, err)
	defer key.Close()
	require.NoError(t, key.SetStringsValue("Environment", []string{"OTHER=1", "WSU_COMPAT=proxy=http://a b/"}))
	require.NoError(t, service.Start())
	waitFor(t, service, svc.Running)
	content, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "proxy=http://a b/", string(content))
}

func TestTheContainerRuntimeIsKnownToTheServiceManager(t *testing.T) {
	service, err := connect(t).OpenService("containerd")
	require.NoError(t, err)
	defer service.Close()
	config, err := service.Config()
	require.NoError(t, err)
	assert.Contains(t, config.BinaryPathName, `containerd.exe`)
	assert.EqualValues(t, mgr.StartAutomatic, config.StartType)
}
