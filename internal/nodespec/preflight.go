package nodespec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"wsu.windows/internal/reason"
)

// Preflight is what `wmcb preflight` is asked for. Every field may be absent; what is absent is not checked.
type Preflight struct {
	// NodeName is the Node's name; empty: the machine's host name in lower case. NodeIP is its address; empty: the one of the way to the
	// API server.
	NodeName string `json:"nodeName,omitempty"`
	NodeIP   string `json:"nodeIP,omitempty"`
	// APIServer is the URL that the node will use, APIServerCA its authority (PEM).
	APIServer   string `json:"apiServer,omitempty"`
	APIServerCA string `json:"apiServerCA,omitempty"`
	// APITime is the cluster's time a moment ago (RFC 3339), against which a clock is judged that is too wrong for TLS.
	APITime   string `json:"apiTime,omitempty"`
	ClusterID string `json:"clusterID,omitempty"`
	// RequiredBytes is how much space a first installation needs on the install folder's drive.
	RequiredBytes   int64  `json:"requiredBytes,omitempty"`
	RuntimeService  string `json:"runtimeService,omitempty"`
	RuntimeEndpoint string `json:"runtimeEndpoint,omitempty"`
	Paths           Paths  `json:"paths"`
}

// DecodePreflight reads a request, strictly, and fills the defaults.
func DecodePreflight(raw []byte) (*Preflight, error) {
	p := &Preflight{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return nil, reason.Wrap(reason.SpecInvalid, "preflight request", err, "")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, reason.New(reason.SpecInvalid, "preflight request", "there is more than one document", "")
	}
	s := &NodeSpec{Paths: p.Paths, Runtime: Runtime{Service: p.RuntimeService, Endpoint: p.RuntimeEndpoint}}
	Default(s)
	p.Paths, p.RuntimeService, p.RuntimeEndpoint = s.Paths, s.Runtime.Service, s.Runtime.Endpoint
	return p, validatePaths(s)
}

// IsNodeName reports whether a text can be a Node's name.
func IsNodeName(name string) bool { return name != "" && len(name) <= 63 && dnsLabels(name) }
