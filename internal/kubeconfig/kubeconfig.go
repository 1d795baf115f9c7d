// Package kubeconfig reads what wmcb needs of a kubeconfig: one cluster, one user. It does not need client-go, which would
// make wmcb.exe too big to travel without the transfer stream.
package kubeconfig

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Kubeconfig is the current context of a kubeconfig, its files read. It holds secrets: never print it.
type Kubeconfig struct {
	// Server is the API server's URL, for example https://api-int.example.com:6443.
	Server string
	// TLSServerName overrides the name that the server's certificate must have; usually empty.
	TLSServerName string
	// CA is PEM, one certificate or more; empty means the system's trust.
	CA []byte
	// Token is a bearer token, or empty.
	Token string
	// ClientCert and ClientKey are PEM, or empty.
	ClientCert, ClientKey []byte
}

// document is the part of clientcmd/v1.Config that is used.
type document struct {
	CurrentContext string         `json:"current-context"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
}

type namedCluster struct {
	Name    string  `json:"name"`
	Cluster cluster `json:"cluster"`
}

type cluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name"`
	CAFile        string `json:"certificate-authority"`
	CAData        string `json:"certificate-authority-data"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	Token     string `json:"token"`
	TokenFile string `json:"tokenFile"`
	CertFile  string `json:"client-certificate"`
	CertData  string `json:"client-certificate-data"`
	KeyFile   string `json:"client-key"`
	KeyData   string `json:"client-key-data"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// Parse reads a kubeconfig. Relative file names are taken from dir. Errors never quote the content.
func Parse(raw []byte, dir string) (*Kubeconfig, error) {
	var doc document
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, errors.New("it is not a kubeconfig in YAML or JSON")
	}
	c, u, err := doc.current()
	if err != nil {
		return nil, err
	}
	if err := checkServer(c); err != nil {
		return nil, err
	}
	k := &Kubeconfig{Server: c.Server, TLSServerName: c.TLSServerName, Token: u.Token}
	if k.CA, err = dataOrFile("certificate-authority", c.CAData, c.CAFile, dir); err != nil {
		return nil, err
	}
	if k.ClientCert, err = dataOrFile("client-certificate", u.CertData, u.CertFile, dir); err != nil {
		return nil, err
	}
	if k.ClientKey, err = dataOrFile("client-key", u.KeyData, u.KeyFile, dir); err != nil {
		return nil, err
	}
	if k.Token == "" && u.TokenFile != "" {
		token, err := dataOrFile("tokenFile", "", u.TokenFile, dir)
		if err != nil {
			return nil, err
		}
		k.Token = string(token)
	}
	return k, nil
}

// Load reads a kubeconfig file.
func Load(path string) (*Kubeconfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(raw, filepath.Dir(path))
}

// CADigest is the SHA-256 over the DER of the PEM's certificates in their order, in hexadecimal: the same for one authority
// whatever whitespace and comments surround it. It is "" where the PEM holds no certificate.
func CADigest(caPEM []byte) string {
	sum := sha256.New()
	found := false
	for block, rest := pem.Decode(caPEM); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			sum.Write(block.Bytes)
			found = true
		}
	}
	if !found {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// current resolves the current context; a kubeconfig without contexts, but with one cluster, is taken as it is.
func (d *document) current() (cluster, user, error) {
	if len(d.Clusters) == 0 {
		return cluster{}, user{}, errors.New("it names no cluster")
	}
	clusterName, userName := d.Clusters[0].Name, ""
	if len(d.Users) > 0 {
		userName = d.Users[0].Name
	}
	if len(d.Contexts) > 0 {
		chosen, err := d.context()
		if err != nil {
			return cluster{}, user{}, err
		}
		clusterName, userName = chosen.Context.Cluster, chosen.Context.User
	}
	for _, c := range d.Clusters {
		if c.Name == clusterName {
			return c.Cluster, d.user(userName), nil
		}
	}
	return cluster{}, user{}, fmt.Errorf("its context names the cluster %q, which is not there", clusterName)
}

func (d *document) context() (namedContext, error) {
	if d.CurrentContext == "" {
		return d.Contexts[0], nil
	}
	for _, c := range d.Contexts {
		if c.Name == d.CurrentContext {
			return c, nil
		}
	}
	return namedContext{}, fmt.Errorf("its current-context %q is not there", d.CurrentContext)
}

func (d *document) user(name string) user {
	for _, u := range d.Users {
		if u.Name == name {
			return u.User
		}
	}
	return user{}
}

func checkServer(c cluster) error {
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" {
		return fmt.Errorf("its server %q is not a URL", c.Server)
	}
	if u.Scheme != "https" {
		return fmt.Errorf("its server %q is not https", c.Server)
	}
	if c.Insecure {
		return errors.New("it sets insecure-skip-tls-verify, with which anybody could pose as the API server")
	}
	return nil
}

func dataOrFile(field, data, file, dir string) ([]byte, error) {
	if data != "" {
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("its %s-data is not base64", field)
		}
		return raw, nil
	}
	if file == "" {
		return nil, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("its %s cannot be read: %w", field, err)
	}
	return raw, nil
}
