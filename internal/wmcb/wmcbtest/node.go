// Package wmcbtest is a machine for tests of what wmcb does to one, which can die at every moment that matters. Its disk is real, its
// Service Control Manager is winservicetest's.
package wmcbtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/firewall"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winservice/winservicetest"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/state"
)

// Node is a machine whose disk is real, whose services are winservicetest's, and whose kubelet is healthy when its service runs.
type Node struct {
	Machine  *winservicetest.Machine
	Firewall *MemoryFirewall
	// Enrolled counts enrolments.
	Enrolled int
	// Boundary counts the moments at which the machine may die; at CrashAt it does.
	Boundary, CrashAt int
	// Deaf is what the API server says of a kubelet that it does not hear of; nil: it has heard of it just now.
	Deaf func() (time.Time, error)
	// Sick is in the command line of a kubelet that runs and never becomes healthy; empty: none is so.
	Sick string
	// Ignition is the worker Ignition that Spec names.
	Ignition []byte

	t      *testing.T
	root   string
	port   int
	client []byte
}

func (n *Node) heard() (time.Time, error) {
	if n.Deaf != nil {
		return n.Deaf()
	}
	return time.Now(), nil
}

type crash struct{}

func (n *Node) tick(string) {
	n.Boundary++
	if n.Boundary == n.CrashAt {
		panic(crash{})
	}
}

// MemoryFirewall is a firewall in memory.
type MemoryFirewall struct {
	Rules  map[string]firewall.Rule
	before func(string)
}

// Rule implements firewall.Firewall.
func (f *MemoryFirewall) Rule(name string) (*firewall.Rule, error) {
	if rule, found := f.Rules[name]; found {
		return &rule, nil
	}
	return nil, nil
}

// Put implements firewall.Firewall.
func (f *MemoryFirewall) Put(rule firewall.Rule) error {
	f.before("put rule")
	f.Rules[rule.Name] = rule
	return nil
}

// Delete implements firewall.Firewall.
func (f *MemoryFirewall) Delete(name string) error {
	f.before("delete rule")
	delete(f.Rules, name)
	return nil
}

// tickingJournal has a boundary before and after each durable write of the real journal.
type tickingJournal struct {
	transaction.Journal
	n *Node
}

func (j tickingJournal) Begin(id, label string) error {
	j.n.tick("")
	defer j.n.tick("")
	return j.Journal.Begin(id, label)
}

func (j tickingJournal) Intend(e transaction.Entry) error {
	j.n.tick("")
	defer j.n.tick("")
	return j.Journal.Intend(e)
}

func (j tickingJournal) Remove() error {
	j.n.tick("")
	defer j.n.tick("")
	return j.Journal.Remove()
}

func realIgnition(t *testing.T) []byte {
	folder := os.Getenv("WSU_SHARED_DATA")
	if folder == "" {
		folder = "../../../../shared/data"
	}
	raw, err := os.ReadFile(filepath.Join(folder, "ignition/release-5.0-none/worker.served.spec3.4.0.ign"))
	if err != nil {
		t.Skipf("SKIPPED: no real Ignition: %v (set WSU_SHARED_DATA)", err)
	}
	return raw
}

// New makes a machine.
func New(t *testing.T) *Node {
	n := &Node{t: t, root: t.TempDir(), Machine: winservicetest.New(), Ignition: realIgnition(t), client: clientPEM(t, "win1")}
	n.Firewall = &MemoryFirewall{Rules: map[string]firewall.Rule{}, before: n.tick}
	n.Machine.Before = n.tick
	n.Machine.Starts = func(c winservice.Config) bool {
		return !strings.Contains(c.CommandLine, "kubelet") || n.IsWhole(c) == nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if running := n.Machine.Running(apply.KubeletService); running == nil || n.Sick != "" && strings.Contains(running.CommandLine, n.Sick) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	n.port = server.Listener.Addr().(*net.TCPAddr).Port
	return n
}

// IsWhole says why a kubelet of this definition would not come up: a program or a configuration of another release, or none at all.
func (n *Node) IsWhole(c winservice.Config) error {
	words := strings.Fields(c.CommandLine)
	release := filepath.Base(filepath.Dir(words[0]))
	for _, word := range words {
		path, found := strings.CutPrefix(word, "--config=")
		if !found && !strings.HasSuffix(word, ".exe") {
			continue
		}
		if !found {
			path = word
		}
		if filepath.Base(filepath.Dir(path)) != release {
			return fmt.Errorf("%s is not of release %s", path, release)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".exe") && string(content) != filepath.Base(path)+" of "+release {
			return fmt.Errorf("%s holds %q", path, content)
		}
		if found && !strings.Contains(string(content), "maxPods: "+Pods[release]+"\n") {
			return fmt.Errorf("%s is not the configuration of release %s", path, release)
		}
	}
	return nil
}

// Pods tells the releases' configurations apart.
var Pods = map[string]string{"1.0.0": "101", "2.0.0": "102", "9.0.0": "109"}

func clientPEM(t *testing.T, name string) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:" + name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...)
}

// Path gives a path on the machine's disk.
func (n *Node) Path(parts ...string) string {
	return filepath.Join(append([]string{n.root}, parts...)...)
}

// Spec makes a specification, and puts the release's files into the store.
func (n *Node) Spec(release string) *nodespec.NodeSpec {
	spec := &nodespec.NodeSpec{
		APIVersion: nodespec.APIVersion, Kind: nodespec.Kind, Release: release, Flavour: nodespec.FlavourOpenShift,
		Node: nodespec.Node{Name: "win1"}, Network: nodespec.Network{ServiceCIDRs: []string{"172.30.0.0/16"}},
		Kubelet: nodespec.Kubelet{Version: "v1.36.3", HealthTimeoutSeconds: 10,
			Config: map[string]any{"healthzPort": n.port, "maxPods": json.Number(Pods[release])}},
		Paths: nodespec.Paths{Install: n.Path("k"), Logs: n.Path("var", "log"), KubeletData: n.Path("var", "lib", "kubelet")},
	}
	nodespec.Default(spec)
	spec.Bootstrap.IgnitionSHA256 = n.Store(n.Ignition)
	for _, name := range []string{"kubelet.exe", "kube-log-runner.exe"} {
		content := []byte(name + " of " + release)
		spec.Files = append(spec.Files, nodespec.File{Name: name, SHA256: n.Store(content), Size: int64(len(content)), Version: "v1.36.3"})
	}
	return spec
}

// Store puts a content into the store.
func (n *Node) Store(content []byte) string {
	temporary := n.Path("content")
	require.NoError(n.t, os.WriteFile(temporary, content, 0o600))
	digest, err := securefile.Digest(temporary)
	require.NoError(n.t, err)
	require.NoError(n.t, os.MkdirAll(n.Path("k", "store"), 0o700))
	require.NoError(n.t, os.Chmod(n.Path("k"), 0o700))
	require.NoError(n.t, os.Rename(temporary, n.Path("k", "store", digest)))
	return digest
}

// Host is the machine as apply sees it.
func (n *Node) Host() apply.Host {
	return apply.Host{
		Services: n.Machine, Processes: n.Machine, Firewall: n.Firewall, Stays: time.Millisecond, StaysChanged: time.Millisecond,
		NodeIP:  func(context.Context, string) (string, error) { return "10.0.0.5", nil },
		Heard:   func(context.Context, string, string) (time.Time, error) { return n.heard() },
		Journal: func(j transaction.Journal) transaction.Journal { return tickingJournal{j, n} },
	}
}

// Enroll stands where the API server would be.
func (n *Node) Enroll(_ context.Context, spec *nodespec.NodeSpec, _ time.Duration) (nodereport.Enroll, error) {
	n.Enrolled++
	worker, err := ignition.Parse(n.Ignition)
	require.NoError(n.t, err)
	n.tick("")
	certificate := apply.ClientCertificate(spec.Paths.KubeletData)
	require.NoError(n.t, securefile.Write(certificate, n.client))
	raw, err := json.Marshal(map[string]any{
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": worker.APIServer, "certificate-authority-data": worker.APIServerCA}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"client-certificate": certificate, "client-key": certificate}}},
	})
	require.NoError(n.t, err)
	require.NoError(n.t, securefile.Write(filepath.Join(spec.Paths.Install, "kubeconfig"), raw))
	return nodereport.Enroll{State: nodereport.CertificateIssued}, nil
}

// Apply applies a specification.
func (n *Node) Apply(spec *nodespec.NodeSpec) (nodereport.Apply, error) {
	return apply.Run(n.t.Context(), apply.Options{Spec: spec, Enroll: n.Enroll, Host: n.Host()})
}

// MayCrash runs wmcb, which dies at boundary at; 0: it does not. It reports whether it lived.
func (n *Node) MayCrash(at int, run func() error) (alive bool, err error) {
	n.Boundary, n.CrashAt = 0, at
	alive = true
	defer func() {
		n.CrashAt = 0
		if caught := recover(); caught != nil {
			if _, died := caught.(crash); !died {
				panic(caught)
			}
			alive = false
		}
	}()
	err = run()
	return alive, err
}

// Changed gives what a run changed: the steps' names and what they found different.
func Changed(report nodereport.Apply) map[string][]string {
	steps := map[string][]string{}
	for _, step := range report.Steps {
		if step.Changed {
			steps[step.Name] = step.Drift
		}
	}
	return steps
}

// Files gives every file below the root with its content, without the store.
func (n *Node) Files() map[string]string {
	files := map[string]string{}
	require.NoError(n.t, filepath.WalkDir(n.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "/store/") {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, n.root)] = string(content)
		return err
	}))
	return files
}

// RequireWholeAfterBoot boots and gives the release that runs, "" for none. The state is never torn and the service never a mixture.
func (n *Node) RequireWholeAfterBoot(old string) string {
	n.t.Helper()
	n.Machine.Boot()
	_, err := state.Load(n.Path("k"))
	require.NoError(n.t, err)
	config, err := n.Machine.Config(apply.KubeletService)
	require.NoError(n.t, err)
	if config == nil {
		require.Empty(n.t, old, "the service of the old release is gone")
		return ""
	}
	require.NoError(n.t, n.IsWhole(*config))
	require.NotNil(n.t, n.Machine.Running(apply.KubeletService))
	return filepath.Base(filepath.Dir(strings.Fields(config.CommandLine)[0]))
}
