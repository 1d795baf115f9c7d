package winrm

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// The ways to log in.
const (
	basic       = "basic"
	certificate = "certificate"
	ntlm        = "ntlm"
	kerberos    = "kerberos"
)

const (
	portHTTP, portHTTPS = 5985, 5986
	defaultTimeout      = 10 * time.Second
	// A host says at least every operationTimeout that it is there; one that is silent for readTimeout is dead.
	operationTimeout = 10 * time.Second
	readTimeout      = 18 * time.Second
)

// aliases are pywinrm's and Ansible's names of the ways to log in.
var aliases = map[string]string{
	"basic": basic, "ssl": basic, "plaintext": basic, "certificate": certificate, "ntlm": ntlm, "negotiate": ntlm, "kerberos": kerberos,
}

// settings is everything that a connection needs.
type settings struct {
	name     string
	endpoint *url.URL
	tls      bool
	user     string
	password string
	logins   []string
	// seal says whether messages are sealed by the login.
	seal      bool
	connect   time.Duration
	read      time.Duration
	operation time.Duration
	config    transport.WinRMConfig
}

func newSettings(config transport.Config) (*settings, error) {
	s := &settings{
		name: config.InventoryHostname, user: config.User, password: config.Password, config: config.WinRM,
		connect: seconds(config.ConnectTimeoutSeconds, defaultTimeout),
		read:    seconds(config.WinRM.ReadTimeoutSeconds, readTimeout), operation: seconds(config.WinRM.OperationTimeoutSeconds, operationTimeout),
	}
	for _, step := range []func(transport.Config) error{s.address, s.timeouts, s.chooseLogins, s.sealing, s.trust, s.credentials} {
		if err := step(config); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func seconds(given int, otherwise time.Duration) time.Duration {
	if given == 0 {
		return otherwise
	}
	return time.Duration(given) * time.Second
}

func (s *settings) argument(object, problem, remedy string) error {
	if remedy == "" {
		remedy = "Correct the variable in the inventory."
	}
	return reason.New(reason.ArgumentInvalid, s.name+": "+object, problem, remedy)
}

func (s *settings) object() string { return fmt.Sprintf("host %s (%s)", s.name, s.endpoint.Host) }

// address follows Ansible: port 5986 where none is given, https unless the port is 5985.
func (s *settings) address(config transport.Config) error {
	host, port, scheme, path := config.Host, config.Port, s.config.Scheme, s.config.Path
	if host == "" {
		host = s.name
	}
	switch {
	case port == 0 && scheme == "http":
		port = portHTTP
	case port == 0:
		port = portHTTPS
	}
	if scheme == "" && port == portHTTP {
		scheme = "http"
	} else if scheme == "" {
		scheme = "https"
	}
	if scheme != "http" && scheme != "https" {
		return s.argument("ansible_winrm_scheme", fmt.Sprintf("it is %q; there are http and https", scheme), "")
	}
	if path == "" {
		path = "/wsman"
	}
	s.tls = scheme == "https"
	s.endpoint = &url.URL{Scheme: scheme, Host: net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(port)), Path: path}
	return nil
}

func (s *settings) timeouts(transport.Config) error {
	if s.operation < time.Second || s.read <= s.operation {
		return s.argument("ansible_winrm_read_timeout_sec", fmt.Sprintf("%s is not longer than the operation timeout, %s", s.read, s.operation),
			"Make ansible_winrm_read_timeout_sec larger than ansible_winrm_operation_timeout_sec, or leave both out.")
	}
	return nil
}

// chooseLogins follows Ansible: Kerberos for a user with a realm, Basic for others, unless the inventory says it.
func (s *settings) chooseLogins(transport.Config) error {
	for _, name := range s.config.Transports {
		login, known := aliases[strings.ToLower(strings.TrimSpace(name))]
		if !known {
			return s.argument("ansible_winrm_transport", fmt.Sprintf("%q is not supported", name), "Use kerberos, ntlm, certificate, or basic (over https).")
		}
		if !slices.Contains(s.logins, login) {
			s.logins = append(s.logins, login)
		}
	}
	switch {
	case len(s.logins) > 0:
	case s.config.CertPEM != "" && s.tls:
		s.logins = []string{certificate}
	case strings.Contains(s.user, "@"):
		s.logins = []string{kerberos}
	default:
		s.logins = []string{basic}
	}
	return nil
}

func (s *settings) sealing(transport.Config) error {
	can := !slices.Contains(s.logins, basic) && !slices.Contains(s.logins, certificate)
	switch s.config.MessageEncryption {
	case "", "auto":
		s.seal = !s.tls && can
	case "always":
		if !can {
			return s.argument("ansible_winrm_message_encryption", "\"always\" needs NTLM or Kerberos alone", "Set ansible_winrm_transport=ntlm or kerberos.")
		}
		s.seal = true
	case "never":
	default:
		return s.argument("ansible_winrm_message_encryption", fmt.Sprintf("it is %q; there are auto, always and never", s.config.MessageEncryption), "")
	}
	if slices.Contains(s.logins, certificate) && !s.tls {
		return s.argument("ansible_winrm_transport", "a client certificate needs https", "Set ansible_winrm_scheme=https and the port of that listener (5986).")
	}
	if s.tls || s.seal || s.config.InsecureExposeCredentials {
		return nil
	}
	return s.argument("ansible_winrm_scheme", "http without message encryption would show everything on the network, with Basic even the password",
		"Use https (port 5986), or ansible_winrm_transport=ntlm or kerberos, which seal each message. wsu_winrm_insecure_expose_credentials=true allows it nevertheless.")
}

func (s *settings) trust(transport.Config) error {
	switch s.config.ServerCertValidation {
	case "", "validate":
	case "ignore":
		if s.tls && s.config.CertificateFingerprint == "" && !s.config.InsecureExposeCredentials {
			return s.argument("ansible_winrm_server_cert_validation", "with \"ignore\", any machine could pose as this host and join the cluster in its place",
				"Give the listener's CA in ansible_winrm_ca_trust_path, or pin its certificate with wsu_winrm_certificate_fingerprint=SHA256:... "+
					"(on the host: Get-PfxCertificate; or openssl x509 -fingerprint -sha256). wsu_winrm_insecure_expose_credentials=true allows it nevertheless.")
		}
	default:
		return s.argument("ansible_winrm_server_cert_validation", fmt.Sprintf("it is %q; there are validate and ignore", s.config.ServerCertValidation), "")
	}
	if _, err := fingerprintOf(s.config.CertificateFingerprint); err != nil {
		return s.argument("wsu_winrm_certificate_fingerprint", err.Error(), "Write it as SHA256: and 64 hexadecimal digits.")
	}
	for variable, path := range map[string]string{
		"ansible_winrm_ca_trust_path": s.config.CATrustPath, "ansible_winrm_cert_pem": s.config.CertPEM, "ansible_winrm_cert_key_pem": s.config.CertKeyPEM,
	} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return s.argument(variable, err.Error(), "")
		}
	}
	return nil
}

func (s *settings) credentials(transport.Config) error {
	if s.config.KerberosDelegation && slices.Contains(s.logins, kerberos) {
		return s.argument("ansible_winrm_kerberos_delegation", "delegation is not supported: nothing that runs on the host needs your tickets", "Leave the variable out.")
	}
	for _, login := range s.logins {
		switch {
		case login == certificate && (s.config.CertPEM == "" || s.config.CertKeyPEM == ""):
			return s.argument("ansible_winrm_cert_pem", "a login by certificate needs ansible_winrm_cert_pem and ansible_winrm_cert_key_pem", "")
		case (login == basic || login == ntlm) && (s.user == "" || s.password == ""):
			return s.argument("ansible_password", "a login by "+login+" needs ansible_user and ansible_password", "Set them, the password through Ansible Vault.")
		}
	}
	return nil
}
