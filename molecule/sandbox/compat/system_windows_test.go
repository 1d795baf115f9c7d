package compat_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// What the host was started as; winhost's test sets these.
func given(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	require.NotEmpty(t, value, "set "+name)
	return value
}

func TestTheHostKnowsItsNameVersionAndIdentity(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, given(t, "WINHOST_NAME"), name)
	computer, err := windows.ComputerName()
	require.NoError(t, err)
	assert.Equal(t, strings.ToUpper(given(t, "WINHOST_NAME")), computer)
	assert.EqualValues(t, 20348, windows.RtlGetVersion().BuildNumber)

	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\HardwareConfig`, registry.QUERY_VALUE)
	require.NoError(t, err)
	guid, _, err := key.GetStringValue("LastConfig")
	require.NoError(t, err)
	assert.Regexp(t, `^\{[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}$`, guid)
	key, err = registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`, registry.QUERY_VALUE)
	require.NoError(t, err)
	boot, _, err := key.GetIntegerValue("BootId")
	require.NoError(t, err)
	assert.Positive(t, boot)
	assert.True(t, windows.GetCurrentProcessToken().IsElevated())
}

func TestRegistryValuesComeBack(t *testing.T) {
	key, existed, err := registry.CreateKey(registry.LOCAL_MACHINE, `SOFTWARE\Compat`, registry.ALL_ACCESS)
	require.NoError(t, err)
	defer registry.DeleteKey(registry.LOCAL_MACHINE, `SOFTWARE\Compat`)
	defer key.Close()
	assert.False(t, existed)
	require.NoError(t, key.SetStringsValue("list", []string{"a", "ü"}))
	list, _, err := key.GetStringsValue("list")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "ü"}, list)
	require.NoError(t, key.DeleteValue("list"))
}

func TestTheDefaultRouteAndItsInterfaceAreVisible(t *testing.T) {
	var table *windows.MibIpForwardTable2
	require.NoError(t, windows.GetIpForwardTable2(windows.AF_INET, &table))
	defer windows.FreeMibTable(unsafe.Pointer(table))
	var index uint32
	for _, row := range table.Rows() {
		if row.DestinationPrefix.PrefixLength == 0 {
			index = row.InterfaceIndex
		}
	}
	require.NotZero(t, index, "a default route")

	face, err := net.InterfaceByIndex(int(index))
	require.NoError(t, err)
	assert.Len(t, face.HardwareAddr, 6)
	addresses, err := face.Addrs()
	require.NoError(t, err)
	var found []string
	for _, address := range addresses {
		found = append(found, address.String())
	}
	assert.Contains(t, found, given(t, "WINHOST_ADDRESS"))
}

func TestTheGatewayIsTheAdapters(t *testing.T) {
	size := uint32(64 << 10)
	buffer := make([]byte, size)
	first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0]))
	require.NoError(t, windows.GetAdaptersAddresses(windows.AF_INET, windows.GAA_FLAG_INCLUDE_GATEWAYS, 0, first, &size))
	var gateways []string
	for adapter := first; adapter != nil; adapter = adapter.Next {
		for gateway := adapter.FirstGatewayAddress; gateway != nil; gateway = gateway.Next {
			gateways = append(gateways, gateway.Address.IP().String())
		}
	}
	assert.Contains(t, gateways, given(t, "WINHOST_GATEWAY"))
}

func TestAListeningPortIsInTheTableAndTaken(t *testing.T) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	assert.True(t, listening(t, port))
	_, err = net.Listen("tcp4", listener.Addr().String())
	assert.ErrorIs(t, err, windows.WSAEADDRINUSE)
	require.NoError(t, listener.Close())
	assert.False(t, listening(t, port))
}

// listening asks GetExtendedTcpTable (TCP_TABLE_OWNER_PID_LISTENER) whether somebody listens on a port. Who it is is 0 in Wine for most
// sockets: they are its server's until a process reads from them.
func listening(t *testing.T, port int) bool {
	t.Helper()
	const listeners = 3
	call := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")
	size := uint32(64 << 10)
	buffer := make([]uint32, size/4)
	status, _, _ := call.Call(uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&size)), 0, windows.AF_INET, listeners, 0)
	require.Zero(t, status)
	for row := 0; row < int(buffer[0]); row++ {
		local := buffer[1+row*6+2] // of state, local address, local port, remote address, remote port, process
		if int(local>>8&0xff|local&0xff<<8) == port {
			return true
		}
	}
	return false
}

func TestProcessesAreListed(t *testing.T) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	require.NoError(t, err)
	defer windows.CloseHandle(snapshot)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	names := map[uint32]string{}
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		names[entry.ProcessID] = strings.ToLower(windows.UTF16ToString(entry.ExeFile[:]))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	assert.Equal(t, strings.ToLower(filepath.Base(self)), names[uint32(os.Getpid())])
}

func TestAJobEndsItsProcesses(t *testing.T) {
	job, err := windows.CreateJobObject(nil, nil)
	require.NoError(t, err)
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	require.NoError(t, err)

	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "hold")
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
	require.NoError(t, err)
	require.NoError(t, windows.AssignProcessToJobObject(job, process))
	require.NoError(t, windows.CloseHandle(process))
	require.NoError(t, windows.CloseHandle(job))
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatal("the process outlives its job")
	}
}

func TestUDPAndUnixSocketsListen(t *testing.T) {
	packet, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, packet.Close())

	path := filepath.Join(t.TempDir(), "s.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	assert.FileExists(t, path)
	assert.Equal(t, path, listener.Addr().String())
	_, err = net.Listen("unix", path)
	assert.ErrorIs(t, err, windows.WSAEADDRINUSE)
	require.NoError(t, listener.Close())
	again, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// The kubelet does this at each start.
func TestTheSocketOfADeadProcessCanBeTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "listen", path)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdout.Read(make([]byte, 1)) // it listens
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		require.NoError(t, os.RemoveAll(path))
	}
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}

func TestAProcessWithoutAConsoleIsDetached(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "hold")
	cmd.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_BREAKAWAY_FROM_JOB}
	require.NoError(t, cmd.Start())
	require.NoError(t, cmd.Wait(), "its stdin is empty, so that it ends")
}
