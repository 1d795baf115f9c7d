package mcs

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/sandbox/internal/openshift"
)

// sandboxPool serves the sandbox's own rendered worker configuration.
type sandboxPool struct{ config map[string]any }

func (p sandboxPool) read(_ context.Context, pool string) (*served, error) {
	if pool != "worker" {
		return nil, errors.New("no such pool")
	}
	return &served{machineConfig: p.config, kubeletCA: []byte("kubelet CAs\n"), apiCA: []byte("API CA\n"), apiURL: "https://api-int.sandbox.test:6443", token: "the-token"}, nil
}

func newPool(t *testing.T) sandboxPool {
	t.Helper()
	objects, err := openshift.Cluster{APIInt: "api-int.sandbox.test", Domain: "sandbox.test", ServiceNetwork: "172.30.0.0/16"}.Objects(time.Now())
	require.NoError(t, err)
	for _, one := range objects {
		if one["kind"] == "MachineConfig" {
			return sandboxPool{one}
		}
	}
	t.Fatal("the sandbox has no MachineConfig")
	return sandboxPool{}
}

func ask(t *testing.T, method, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, path, nil)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	answer := httptest.NewRecorder()
	newHandler(newPool(t)).ServeHTTP(answer, request)
	return answer
}

const asIgnition = "application/vnd.coreos.ignition+json;version="

func TestTheVersionAskedForDecidesTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		accept, version string
		status          int
	}{
		"nothing":                       {"", "2.2.0", 200},
		"anything":                      {"*/*", "2.2.0", 200},
		"2.2":                           {asIgnition + "2.2.0, */*;q=0.1", "2.2.0", 200},
		"2.4":                           {asIgnition + "2.4.0", "2.2.0", 200},
		"2.1":                           {asIgnition + "2.1.0, */*;q=0.1", "", 400},
		"3.0":                           {asIgnition + "3.0.0, */*;q=0.1", "", 500},
		"3.1":                           {asIgnition + "3.1.0, */*;q=0.1", "3.1.0", 200},
		"3.2":                           {asIgnition + "3.2.0, */*;q=0.1", "3.2.0", 200},
		"3.3":                           {asIgnition + "3.3.0", "3.3.0", 200},
		"3.4":                           {asIgnition + "3.4.0", "3.4.0", 200},
		"the native one":                {asIgnition + "3.5.0", "3.5.0", 200},
		"above the native one":          {asIgnition + "3.9.0", "3.5.0", 200},
		"4.0":                           {asIgnition + "4.0.0, */*;q=0.1", "", 400},
		"the better of two comes first": {"*/*;q=0.1, " + asIgnition + "3.4.0", "3.4.0", 200},
		"no version":                    {asIgnition + "three", "", 400},
		"another format":                {"text/html", "", 400},
		"a malformed header":            {";;;", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			answer := ask(t, http.MethodGet, "/config/worker", c.accept)
			require.Equal(t, c.status, answer.Code)
			if c.status != 200 {
				assert.Empty(t, answer.Body.String())
				return
			}
			assert.Contains(t, answer.Body.String(), `"version":"`+c.version+`"`)
			if c.version == "2.2.0" {
				decoder := json.NewDecoder(answer.Body)
				decoder.DisallowUnknownFields()
				assert.NoError(t, decoder.Decode(&specTwoDocument{}), "not spec 2")
				return
			}
			_, err := parseAs(answer.Body.Bytes(), c.version)
			assert.NoError(t, err)
		})
	}
}

// specTwoDocument has the fields of Ignition's specification 2.2.0 that a worker's configuration uses, and no other: a file there names its
// file system, and kernelArguments do not exist.
type specTwoDocument struct {
	Ignition struct {
		Version string `json:"version"`
	} `json:"ignition"`
	Passwd struct {
		Users []struct {
			Name              string   `json:"name"`
			SSHAuthorizedKeys []string `json:"sshAuthorizedKeys"`
		} `json:"users"`
	} `json:"passwd"`
	Storage struct {
		Files []struct {
			Filesystem string `json:"filesystem"`
			Path       string `json:"path"`
			Mode       int    `json:"mode"`
			Overwrite  bool   `json:"overwrite"`
			Contents   struct {
				Source      string `json:"source"`
				Compression string `json:"compression"`
			} `json:"contents"`
		} `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []struct {
			Name     string `json:"name"`
			Enabled  bool   `json:"enabled"`
			Contents string `json:"contents"`
			Dropins  []struct {
				Name     string `json:"name"`
				Contents string `json:"contents"`
			} `json:"dropins"`
		} `json:"units"`
	} `json:"systemd"`
}

type ignition struct {
	Ignition struct{ Version string }
	Storage  struct {
		Files []struct {
			Path     string
			Contents struct{ Source string }
		}
	}
}

func document(t *testing.T, answer *httptest.ResponseRecorder) ignition {
	t.Helper()
	var parsed ignition
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &parsed))
	return parsed
}

func TestTheServerAppendsWhatNoMachineConfigHolds(t *testing.T) {
	contents := map[string]string{}
	for _, file := range document(t, ask(t, http.MethodGet, "/config/worker", asIgnition+"3.2.0")).Storage.Files {
		if data, is := strings.CutPrefix(file.Contents.Source, "data:,"); is {
			text, err := url.PathUnescape(data)
			require.NoError(t, err)
			contents[file.Path] = text
		}
	}
	assert.Equal(t, "kubelet CAs\n", contents["/etc/kubernetes/kubelet-ca.crt"])
	assert.Contains(t, contents["/etc/kubernetes/kubeconfig"], "token: the-token")
	assert.Contains(t, contents["/etc/kubernetes/kubeconfig"], "server: https://api-int.sandbox.test:6443")
	assert.Contains(t, contents["/etc/machine-config-daemon/node-annotations.json"], "rendered-worker-")
}

func TestOtherRequestsAreRefused(t *testing.T) {
	assert.Equal(t, 500, ask(t, http.MethodGet, "/config/windows", "").Code, "an unknown pool")
	assert.Equal(t, 405, ask(t, http.MethodPost, "/config/worker", "").Code)
	assert.Equal(t, 400, ask(t, http.MethodGet, "/config/", "").Code)
	assert.Equal(t, 404, ask(t, http.MethodGet, "/", "").Code)
	assert.Equal(t, 200, ask(t, http.MethodGet, "/healthz", "").Code)
	head := ask(t, http.MethodHead, "/config/worker", "")
	assert.Equal(t, 200, head.Code)
	assert.Empty(t, head.Body.String())
	assert.NotEqual(t, "0", head.Header().Get("Content-Length"))
}
