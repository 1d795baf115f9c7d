//go:build sandbox

package winhost_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/sandbox/winhost"
)

const limit = 2 * time.Minute

// awaitService waits for a state: services start after the boot, as on Windows.
func awaitService(t *testing.T, host *winhost.Host, name, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		states, err := host.Services(t.Context(), name)
		return err == nil && states[name] == state
	}, limit, 100*time.Millisecond, "service %s is not %s", name, state)
}

func needContainerd(t *testing.T) {
	t.Helper()
	if containerd == "" {
		t.Skip("NOT TESTED: set SANDBOX_CONTAINERD to the path of containerd.exe")
	}
}

func TestProductCodeFindsTheWindowsThatItExpects(t *testing.T) {
	needContainerd(t)
	tests := install(t, shared, "compat.exe", "test", "-c", "./compat")
	cmd, err := shared.Command(t.Context(), tests, "-test.v")
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "WINHOST_NAME=shared", "WINHOST_ADDRESS="+shared.Address.String(), "WINHOST_GATEWAY="+gateway)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for name, private := range map[string]bool{"born-private": true, "set-private": true, "folder-private": true, "public": false} {
		path, err := shared.Path("sandbox/security/" + name)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, private, info.Mode().Perm()&0o007 == 0, "%s: %s", name, info.Mode())
	}
}

func TestContainerdAnswersOnItsPipe(t *testing.T) {
	needContainerd(t)
	awaitService(t, shared, "containerd", "running")
	log, err := shared.Path("ProgramData/containerd/containerd.log")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(content), "containerd successfully booted")
	}, limit, 50*time.Millisecond)
	said, err := sshRun(t, shared, `"C:\Program Files\containerd\containerd.exe" --version`)
	require.NoError(t, err)
	assert.Contains(t, said, "containerd")
}

func TestARebootIsCleanAndAPowerCutIsNot(t *testing.T) {
	host := start(t, "boots", 12, nil)
	_, err := sshRun(t, host, `reg add HKLM\Software\Kept /v a /d 1 /f & echo x> C:\kept`)
	require.NoError(t, err)
	open, err := dial(host)
	require.NoError(t, err)
	defer open.Close()

	require.NoError(t, host.Reboot(t.Context()))
	said, err := sshRun(t, host, `reg query HKLM\Software\Kept && type C:\kept && reg query "HKLM\System\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"`)
	require.NoError(t, err)
	assert.Contains(t, said, "0x2", "the boot's number")
	if containerd != "" {
		awaitService(t, host, "containerd", "running")
	}
	require.NoError(t, host.PowerCut(t.Context()))
	_, err = sshRun(t, host, `type C:\kept`)
	require.NoError(t, err)
	status, err := host.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, status.Boots)
	assert.True(t, status.SSH)
	if containerd != "" {
		awaitService(t, host, "containerd", "running")
	}
}

func TestAProgramCanRebootTheHost(t *testing.T) {
	host := start(t, "reboots", 13, nil)
	tell := install(t, host, "tell.exe", "build", "./winhost/testdata/tell")
	_, err := sshRun(t, host, tell+" reboot")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := host.Status(t.Context())
		return err == nil && status.Boots == 2 && status.SSH
	}, limit, 100*time.Millisecond)
}

// banner reads the SSH server's greeting within a second.
func banner(host *winhost.Host) error {
	connection, err := net.DialTimeout("tcp", host.Address.Addr().String()+":22", time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	connection.SetReadDeadline(time.Now().Add(time.Second))
	_, err = connection.Read(make([]byte, 4))
	return err
}

func TestAFrozenHostAndACutLineAreSilentUntilTheyEnd(t *testing.T) {
	for name, pair := range map[string][2]func(context.Context) error{
		"frozen": {shared.Freeze, shared.Thaw}, "cut": {shared.Cut, shared.Mend},
	} {
		require.NoError(t, pair[0](t.Context()), name)
		assert.Error(t, banner(shared), name)
		require.NoError(t, pair[1](t.Context()), name)
		require.Eventually(t, func() bool { return banner(shared) == nil }, limit, 50*time.Millisecond, name)
	}
	_, err := sshRun(t, shared, "ver")
	assert.NoError(t, err)
}

func TestAFullDiskIsTheHostsAlone(t *testing.T) {
	require.NoError(t, shared.Fill(t.Context(), 1<<20))
	path, err := shared.Path("big.bin")
	require.NoError(t, err)
	assert.ErrorContains(t, os.WriteFile(path, make([]byte, 2<<20), 0o644), "no space left")
	assert.NoError(t, os.WriteFile(filepath.Join(work, "big.bin"), make([]byte, 2<<20), 0o644))
	require.NoError(t, os.Remove(path))
	require.NoError(t, shared.Fill(t.Context(), 0))
	assert.Error(t, os.WriteFile(path, make([]byte, 64<<10), 0o644))
	require.NoError(t, shared.Unfill(t.Context()))
	assert.NoError(t, os.WriteFile(path, make([]byte, 2<<20), 0o644))
	require.NoError(t, os.Remove(path))
}

func TestHostsAreNotAllAlike(t *testing.T) {
	old := start(t, "old", 14, func(h *winhost.Host) { h.Build, h.NoContainerd = 14393, true })
	said, err := sshRun(t, old, "ver & if exist \"C:\\Program Files\\containerd\" echo present")
	require.NoError(t, err)
	assert.Contains(t, said, "10.0.14393")
	assert.NotContains(t, said, "present")
	states, err := old.Services(t.Context(), "containerd")
	require.NoError(t, err)
	assert.Equal(t, "absent", states["containerd"])

	linux := start(t, "linux", 15, func(h *winhost.Host) { h.NotWindows = true })
	said, err = sshRun(t, linux, "uname -s; cmd.exe /c ver 2>&1 || true")
	require.NoError(t, err)
	assert.Contains(t, said, "Linux")
	assert.NotContains(t, said, "Windows 10")
}

func TestAHostCannotWriteToTheRealMachine(t *testing.T) {
	for _, path := range []string{`/var/lib/kubelet`, `/etc`, `/root`, `/tmp`} {
		sshRun(t, shared, `mkdir C:\t2 & echo x> `+path+`/winhost-was-here`)
		assert.NoFileExists(t, filepath.Join(path, "winhost-was-here"))
	}
	_, err := sshRun(t, shared, `dir Z:\`)
	assert.Error(t, err)
}

func TestTwentyHostsStartAtOnceAndStopLeavingNothing(t *testing.T) {
	const count = 20
	before := namespaces(t)
	hosts := make([]*winhost.Host, count)
	var all sync.WaitGroup
	began := time.Now()
	for i := range hosts {
		host, err := newHost(fmt.Sprintf("many%d", i), 100+i)
		require.NoError(t, err)
		hosts[i] = host
		t.Cleanup(func() { host.Destroy(context.Background()) })
		all.Go(func() { assert.NoError(t, host.Start(t.Context())) })
	}
	all.Wait()
	t.Logf("%d hosts were up after %s", count, time.Since(began).Round(time.Millisecond))
	for _, host := range hosts {
		said, err := sshRun(t, host, "echo %COMPUTERNAME%")
		require.NoError(t, err)
		assert.Equal(t, strings.ToUpper(host.Name), strings.TrimSpace(said))
	}
	for _, host := range hosts {
		all.Go(func() { assert.NoError(t, host.Stop(t.Context())) })
	}
	all.Wait()
	for _, host := range hosts {
		status, err := host.Status(t.Context())
		require.NoError(t, err)
		assert.False(t, status.Running)
		loops, err := exec.Command("losetup", "-j", filepath.Join(host.Dir, "disk.img")).Output()
		require.NoError(t, err)
		assert.Empty(t, string(loops))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), work)
	require.Eventually(t, func() bool { return links(t) == 1 }, limit, 50*time.Millisecond, "interfaces on the bridge, apart from the shared host's")
	require.Eventually(t, func() bool { return namespaces(t) == before }, limit, 50*time.Millisecond, "PID namespaces")
}

func links(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob("/sys/class/net/" + bridge + "/brif/*")
	require.NoError(t, err)
	return len(found)
}

// namespaces counts the PID namespaces in which processes run that have the tests' folder in their environment or arguments.
func namespaces(t *testing.T) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, process := range processes {
		environment, err := os.ReadFile(process + "/environ")
		if err != nil || !strings.Contains(string(environment), "WINHOST_DIR="+work) {
			continue
		}
		if namespace, err := os.Readlink(process + "/ns/pid"); err == nil {
			found[namespace] = true
		}
	}
	return len(found)
}
