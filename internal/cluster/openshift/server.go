package openshift

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/vincent-petithory/dataurl"

	"wsu.windows/internal/cluster"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/reason"
)

const (
	// acceptIgnition asks for spec 3.2.0, which every server from 4.7 on can give.
	acceptIgnition = "application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1"
	serverTimeout  = 30 * time.Second
)

// pointer is the small Ignition in the user data of machines: where the real one is and whom to trust.
type pointer struct {
	Ignition struct {
		Config struct {
			Merge  []pointerSource `json:"merge"`
			Append []pointerSource `json:"append"` // spec 2
		} `json:"config"`
		Security struct {
			TLS struct {
				CertificateAuthorities []pointerSource `json:"certificateAuthorities"`
			} `json:"tls"`
		} `json:"security"`
	} `json:"ignition"`
}

type pointerSource struct {
	Source string `json:"source"`
}

// FromServer asks the Machine Config Server, whose address and authority the cluster itself names.
func FromServer(ctx context.Context, c *cluster.Client, poolName string) (*Ignition, error) {
	var data *secret
	var serverCA, rootCA *configMap
	err := cluster.Parallel(ctx,
		func(ctx context.Context) (err error) { data, err = read[secret](ctx, c, pathUserData); return },
		func(ctx context.Context) (err error) {
			serverCA, err = readOptional[configMap](ctx, c, pathServerCA)
			return
		},
		func(ctx context.Context) (err error) {
			rootCA, err = readOptional[configMap](ctx, c, pathRootCA)
			return
		},
	)
	if err != nil {
		return nil, unavailable(err)
	}
	var p pointer
	if err := json.Unmarshal(data.Data["userData"], &p); err != nil {
		return nil, reason.New(reason.IgnitionUnavailable, "secret openshift-machine-api/worker-user-data", "its userData is no Ignition", "")
	}
	address, err := p.address(poolName)
	if err != nil {
		return nil, err
	}
	trust, err := p.trust(serverCA, rootCA)
	if err != nil {
		return nil, err
	}
	raw, err := fetch(ctx, address, trust)
	if err != nil {
		return nil, err
	}
	return &Ignition{Raw: raw}, nil
}

// address is the pointer's, for the wanted pool.
func (p *pointer) address(poolName string) (string, error) {
	const object = "secret openshift-machine-api/worker-user-data"
	sources := append(p.Ignition.Config.Merge, p.Ignition.Config.Append...)
	if len(sources) == 0 {
		return "", reason.New(reason.IgnitionUnavailable, object, "it names no Machine Config Server", "")
	}
	address, err := url.Parse(sources[0].Source)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return "", reason.New(reason.IgnitionUnavailable, object, "its source is no https address", "")
	}
	address.Path = path.Join(path.Dir(address.Path), poolName)
	return address.String(), nil
}

// trust collects the authorities that the cluster itself holds for this server: the rotated one of 4.19 and later, the older
// root-ca, and the pointer's own. The API server's authority is another one and none of them.
func (p *pointer) trust(serverCA, rootCA *configMap) (*x509.CertPool, error) {
	trust := x509.NewCertPool()
	found := false
	if serverCA != nil {
		found = trust.AppendCertsFromPEM([]byte(serverCA.Data["ca-bundle.crt"])) || found
	}
	if rootCA != nil {
		found = trust.AppendCertsFromPEM([]byte(rootCA.Data["ca.crt"])) || found
	}
	for _, authority := range p.Ignition.Security.TLS.CertificateAuthorities {
		if decoded, err := dataurl.DecodeString(authority.Source); err == nil {
			found = trust.AppendCertsFromPEM(decoded.Data) || found
		}
	}
	if !found {
		return nil, reason.New(reason.IgnitionUnavailable, "Machine Config Server", "the cluster holds no authority for its certificate, and without one it is not asked", "Check the ConfigMap machine-config-server-ca in openshift-machine-config-operator.")
	}
	return trust, nil
}

// fetch asks once, with TLS verified. The server speaks HTTP/1.1 only.
func fetch(ctx context.Context, address string, trust *x509.CertPool) ([]byte, error) {
	object := "Machine Config Server " + address
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, reason.Wrap(reason.IgnitionUnavailable, object, err, "")
	}
	request.Header.Set("Accept", acceptIgnition)
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, serverError(object, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, ignition.MaxSize+1))
	switch {
	case err != nil:
		return nil, serverError(object, err)
	case response.StatusCode != http.StatusOK:
		return nil, reason.New(reason.IgnitionUnavailable, object, "it answers "+response.Status, "Check that the pool exists; the server answers 500 for one that does not.")
	case len(raw) > ignition.MaxSize:
		return nil, reason.New(reason.IgnitionInvalid, object, fmt.Sprintf("its answer is larger than %d bytes", ignition.MaxSize), "")
	}
	return raw, nil
}

func serverError(object string, err error) error {
	var verification *tls.CertificateVerificationError
	var outer *url.Error
	cause := err
	if errors.As(err, &outer) {
		cause = outer.Err
	}
	if errors.As(err, &verification) {
		return reason.New(reason.APIUntrusted, object, "its certificate is not signed by an authority that the cluster holds for it: "+cause.Error(), "Find out what answers there; do not turn verification off.")
	}
	text := cause.Error()
	if strings.Contains(text, "deadline exceeded") {
		text = fmt.Sprintf("it did not answer within %s", serverTimeout)
	}
	return reason.New(reason.IgnitionUnavailable, object, text, "Open port 22623 from the control host, or use the API (wsu_ignition_source=api) or a file (wsu_ignition_file).")
}
