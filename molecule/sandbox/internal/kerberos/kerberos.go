// Package kerberos runs the sandbox's Kerberos server (Debian's krb5-kdc): one realm with the administrator of the Windows hosts and the
// hosts' services, as a domain controller would have them.
package kerberos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/sandbox/internal/state"
)

// Realm is the domain of the hosts.
const Realm = "WSU.TEST"

// User is the account whose password the hosts' administrator has.
const User = "Administrator@" + Realm

// startLimit is how long the server may take to open its port.
const startLimit = 10 * time.Second

// Server is a Kerberos server that listens on Address. Dir holds its database, Config is the krb5.conf that clients use.
type Server struct {
	Dir, Config string
	Address     netip.AddrPort
}

// Create makes the database with the user and writes the configurations. What was there is lost.
func (s Server) Create(ctx context.Context, password string) error {
	if strings.ContainsAny(password, "\"\\\n") {
		return errors.New("kerberos: password: quotes, backslashes and line ends cannot be handed to kadmin.local")
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("kerberos: %w", err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("kerberos: %w", err)
	}
	for path, content := range map[string]string{s.Config: s.clientConfig(), s.path("kdc.conf"): s.serverConfig(), s.path("kadm5.acl"): ""} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("kerberos: %w", err)
		}
	}
	master := strings.Repeat(password+"\n", 2) // asked for and to be repeated; the stash file keeps the key of it
	if err := s.run(ctx, master, "kdb5_util", "-r", Realm, "create", "-s"); err != nil {
		return err
	}
	return s.administer(ctx, fmt.Sprintf("add_principal -clearpolicy -pw \"%s\" %s\n", password, User))
}

// Keytab adds the services that a Windows host has for WinRM under each of its names and writes their keys to file.
func (s Server) Keytab(ctx context.Context, file string, names ...string) error {
	var script strings.Builder
	for _, name := range names {
		for _, service := range []string{"HTTP", "WSMAN", "host"} { // clients differ in what they ask for; a domain's machines have all
			fmt.Fprintf(&script, "add_principal -clearpolicy -randkey %[1]s/%[2]s\nktadd -q -k \"%[3]s\" %[1]s/%[2]s\n", service, name, file)
		}
	}
	if err := s.administer(ctx, script.String()); err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("kerberos: keytab: %w", err)
	}
	return os.Chmod(file, 0o600)
}

// Start starts the server; log receives what it says. The caller ends the process.
func (s Server) Start(log string) (state.Process, error) {
	command := exec.Command(program("krb5kdc"), "-n", "-r", Realm)
	command.Dir, command.Env = s.Dir, s.environment()
	return state.Start("krb5kdc", log, command)
}

// Await returns once the server answers, or an error if it does not in time.
func (s Server) Await(ctx context.Context, process state.Process) error {
	deadline := time.Now().Add(startLimit)
	dialer := net.Dialer{Timeout: time.Second}
	for {
		connection, err := dialer.DialContext(ctx, "tcp", s.Address.String())
		if err == nil {
			return connection.Close()
		}
		if !process.Running() || time.Now().After(deadline) {
			return fmt.Errorf("krb5kdc does not answer on %s: see %s and %s: %w", s.Address, process.Log, s.path("kdc.log"), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("krb5kdc: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s Server) path(name string) string { return filepath.Join(s.Dir, name) }

func (s Server) environment() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "KRB5_CONFIG=" + s.Config, "KRB5_KDC_PROFILE=" + s.path("kdc.conf")}
}

// administer feeds kadmin.local, which goes on after errors and returns 0: what it says on stderr is why an order was refused. What it
// says on stdout repeats the orders, passwords included.
func (s Server) administer(ctx context.Context, script string) error {
	return s.run(ctx, script, "kadmin.local", "-r", Realm)
}

// run hands input, with the secrets in it, to a tool on its stdin.
func (s Server) run(ctx context.Context, input, tool string, args ...string) error {
	var said bytes.Buffer
	command := exec.CommandContext(ctx, program(tool), args...)
	command.Dir, command.Env, command.Stdin, command.Stderr = s.Dir, s.environment(), strings.NewReader(input), &said
	err := command.Run()
	if err == nil && tool == "kadmin.local" && said.Len() > 0 {
		err = errors.New("it refused an order")
	}
	if err != nil {
		return fmt.Errorf("kerberos: %s: %w: is the package krb5-admin-server installed?\n%s", tool, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// program finds what Debian keeps in sbin, which PATH may lack.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return "/usr/sbin/" + name
}

func (s Server) clientConfig() string {
	return fmt.Sprintf(`# The sandbox's Kerberos realm: KRB5_CONFIG=%[3]s kinit %[4]s
[libdefaults]
  default_realm = %[1]s
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1

[realms]
  %[1]s = {
    kdc = %[2]s
  }

[domain_realm]
  .sandbox.test = %[1]s
  sandbox.test = %[1]s
`, Realm, s.Address, s.Config, User)
}

func (s Server) serverConfig() string {
	return fmt.Sprintf(`[kdcdefaults]
  kdc_listen = %[2]s
  kdc_tcp_listen = %[2]s

[realms]
  %[1]s = {
    database_name = %[3]s/principal
    key_stash_file = %[3]s/stash
    acl_file = %[3]s/kadm5.acl
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
    max_life = 10h
  }

[logging]
  kdc = FILE:%[3]s/kdc.log
`, Realm, s.Address, s.Dir)
}
