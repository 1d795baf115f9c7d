package lifecycle

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/kerberos"
	"wsu.windows/sandbox/internal/network"
	"wsu.windows/sandbox/internal/pki"
	"wsu.windows/sandbox/internal/state"
	"wsu.windows/sandbox/winhost"
)

// remoting is what the hosts with WinRM share. There is one password, since Administrator is one account of the domain.
type remoting struct {
	password         string
	servers, clients *pki.CA
	domain           kerberos.Server
	mu               sync.Mutex // hosts start in parallel, and the domain's database takes one writer
}

// python is the interpreter that runs the endpoint; scripts/setup-venvs.sh makes it.
func (s *Sandbox) python() string {
	return filepath.Join(s.Config.Repository, ".venv-sandbox", "bin", "python")
}

// checkWinRM looks for what hosts with WinRM need, before anything is changed.
func (s *Sandbox) checkWinRM() error {
	for number := range s.Config.SomeWinRM {
		if number > s.Config.Hosts {
			return fmt.Errorf("SANDBOX_WINRM names host %d, and there are %d hosts (SANDBOX_HOSTS)", number, s.Config.Hosts)
		}
	}
	if !s.Config.AnyWinRM() {
		return nil
	}
	if _, err := os.Stat(s.python()); err != nil {
		return fmt.Errorf("SANDBOX_WINRM: no Python environment for the endpoint: %w: make it with scripts/setup-venvs.sh (make setup)", err)
	}
	return nil
}

// startWinRM makes the certificates and starts the Kerberos server.
func (s *Sandbox) startWinRM(ctx context.Context) error {
	r := &remoting{password: "Wsu-" + rand.Text(), domain: kerberos.Server{
		Dir: s.Config.Path("krb5"), Config: s.Config.Path("krb5.conf"), Address: netip.AddrPortFrom(s.Config.Gateway(), config.KerberosPort),
	}}
	var err error
	if r.servers, err = pki.NewCA(s.Config.Path("pki"), "winrm-ca", "winrm"); err != nil {
		return err
	}
	if r.clients, err = pki.NewCA(s.Config.Path("pki"), "winrm-client-ca", "winrm-clients"); err != nil {
		return err
	}
	_, _, err = r.clients.Issue(pki.Leaf{Name: "winrm-client", CommonName: "Administrator", Client: true, UserPrincipal: "Administrator@localhost"})
	if err != nil {
		return err
	}
	s.remoting = r
	return s.Log.Step("Kerberos server "+r.domain.Address.String(), func() error { return s.startDomain(ctx) })
}

func (s *Sandbox) startDomain(ctx context.Context) error {
	domain := s.remoting.domain
	if err := network.CheckPort(domain.Address, "the Kerberos server"); err != nil {
		return err
	}
	if err := domain.Create(ctx, s.remoting.password); err != nil {
		return err
	}
	process, err := domain.Start(s.Config.Path("logs", "krb5kdc.log"))
	if err != nil {
		return err
	}
	if err := s.started(process); err != nil {
		return err
	}
	return domain.Await(ctx, process)
}

// addWinRM gives the host its endpoint.
func (s *Sandbox) addWinRM(ctx context.Context, host *winhost.Host) error {
	r, address := s.remoting, host.Address.Addr()
	certificate, key, err := r.servers.Issue(pki.Leaf{
		Name: "winrm-" + host.Name, CommonName: host.Name, DNSNames: []string{host.Name, host.Name + "." + config.Domain},
		Addresses: []netip.Addr{address}, Server: true,
	})
	if err != nil {
		return err
	}
	keytab := filepath.Join(r.domain.Dir, host.Name+".keytab")
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.domain.Keytab(ctx, keytab, host.Name, host.Name+"."+config.Domain, address.String()); err != nil {
		return err
	}
	host.Password = r.password
	host.WinRM = &winhost.WinRM{
		Python: s.python(), Certificate: certificate, Key: key, ClientCA: r.clients.CertFile(), Keytab: keytab, Kerberos: r.domain.Config,
	}
	return nil
}

// hasWinRM says how a host was started, of which its folder alone knows.
func hasWinRM(host state.Host) bool { return exists(filepath.Join(host.Dir, "etc", "winrm", "users")) }

// otherWinRM says whether the running hosts are not those that SANDBOX_WINRM asks for.
func (s *Sandbox) otherWinRM() bool {
	for i, host := range s.state.Hosts {
		if hasWinRM(host) != s.Config.WinRM(i) {
			return true
		}
	}
	return false
}
