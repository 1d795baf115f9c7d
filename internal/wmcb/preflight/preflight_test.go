package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winservice/winservicetest"
	"wsu.windows/internal/winsystem"
	"wsu.windows/internal/wmcb/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// machine is a good one, and the request that finds it so.
type machine struct {
	info       winsystem.Info
	interfaces []winsystem.Interface
	services   *winservicetest.Machine
	host       Host
	request    nodespec.Preflight
}

func good(t *testing.T) *machine {
	t.Helper()
	m := &machine{
		info: winsystem.Info{Build: 20348, Name: "Windows Server 2022 Datacenter", Architecture: "amd64", HostName: "WIN-1", Domain: "example.com",
			SystemUUID: "4C4C4544-0042-3510-8052-B4C04F4E3632", Elevated: true},
		interfaces: []winsystem.Interface{{Name: "Ethernet", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Default: true, Metric: 10}},
		services:   winservicetest.New(),
		request: nodespec.Preflight{
			APIServer: "https://api-int.example.com:6443", RequiredBytes: 200 << 20, RuntimeService: "containerd",
			RuntimeEndpoint: "npipe://./pipe/containerd-containerd", Paths: nodespec.Paths{Install: filepath.Join(t.TempDir(), "k")},
		},
	}
	m.service(t, "containerd", `"C:\Program Files\containerd\containerd.exe" --run-service`)
	require.NoError(t, m.services.Start(t.Context(), "containerd"))
	m.host = Host{
		System:         func() (winsystem.Info, error) { return m.info, nil },
		Interfaces:     func() ([]winsystem.Interface, error) { return m.interfaces, nil },
		FreeBytes:      func(string) (int64, error) { return 10 << 30, nil },
		HasPipe:        func(path string) bool { return path == `\\.\pipe\containerd-containerd` },
		Services:       m.services,
		RuntimeVersion: func(context.Context, string) (string, error) { return "v2.4.2", nil },
		PortIsFree:     func(int) error { return nil },
		Resolve:        func(context.Context, string) ([]string, error) { return []string{"10.0.0.1"}, nil },
		Ask:            func(context.Context, string, []byte) (time.Time, error) { return noon, nil },
		AddressTowards: func(context.Context, string) (string, error) { return "10.0.0.5", nil },
		Now:            func() time.Time { return noon.Add(2 * time.Second) },
	}
	return m
}

func (m *machine) service(t *testing.T, name, commandLine string) {
	t.Helper()
	require.NoError(t, m.services.Create(t.Context(), name, winservice.Config{CommandLine: commandLine, StartType: winservice.StartAuto}))
}

func (m *machine) withoutContainerd(t *testing.T) {
	t.Helper()
	_, err := m.services.Stop(t.Context(), "containerd")
	require.NoError(t, err)
	require.NoError(t, m.services.Delete(t.Context(), "containerd"))
}

func (m *machine) run(t *testing.T) (nodereport.Preflight, error) {
	t.Helper()
	return Run(t.Context(), Options{Request: m.request, Host: m.host})
}

func check(t *testing.T, report nodereport.Preflight, name string) nodereport.Check {
	t.Helper()
	for _, c := range report.Checks {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "there is no check "+name)
	return nodereport.Check{}
}

func TestAGoodMachinePassesEveryCheckAndIsDescribed(t *testing.T) {
	report, err := good(t).run(t)
	require.NoError(t, err)
	assert.True(t, report.OK)
	for _, c := range report.Checks {
		assert.Equal(t, nodereport.Pass, c.Result, "%s: %s", c.Name, c.Seen)
	}
	assert.Len(t, report.Checks, 12)
	facts := report.Facts
	assert.Equal(t, "win-1", facts.NodeName)
	assert.Equal(t, "10.0.0.5", facts.NodeIP)
	assert.Equal(t, []string{"win-1", "win-1.example.com"}, facts.DNSNames)
	assert.Equal(t, "v2.4.2", facts.Runtime.Version)
	assert.Nil(t, facts.Joined)
}

func TestWhatAMachineMustNotBe(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, *machine)
		check  string
		code   reason.Code
		says   string
	}{
		"an old build":       {func(_ *testing.T, m *machine) { m.info.Build = 14393 }, "windows_build", reason.WindowsUnsupported, "14393"},
		"another processor":  {func(_ *testing.T, m *machine) { m.info.Architecture = "arm64" }, "windows_build", reason.WindowsUnsupported, "arm64"},
		"without rights":     {func(_ *testing.T, m *machine) { m.info.Elevated = false }, "elevation", reason.NotElevated, "administrator"},
		"an unfit host name": {func(_ *testing.T, m *machine) { m.info.HostName = "WIN_1" }, "host_name", reason.NodeNameInvalid, "win_1"},
		"an unfit node name": {func(_ *testing.T, m *machine) { m.request.NodeName = "Win1" }, "host_name", reason.NodeNameInvalid, "Win1"},
		"without a runtime": {func(t *testing.T, m *machine) { m.withoutContainerd(t) },
			"container_runtime", reason.RuntimeMissing, "no service containerd"},
		"with Docker alone": {func(t *testing.T, m *machine) {
			m.withoutContainerd(t)
			m.service(t, "docker", "dockerd.exe")
		}, "container_runtime", reason.RuntimeUnsupported, "docker"},
		"with a stopped runtime": {func(t *testing.T, m *machine) {
			_, err := m.services.Stop(t.Context(), "containerd")
			require.NoError(t, err)
		},
			"container_runtime", reason.RuntimeMissing, "stopped"},
		"with another endpoint":  {func(_ *testing.T, m *machine) { m.request.RuntimeEndpoint = "npipe://./pipe/other" }, "container_runtime", reason.RuntimeMissing, "nothing serves"},
		"with a foreign kubelet": {func(t *testing.T, m *machine) { m.service(t, "kubelet", `C:\rke\kubelet.exe`) }, "kubelet", reason.ForeignKubelet, `C:\rke\kubelet.exe`},
		"the operator's":         {func(t *testing.T, m *machine) { m.service(t, "windows-instance-config-daemon", "wicd.exe") }, "kubelet", reason.ForeignNode, "Operator"},
		"full":                   {func(_ *testing.T, m *machine) { m.host.FreeBytes = func(string) (int64, error) { return 1 << 20, nil } }, "disk", reason.DiskFull, "456 MB are needed"},
		"with a taken port":      {func(_ *testing.T, m *machine) { m.host.PortIsFree = func(int) error { return errors.New("in use") } }, "port_10250", reason.PortInUse, "10250"},
		"without a network":      {func(_ *testing.T, m *machine) { m.request.APIServer, m.interfaces[0].Default = "", false }, "network", reason.NetworkUnsuitable, "default route"},
		"with another's address": {func(_ *testing.T, m *machine) { m.request.NodeIP = "10.0.0.9" }, "network", reason.NetworkUnsuitable, "it has 10.0.0.5"},
		"without name resolution": {func(_ *testing.T, m *machine) {
			m.host.Resolve = func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
		}, "dns", reason.DNSFailed, "api-int.example.com"},
		"with a wrong clock": {func(_ *testing.T, m *machine) { m.host.Now = func() time.Time { return noon.Add(time.Hour) } }, "clock", reason.ClockSkew, "1h0m0s"},
		"with a clock too wrong for TLS": {func(_ *testing.T, m *machine) {
			m.host.Ask = func(context.Context, string, []byte) (time.Time, error) {
				return time.Time{}, reason.New(reason.APIUntrusted, "x", "not yet valid", "")
			}
			m.request.APITime = noon.Add(-240 * time.Hour).Format(time.RFC3339)
		}, "clock", reason.ClockSkew, "240h"},
		"with somebody else as API server": {func(_ *testing.T, m *machine) {
			m.host.Ask = func(context.Context, string, []byte) (time.Time, error) {
				return time.Time{}, reason.New(reason.APIUntrusted, "API server x", "its certificate is another's", "")
			}
		}, "api_server", reason.APIUntrusted, "another's"},
	} {
		t.Run(name, func(t *testing.T) {
			m := good(t)
			test.change(t, m)
			report, err := m.run(t)
			require.Error(t, err)
			found := check(t, report, test.check)
			assert.Equal(t, nodereport.Fail, found.Result)
			assert.Equal(t, test.code, found.Code)
			assert.Contains(t, found.Seen, test.says)
			assert.NotEmpty(t, found.Remedy)
			assert.True(t, reason.Is(err, test.code), err)
		})
	}
}

func TestWhatIsSuspiciousIsAWarning(t *testing.T) {
	m := good(t)
	m.info.PendingReboots = []string{"Windows Update"}
	m.interfaces = append(m.interfaces, winsystem.Interface{Name: "Storage", Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.5")}, Default: true})
	m.host.Now = func() time.Time { return noon.Add(time.Minute) }
	m.host.RuntimeVersion = func(context.Context, string) (string, error) { return "", errors.New("it said nothing") }
	report, err := m.run(t)
	require.NoError(t, err)
	for _, name := range []string{"reboot", "network", "clock", "container_runtime"} {
		assert.Equal(t, nodereport.Warn, check(t, report, name).Result, name)
	}
	assert.Contains(t, check(t, report, "network").Remedy, "wsu_node_ip")
}

func TestANodeOfOursPassesAsItIs(t *testing.T) {
	m := good(t)
	m.service(t, "kubelet", `C:\k\releases\0.1.0\kubelet.exe`)
	m.host.PortIsFree = func(int) error { return errors.New("in use") }
	m.host.FreeBytes = func(string) (int64, error) { return 1 << 20, nil }
	require.NoError(t, os.MkdirAll(m.request.Paths.Install, 0o700))
	raw, err := json.Marshal(state.State{Format: state.Format, Current: &state.Applied{Release: "0.1.0", NodeName: "win-1", Cluster: "c1", KubeletVersion: "v1.36.3", Spec: []byte("{}")}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(m.request.Paths.Install, state.FileName), raw, 0o600))
	report, err := m.run(t)
	require.NoError(t, err)
	assert.Equal(t, &nodereport.Joined{Release: "0.1.0", NodeName: "win-1", Cluster: "c1", KubeletVersion: "v1.36.3"}, report.Facts.Joined)
	assert.Equal(t, nodereport.Warn, check(t, report, "disk").Result)
}

func TestAnInterruptedJoinIsNotAForeignKubelet(t *testing.T) {
	m := good(t)
	m.service(t, "kubelet", `C:\k\releases\0.1.0\kubelet.exe`)
	require.NoError(t, os.MkdirAll(m.request.Paths.Install, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.request.Paths.Install, state.JournalName), []byte("{}"), 0o600))
	_, err := m.run(t)
	require.NoError(t, err)
}

// finishing ends a join, which outlived its session, at the moment at which the kubelet's service is looked at.
type finishing struct {
	winservice.Services
	finish func()
}

func (f finishing) Config(name string) (*winservice.Config, error) {
	if name == "kubelet" {
		f.finish()
	}
	return f.Services.Config(name)
}

func TestAJoinThatEndsMeanwhileIsNotAForeignKubelet(t *testing.T) {
	m := good(t)
	m.service(t, "kubelet", `C:\k\releases\0.1.0\kubelet.exe`)
	require.NoError(t, os.MkdirAll(m.request.Paths.Install, 0o700))
	raw, err := json.Marshal(state.State{Format: state.Format, Current: &state.Applied{Release: "0.1.0", NodeName: "win-1", Spec: []byte("{}")}})
	require.NoError(t, err)
	m.host.Services = finishing{m.services, func() {
		assert.NoError(t, os.WriteFile(filepath.Join(m.request.Paths.Install, state.FileName), raw, 0o600))
	}}
	_, err = m.run(t)
	require.NoError(t, err)
}

func TestTheProgramOfAServiceIsFoundInItsCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		`"C:\Program Files\containerd\containerd.exe" --run-service`: `C:\Program Files\containerd\containerd.exe`,
		`C:\containerd\containerd.exe --run-service`:                 `C:\containerd\containerd.exe`,
		`C:\Program Files\c\containerd.exe -x`:                       `C:\Program Files\c\containerd.exe`,
	} {
		assert.Equal(t, want, program(line))
	}
}
