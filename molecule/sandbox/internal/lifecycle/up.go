package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/controlplane"
	"wsu.windows/sandbox/internal/inventory"
	"wsu.windows/sandbox/internal/mirror"
	"wsu.windows/sandbox/internal/network"
	"wsu.windows/sandbox/internal/openshift"
	"wsu.windows/sandbox/internal/pki"
	"wsu.windows/sandbox/internal/programs"
	"wsu.windows/sandbox/internal/state"
)

// Up starts the sandbox. One that runs already is told, not touched; the remains of one that died are removed first. What fails
// half way is taken down again, and its logs stay.
func (s *Sandbox) Up(ctx context.Context) error {
	if err := requireRoot(); err != nil {
		return err
	}
	return s.locked(func() error {
		if err := s.load(); err != nil {
			return err
		}
		running, err := s.alreadyUp(ctx)
		if running || err != nil {
			return err
		}
		begin := time.Now()
		if err := s.start(ctx); err != nil {
			if s.state == nil { // nothing was started yet
				return err
			}
			s.Log.Phase("Taking down what was started")
			// The context may be cancelled (Ctrl-C); ending must still go through.
			return errors.Join(err, s.teardown(context.WithoutCancel(ctx)))
		}
		s.Log.Phase(fmt.Sprintf("The sandbox runs, after %s", time.Since(begin).Round(100*time.Millisecond)))
		s.describe()
		return nil
	})
}

// alreadyUp says whether the sandbox runs and whole, and removes it if it is half dead.
func (s *Sandbox) alreadyUp(ctx context.Context) (bool, error) {
	if s.state == nil {
		if network.Exists(s.Config.Bridge()) {
			s.Log.Phase("Removing what an earlier sandbox in this folder left behind")
			return false, s.teardown(ctx)
		}
		return false, nil
	}
	if missing := s.missing(ctx); len(missing) > 0 {
		s.Log.Phase("A sandbox was here and is half dead (" + strings.Join(missing, ", ") + "): removing it")
		return false, s.teardown(ctx)
	}
	if s.state.Subnet != s.Config.Subnet.String() || len(s.state.Hosts) != s.Config.Hosts {
		return false, fmt.Errorf("a sandbox runs in %s already, with %d hosts on %s; %d hosts on %s are asked for: end it first with `sandbox down` (make sandbox-down)",
			s.Config.Dir, len(s.state.Hosts), s.state.Subnet, s.Config.Hosts, s.Config.Subnet)
	}
	if s.otherWinRM() {
		return false, fmt.Errorf("a sandbox runs in %s already, and SANDBOX_WINRM asks for WinRM on other hosts than its own: end it first with "+
			"`sandbox down` (make sandbox-down)", s.Config.Dir)
	}
	s.Log.Phase(fmt.Sprintf("The sandbox runs already, since %s", s.state.Created.Local().Format("2006-01-02 15:04:05")))
	s.describe()
	return true, nil
}

// missing names what should run and does not.
func (s *Sandbox) missing(ctx context.Context) []string {
	missing := s.state.Gone()
	if !s.state.Ready {
		missing = append(missing, "its start was interrupted")
	}
	if !network.Exists(s.state.Bridge) {
		missing = append(missing, "no bridge "+s.state.Bridge)
	}
	return append(missing, s.hostsDown(ctx)...)
}

func (s *Sandbox) start(ctx context.Context) error {
	s.Log.Phase("Checking this machine")
	if err := s.check(ctx); err != nil {
		return err
	}
	if err := s.Build(ctx); err != nil {
		return err
	}
	s.state = &state.State{Dir: s.Config.Dir, ID: s.Config.ID(), Subnet: s.Config.Subnet.String(), Created: time.Now()}
	if err := s.startNetwork(ctx); err != nil {
		return err
	}
	cas, err := s.startControlPlane(ctx)
	if err != nil {
		return err
	}
	if err := s.seed(ctx, cas); err != nil {
		return err
	}
	if err := s.startServers(ctx, cas); err != nil {
		return err
	}
	if err := s.startHosts(ctx); err != nil {
		return err
	}
	if err := s.writeInventory(); err != nil {
		return err
	}
	return s.record(func(st *state.State) { st.Ready = true })
}

// check looks for everything that would stop the start, before anything is changed.
func (s *Sandbox) check(ctx context.Context) error {
	list, err := programs.Packages(s.Config.Repository)
	if err != nil {
		return err
	}
	var others []string
	if s.Config.AnyWinRM() {
		others = append(others, programs.WinRM)
	}
	if err := programs.Explain(programs.Missing(list, s.Config.Hosts > 0, others...)); err != nil {
		return err
	}
	if err := s.checkWinRM(); err != nil {
		return err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("the Go compiler is not in PATH: the sandbox builds its programs; install Go 1.26 (https://go.dev/dl) or extend PATH")
	}
	if err := network.CheckSubnet(ctx, s.Config.Subnet, s.Config.Bridge()); err != nil {
		return err
	}
	loopback := s.Config.Loopback()
	for _, port := range []struct {
		number int
		of     string
	}{{config.EtcdPort, "etcd"}, {config.EtcdPeerPort, "etcd"}, {config.ControllerManagerPort, "kube-controller-manager"}} {
		if err := network.CheckPort(netip.AddrPortFrom(loopback, uint16(port.number)), port.of); err != nil {
			return err
		}
	}
	s.Log.Say("packages, Go and subnet %s are fine", s.Config.Subnet)
	return nil
}

// Build brings the programs up to date.
func (s *Sandbox) Build(ctx context.Context) error {
	s.Log.Phase("Programs")
	list := slices.Clone(programs.ControlPlane)
	if s.Config.Hosts > 0 {
		list = append(list, programs.WindowsHost...)
	}
	return programs.Build(ctx, s.Config.Repository, s.Config.Path("bin"), list, s.Log)
}

func (s *Sandbox) startNetwork(ctx context.Context) error {
	s.Log.Phase("Network")
	// Recorded before it is made: a bridge too many in the record does no harm, one too few would stay.
	if err := s.record(func(st *state.State) { st.Bridge = s.Config.Bridge() }); err != nil {
		return err
	}
	return s.Log.Step("bridge "+s.Config.Bridge()+" "+s.Config.Gateway().String(), func() error {
		if err := network.Up(ctx, s.Config.Bridge(), s.Config.Gateway(), s.Config.Subnet); err != nil {
			return err
		}
		for _, port := range []struct {
			number int
			of     string
		}{{config.APIPort, "the API server"}, {config.MachineConfigPort, "the Machine Config Server"}, {config.MirrorPort, "the payload mirror"}} {
			if err := network.CheckPort(netip.AddrPortFrom(s.Config.Gateway(), uint16(port.number)), port.of); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Sandbox) startControlPlane(ctx context.Context) (*pki.Authorities, error) {
	s.Log.Phase("Control plane (Kubernetes " + config.Version + ")")
	cas, err := pki.NewAuthorities(s.Config.Path("pki"))
	if err != nil {
		return nil, err
	}
	plane := controlplane.ControlPlane{Config: s.Config, CAs: cas, Bin: s.Config.Path("bin"), Started: s.started}
	for _, component := range []struct {
		name  string
		start func(context.Context) error
	}{
		{"etcd", plane.StartEtcd}, {"kube-apiserver", plane.StartAPIServer}, {"kube-controller-manager", plane.StartControllerManager},
	} {
		if err := s.Log.Step(component.name, func() error { return component.start(ctx) }); err != nil {
			return nil, err
		}
	}
	return cas, nil
}

func (s *Sandbox) seed(ctx context.Context, cas *pki.Authorities) error {
	s.Log.Phase("OpenShift " + openshift.Version)
	installer, err := openshift.NewInstaller(s.Config.Path("kubeconfig"))
	if err != nil {
		return err
	}
	err = s.Log.Step("CustomResourceDefinitions", func() error {
		dir, err := programs.ModuleDir(ctx, s.Config.Repository, openshift.APIModule)
		if err != nil {
			return err
		}
		_, err = installer.Definitions(ctx, dir)
		return err
	})
	if err != nil {
		return err
	}
	return s.Log.Step("objects of the cluster", func() error {
		_, err := installer.Objects(ctx, openshift.Cluster{
			Domain: config.Domain, API: config.API, APIInt: config.APIInt, ServiceNetwork: controlplane.ServiceNetwork,
			MachineConfigURL: s.Config.MachineConfigURL(),
			KubeletClientCAs: cas.KubeletClientCAs(), RootCA: cas.Root.PEM, MachineConfigCA: cas.MachineConfig.PEM,
		})
		return err
	})
}

// startServers starts the Machine Config Server and the mirror, both in one process that is this very program.
func (s *Sandbox) startServers(ctx context.Context, cas *pki.Authorities) error {
	s.Log.Phase("Servers")
	if err := s.Mirror(); err != nil {
		return err
	}
	for _, server := range []struct {
		ca   *pki.CA
		leaf pki.Leaf
	}{
		{cas.MachineConfig, pki.Leaf{Name: mcsCertificate, CommonName: "system:machine-config-server", DNSNames: []string{config.APIInt}}},
		{cas.Mirror, pki.Leaf{Name: mirrorCertificate, CommonName: "payload-mirror", DNSNames: []string{"mirror." + config.Domain}}},
	} {
		server.leaf.Server, server.leaf.Addresses = true, []netip.Addr{s.Config.Gateway()}
		if _, _, err := server.ca.Issue(server.leaf); err != nil {
			return err
		}
	}
	return s.Log.Step("Machine Config Server and payload mirror", func() error {
		program, err := s.installSelf()
		if err != nil {
			return err
		}
		command := exec.Command(program, "serve")
		command.Dir = s.Config.Repository
		command.Env = append(os.Environ(), "SANDBOX_DIR="+s.Config.Dir, "SANDBOX_SUBNET="+s.Config.Subnet.String(), "SANDBOX_HOSTS=0")
		process, err := state.Start("servers", s.Config.Path("logs", "servers.log"), command)
		if err != nil {
			return err
		}
		if err := s.started(process); err != nil {
			return err
		}
		return controlplane.Await(ctx, process, cas.MachineConfig.PEM, s.Config.MachineConfigURL()+"/healthz")
	})
}

// Mirror makes the payload mirror hold what build/payload holds, and build/release's releases in folders of their own.
func (s *Sandbox) Mirror() error {
	names, err := mirror.Refresh(s.payloadDir(), s.releasesDir(), s.Config.Path("mirror"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		s.Log.Say("payload mirror: empty, since %s is; build the payload (make payload), then `sandbox mirror`", s.payloadDir())
		return nil
	}
	s.Log.Say("payload mirror: %s", strings.Join(names, ", "))
	return nil
}

func (s *Sandbox) writeInventory() error {
	var hosts []inventory.Host
	for i, host := range s.state.Hosts {
		one := inventory.Host{Name: host.Name, Address: host.Address}
		if s.Config.WinRM(i) {
			one.Password = s.remoting.password
		}
		hosts = append(hosts, one)
	}
	return inventory.Write(s.Config.Path("inventory"), hosts, inventory.Facts{
		Kubeconfig: s.Config.Path("kubeconfig"), KnownHosts: s.knownHosts(), PrivateKey: s.privateKey(),
		PayloadURL: s.Config.MirrorURL(), PayloadCAFile: s.Config.Path("pki", "mirror-ca.crt"),
		WinRMCAFile: s.Config.Path("pki", "winrm-ca.crt"),
	})
}

// describe tells where things are.
func (s *Sandbox) describe() {
	s.Log.Say("API server      %s   (KUBECONFIG=%s)", s.Config.APIURL(), s.Config.Path("kubeconfig"))
	s.Log.Say("machine config  %s/config/worker", s.Config.MachineConfigURL())
	s.Log.Say("payload mirror  %s", s.Config.MirrorURL())
	for _, host := range s.state.Hosts {
		s.Log.Say("%-15s ssh -i %s -o UserKnownHostsFile=%s Administrator@%s", host.Name, s.privateKey(), s.knownHosts(), host.Address)
		if hasWinRM(host) {
			s.Log.Say("%-15s WinRM on https://%s:5986/wsman and http://%s:5985/wsman (KRB5_CONFIG=%s)", "", host.Address, host.Address, s.Config.Path("krb5.conf"))
		}
	}
	s.Log.Say("inventory       %s   (ansible-playbook scaleup.yml -i %s)", s.Config.Path("inventory"), s.Config.Path("inventory"))
}
