package winsystem

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// Read reads the machine.
func Read() (Info, error) {
	version := windows.RtlGetVersion()
	info := Info{
		Build: int(version.BuildNumber), Architecture: runtime.GOARCH, Elevated: windows.GetCurrentProcessToken().IsElevated(),
		Name:           text(`SOFTWARE\Microsoft\Windows NT\CurrentVersion`, "ProductName"),
		SystemUUID:     strings.ToUpper(strings.Trim(text(`SYSTEM\HardwareConfig`, "LastConfig"), "{}")),
		PendingReboots: pendingReboots(),
	}
	var err error
	if info.HostName, err = computerName(windows.ComputerNamePhysicalDnsHostname); err != nil {
		return info, fmt.Errorf("the machine's host name: %w", err)
	}
	info.Domain, err = computerName(windows.ComputerNamePhysicalDnsDomain)
	return info, err
}

// text gives a value of HKEY_LOCAL_MACHINE, "" where there is none.
func text(path, name string) string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer key.Close()
	value, _, err := key.GetStringValue(name)
	if err != nil {
		return ""
	}
	return value
}

func computerName(kind uint32) (string, error) {
	size := uint32(300)
	buffer := make([]uint16, size)
	if err := windows.GetComputerNameEx(kind, &buffer[0], &size); err != nil {
		return "", err
	}
	return windows.UTF16ToString(buffer), nil
}

// pendingReboots leaves PendingFileRenameOperations out: nearly every installer leaves files to delete there, and nothing depends on them.
func pendingReboots() []string {
	var list []string
	for _, mark := range []struct{ path, name string }{
		{`SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`, "servicing"},
		{`SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`, "Windows Update"},
	} {
		if key, err := registry.OpenKey(registry.LOCAL_MACHINE, mark.path, registry.QUERY_VALUE); err == nil {
			key.Close()
			list = append(list, mark.name)
		}
	}
	const names = `SYSTEM\CurrentControlSet\Control\ComputerName\`
	now, next := text(names+"ActiveComputerName", "ComputerName"), text(names+"ComputerName", "ComputerName")
	if now != "" && next != "" && !strings.EqualFold(now, next) {
		list = append(list, fmt.Sprintf("renaming the computer from %s to %s", now, next))
	}
	return list
}

// FreeBytes gives the free bytes of the drive of a path, which need not exist.
func FreeBytes(path string) (int64, error) {
	name, err := windows.UTF16PtrFromString(filepath.VolumeName(path) + `\`)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("drive %s: %w", filepath.VolumeName(path), err)
	}
	return int64(min(free, 1<<62)), nil
}

// Interfaces gives the interfaces that are up and have an address of use.
func Interfaces() ([]Interface, error) {
	adapters, err := adapters()
	if err != nil {
		return nil, fmt.Errorf("the network interfaces: %w", err)
	}
	var list []Interface
	for ; adapters != nil; adapters = adapters.Next {
		if adapters.OperStatus != windows.IfOperStatusUp {
			continue
		}
		found := Interface{
			Name: windows.UTF16PtrToString(adapters.FriendlyName), Default: adapters.FirstGatewayAddress != nil, Metric: adapters.Ipv4Metric,
		}
		for unicast := adapters.FirstUnicastAddress; unicast != nil; unicast = unicast.Next {
			if address, ok := addressOf(unicast.Address); ok {
				found.Addresses = append(found.Addresses, address)
			}
		}
		if len(found.Addresses) > 0 {
			list = append(list, found)
		}
	}
	return list, nil
}

// adapters asks with a growing buffer: the list may grow between two calls.
func adapters() (*windows.IpAdapterAddresses, error) {
	size := uint32(32 << 10)
	for {
		buffer := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0]))
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, windows.GAA_FLAG_INCLUDE_GATEWAYS, 0, first, &size)
		if err == nil {
			return first, nil
		}
		if errors.Is(err, windows.ERROR_NO_DATA) {
			return nil, nil
		}
		if !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) || size > 16<<20 {
			return nil, err
		}
	}
}

func addressOf(socket windows.SocketAddress) (netip.Addr, bool) {
	ip := socket.IP()
	if ip == nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.Equal(net.IPv4zero) {
		return netip.Addr{}, false
	}
	address, ok := netip.AddrFromSlice(ip)
	return address.Unmap(), ok
}

var waitNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("WaitNamedPipeW")

// HasPipe reports whether a named pipe has a server, without taking an instance of it. The path is as \\.\pipe\NAME.
func HasPipe(path string) bool {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return false
	}
	const atOnce = 1 // milliseconds; 0 would be the server's default
	ok, _, err := waitNamedPipe.Call(uintptr(unsafe.Pointer(name)), atOnce)
	return ok != 0 || errors.Is(err, windows.ERROR_SEM_TIMEOUT) || errors.Is(err, windows.ERROR_PIPE_BUSY)
}
