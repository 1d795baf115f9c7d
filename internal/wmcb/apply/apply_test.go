package apply

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
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

	"wsu.windows/internal/drift"
	"wsu.windows/internal/firewall"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winservice/winservicetest"
	"wsu.windows/internal/wmcb/state"
)

// node is a machine whose disk is real, whose services are winservicetest's, and whose kubelet is healthy when its service runs.
type node struct {
	t        *testing.T
	root     string
	machine  *winservicetest.Machine
	firewall *memoryFirewall
	enrolled int
	port     int
	ignition []byte
	client   []byte
	boundary int
	crashAt  int
	// deaf is what the API server says of a kubelet that it does not hear of; nil: it has heard of it just now.
	deaf func() (time.Time, error)
}

func (n *node) heard() (time.Time, error) {
	if n.deaf != nil {
		return n.deaf()
	}
	return time.Now(), nil
}

type crash struct{}

func (n *node) tick(string) {
	n.boundary++
	if n.boundary == n.crashAt {
		panic(crash{})
	}
}

type memoryFirewall struct {
	rules  map[string]firewall.Rule
	before func(string)
}

func (f *memoryFirewall) Rule(name string) (*firewall.Rule, error) {
	if rule, found := f.rules[name]; found {
		return &rule, nil
	}
	return nil, nil
}

func (f *memoryFirewall) Put(rule firewall.Rule) error {
	f.before("put rule")
	f.rules[rule.Name] = rule
	return nil
}

func (f *memoryFirewall) Delete(name string) error {
	f.before("delete rule")
	delete(f.rules, name)
	return nil
}

// tickingJournal has a boundary before and after each durable write of the real journal.
type tickingJournal struct {
	transaction.Journal
	n *node
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

func newNode(t *testing.T) *node {
	n := &node{t: t, root: t.TempDir(), machine: winservicetest.New(), ignition: realIgnition(t), client: clientPEM(t, "win1")}
	n.firewall = &memoryFirewall{rules: map[string]firewall.Rule{}, before: n.tick}
	n.machine.Before = n.tick
	n.machine.Starts = func(c winservice.Config) bool { return n.isWhole(c) == nil }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.machine.Running(KubeletService) == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	n.port = server.Listener.Addr().(*net.TCPAddr).Port
	return n
}

// isWhole says why a kubelet of this definition would not come up: a program or a configuration of another release, or none at all.
func (n *node) isWhole(c winservice.Config) error {
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
		if found && !strings.Contains(string(content), "maxPods: "+pods[release]+"\n") {
			return fmt.Errorf("%s is not the configuration of release %s", path, release)
		}
	}
	return nil
}

// pods tells the releases' configurations apart.
var pods = map[string]string{"1.0.0": "101", "2.0.0": "102", "9.0.0": "109"}

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

func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.root}, parts...)...)
}

// spec also puts the release's files into the store.
func (n *node) spec(release string) *nodespec.NodeSpec {
	spec := &nodespec.NodeSpec{
		APIVersion: nodespec.APIVersion, Kind: nodespec.Kind, Release: release, Flavour: nodespec.FlavourOpenShift,
		Node: nodespec.Node{Name: "win1"}, Network: nodespec.Network{ServiceCIDRs: []string{"172.30.0.0/16"}},
		Kubelet: nodespec.Kubelet{Version: "v1.36.3", HealthTimeoutSeconds: 10,
			Config: map[string]any{"healthzPort": n.port, "maxPods": json.Number(pods[release])}},
		Paths: nodespec.Paths{Install: n.path("k"), Logs: n.path("var", "log"), KubeletData: n.path("var", "lib", "kubelet")},
	}
	nodespec.Default(spec)
	spec.Bootstrap.IgnitionSHA256 = n.store(n.ignition)
	for _, name := range []string{"kubelet.exe", "kube-log-runner.exe"} {
		content := []byte(name + " of " + release)
		spec.Files = append(spec.Files, nodespec.File{Name: name, SHA256: n.store(content), Size: int64(len(content)), Version: "v1.36.3"})
	}
	return spec
}

func (n *node) store(content []byte) string {
	temporary := n.path("content")
	require.NoError(n.t, os.WriteFile(temporary, content, 0o600))
	digest, err := securefile.Digest(temporary)
	require.NoError(n.t, err)
	require.NoError(n.t, os.MkdirAll(n.path("k", "store"), 0o700))
	require.NoError(n.t, os.Chmod(n.path("k"), 0o700))
	require.NoError(n.t, os.Rename(temporary, n.path("k", "store", digest)))
	return digest
}

func (n *node) host() Host {
	return Host{
		Services: n.machine, Processes: n.machine, Firewall: n.firewall, stays: time.Millisecond, staysChanged: time.Millisecond,
		NodeIP:  func(context.Context, string) (string, error) { return "10.0.0.5", nil },
		Heard:   func(context.Context, string, string) (time.Time, error) { return n.heard() },
		Journal: func(j transaction.Journal) transaction.Journal { return tickingJournal{j, n} },
	}
}

func (n *node) enroll(_ context.Context, spec *nodespec.NodeSpec, _ time.Duration) (nodereport.Enroll, error) {
	n.enrolled++
	worker, err := ignition.Parse(n.ignition)
	require.NoError(n.t, err)
	n.tick("")
	certificate := ClientCertificate(spec.Paths.KubeletData)
	require.NoError(n.t, securefile.Write(certificate, n.client))
	raw, err := json.Marshal(map[string]any{
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": worker.APIServer, "certificate-authority-data": worker.APIServerCA}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"client-certificate": certificate, "client-key": certificate}}},
	})
	require.NoError(n.t, err)
	require.NoError(n.t, securefile.Write(filepath.Join(spec.Paths.Install, "kubeconfig"), raw))
	return nodereport.Enroll{State: nodereport.CertificateIssued}, nil
}

func (n *node) apply(spec *nodespec.NodeSpec) (nodereport.Apply, error) {
	return Run(n.t.Context(), Options{Spec: spec, Enroll: n.enroll, Host: n.host()})
}

// mayCrash reports false where the machine died in it.
func (n *node) mayCrash(spec *nodespec.NodeSpec) (alive bool, err error) {
	alive = true
	defer func() {
		if caught := recover(); caught != nil {
			if _, died := caught.(crash); !died {
				panic(caught)
			}
			alive = false
		}
	}()
	_, err = n.apply(spec)
	return alive, err
}

func changed(report nodereport.Apply) map[string][]string {
	steps := map[string][]string{}
	for _, step := range report.Steps {
		if step.Changed {
			steps[step.Name] = step.Drift
		}
	}
	return steps
}

// files gives every file below the root with its content, without the store.
func (n *node) files() map[string]string {
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

func TestTheFirstApplyJoinsAndTheSecondChangesNothing(t *testing.T) {
	n := newNode(t)
	require.NoError(t, os.MkdirAll(n.path("var", "lib", "cni", "networks"), 0o755))
	spec := n.spec("1.0.0")
	report, err := n.apply(spec)
	require.NoError(t, err)
	require.True(t, report.OK && report.Changed)
	require.NoDirExists(t, n.path("var", "lib", "cni"))
	require.NoDirExists(t, n.path("var", "lib", "cni.before-wsu"))
	require.Contains(t, n.firewall.rules, firewallRuleName)
	before := n.files()
	pid, _ := n.machine.Status(KubeletService)
	again, err := n.apply(spec)
	require.NoError(t, err)
	require.False(t, again.Changed)
	require.Empty(t, changed(again))
	after, _ := n.machine.Status(KubeletService)
	require.Equal(t, pid, after)
	require.Equal(t, before, n.files())
	require.Equal(t, 1, n.enrolled)
}

func TestNoSecretIsInTheReport(t *testing.T) {
	n := newNode(t)
	spec := n.spec("1.0.0")
	spec.Proxy = &nodespec.Proxy{HTTPS: "http://user:hunter2@proxy:3128"}
	report, err := n.apply(spec)
	require.NoError(t, err)
	raw, err := json.Marshal(report)
	require.NoError(t, err)
	worker, err := ignition.Parse(n.ignition)
	require.NoError(t, err)
	for line := range strings.Lines(string(worker.BootstrapKubeconfig)) {
		if _, token, found := strings.Cut(line, "token: "); found {
			require.NotContains(t, string(raw), strings.TrimSpace(token))
		}
	}
	require.NotContains(t, string(raw), "hunter2")
	config, _ := n.machine.Config(KubeletService)
	require.Equal(t, []string{"HTTPS_PROXY=http://user:hunter2@proxy:3128"}, config.Environment)
}

func texts(steps []Step) string {
	var lines []string
	for _, step := range steps {
		for _, text := range drift.Texts(step.Drift) {
			lines = append(lines, step.Name+": "+text)
		}
	}
	return strings.Join(lines, "\n")
}

func TestDriftIsNamedAndPutRight(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(n *node)
		step    string
		drift   string
		restart bool
	}{
		"a configuration field": {func(n *node) {
			path := n.path("k", "releases", "1.0.0", "kubelet.conf")
			raw, _ := os.ReadFile(path)
			_ = os.WriteFile(path, []byte(strings.Replace(string(raw), "kubeAPIQPS: 50", "kubeAPIQPS: 5", 1)), 0o600)
		}, "kubelet-config", "kubeAPIQPS: 5, not 50", true},
		"a program": {func(n *node) {
			_ = os.Remove(n.path("k", "releases", "1.0.0", "kubelet.exe"))
			_ = os.WriteFile(n.path("k", "releases", "1.0.0", "kubelet.exe"), []byte("x"), 0o600)
		}, "release-file kubelet.exe", "content: SHA-256 2d711642b726", true},
		"an access right":  {func(n *node) { _ = os.Chmod(n.path("k", "bootstrap-kubeconfig"), 0o644) }, "bootstrap-kubeconfig", "access: it is open to others", false},
		"a folder's right": {func(n *node) { _ = os.Chmod(n.path("var", "log", "kubelet"), 0o755) }, "", "access: it is open to others", false},
		"a start type": {func(n *node) {
			config, _ := n.machine.Config(KubeletService)
			config.StartType = winservice.StartManual
			_ = n.machine.Update(KubeletService, *config)
		}, "kubelet-service", "start type: 'manual', not 'auto'", false},
		"an argument": {func(n *node) {
			config, _ := n.machine.Config(KubeletService)
			config.CommandLine += " --v=9"
			_ = n.machine.Update(KubeletService, *config)
		}, "kubelet-service", "command line: ", true},
		"a firewall rule": {func(n *node) { delete(n.firewall.rules, firewallRuleName) }, "firewall-rule", drift.Missing, false},
		"a stopped kubelet": {func(n *node) { _, _ = n.machine.Stop(context.Background(), KubeletService) },
			"kubelet-running", "it is stopped, not running", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			spec := n.spec("1.0.0")
			_, err := n.apply(spec)
			require.NoError(t, err)
			want, _ := n.machine.Status(KubeletService)
			c.spoil(n)
			found, err := state.Load(spec.Paths.Install)
			require.NoError(t, err)
			steps, err := Drift(t.Context(), spec, found, n.host())
			require.NoError(t, err)
			require.Contains(t, texts(steps), c.drift)
			report, err := n.apply(spec)
			require.NoError(t, err)
			if c.step != "" {
				require.Contains(t, strings.Join(changed(report)[c.step], "\n"), c.drift)
			}
			have, _ := n.machine.Status(KubeletService)
			require.Equal(t, c.restart, want.PID != have.PID, "restarted: %v", changed(report))
			again, err := n.apply(spec)
			require.NoError(t, err)
			require.Empty(t, changed(again))
		})
	}
}

func TestAFailedUpgradeLeavesTheOldReleaseRunning(t *testing.T) {
	n := newNode(t)
	one := n.spec("1.0.0")
	_, err := n.apply(one)
	require.NoError(t, err)
	before := n.files()
	two := n.spec("2.0.0")
	two.Kubelet.Config["maxPods"] = 7 // a kubelet of release 2.0.0 does not come up with it
	report, err := n.apply(two)
	require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
	require.True(t, report.RolledBack)
	require.False(t, report.OK)
	require.Equal(t, before, n.files())
	require.Contains(t, n.machine.Running(KubeletService).CommandLine, "1.0.0")
	require.NoDirExists(t, n.path("k", "releases", "2.0.0"))
}

func TestAFailedJoinLeavesNoServiceAndNoRule(t *testing.T) {
	n := newNode(t)
	spec := n.spec("1.0.0")
	spec.Kubelet.Config["maxPods"] = 7
	report, err := n.apply(spec)
	require.True(t, reason.Is(err, reason.KubeletUnhealthy), "%v", err)
	require.True(t, report.RolledBack)
	require.Empty(t, n.machine.Names())
	require.Empty(t, n.firewall.rules)
	require.NoFileExists(t, n.path("k", "bootstrap-kubeconfig"))
}

func TestAMissingFileIsNamedAndADryRunOfAFreshHostGoesOn(t *testing.T) {
	n := newNode(t)
	spec := n.spec("1.0.0")
	require.NoError(t, os.RemoveAll(n.path("k", "store")))
	_, err := n.apply(spec)
	require.True(t, reason.Is(err, reason.FileMissing), "%v", err)
	report, err := Run(t.Context(), Options{Spec: spec, DryRun: true, Host: n.host()})
	require.NoError(t, err)
	require.Contains(t, changed(report), "kubelet-config")
	require.Contains(t, changed(report), "release-file kubelet.exe")
}

func TestAForeignKubeletIsRefused(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.machine.Create(t.Context(), "kubelet", winservice.Config{CommandLine: `C:\rke2\kubelet.exe`, StartType: winservice.StartAuto}))
	_, err := n.apply(n.spec("1.0.0"))
	require.True(t, reason.Is(err, reason.ForeignKubelet), "%v", err)
	config, _ := n.machine.Config("kubelet")
	require.Equal(t, `C:\rke2\kubelet.exe`, config.CommandLine)
}

func TestAPendingCertificateFailsWithTheRequestsName(t *testing.T) {
	n := newNode(t)
	_, err := Run(t.Context(), Options{Spec: n.spec("1.0.0"), Host: n.host(),
		Enroll: func(context.Context, *nodespec.NodeSpec, time.Duration) (nodereport.Enroll, error) {
			return nodereport.Enroll{State: nodereport.CertificatePending, CSR: "node-csr-x"}, nil
		}})
	require.True(t, reason.Is(err, reason.CertificateNotIssued), "%v", err)
	require.Equal(t, "CSR node-csr-x", reason.Of(err).Object)
}

func TestAnOldStateOfANewerFormatIsRefused(t *testing.T) {
	n := newNode(t)
	spec := n.spec("1.0.0")
	require.NoError(t, os.WriteFile(n.path("k", state.FileName), []byte(`{"format":99}`), 0o600))
	_, err := n.apply(spec)
	require.True(t, reason.Is(err, reason.StateUnreadable), "%v", err)
}

// TestAPowerCutAtEveryBoundaryLeavesTheOldOrTheNewRelease cuts the power at every boundary of join and upgrade: at each the machine boots
// into a whole release or none, and applying again converges. A second cut hits the recovery itself.
func TestAPowerCutAtEveryBoundaryLeavesTheOldOrTheNewRelease(t *testing.T) {
	cuts, runs := 0, map[string]int{}
	for _, old := range []string{"", "1.0.0"} {
		for at := 1; ; at++ {
			n := newNode(t)
			if old != "" {
				_, err := n.apply(n.spec(old))
				require.NoError(t, err)
			}
			two := n.spec("2.0.0")
			n.boundary, n.crashAt = 0, at
			alive, err := n.mayCrash(two)
			if alive {
				require.NoError(t, err)
				break
			}
			cuts++
			runs[n.requireWholeAfterBoot(old)]++
			n.boundary, n.crashAt = 0, 1+at%7 // and again, in the recovery
			if alive, err = n.mayCrash(two); alive {
				require.NoError(t, err)
			} else {
				cuts++
				n.requireWholeAfterBoot(old)
			}
			n.crashAt = 0
			_, err = n.apply(two)
			require.NoError(t, err)
			require.Equal(t, "2.0.0", n.requireWholeAfterBoot(old))
			require.NoFileExists(t, n.path("k", state.JournalName))
			require.NoDirExists(t, n.path("k", state.UndoName))
			again, err := n.apply(two)
			require.NoError(t, err)
			require.Empty(t, changed(again))
		}
	}
	t.Logf("%d power cuts; after the first one the machine booted into %v", cuts, runs)
	require.Greater(t, cuts, 60)
}

// requireWholeAfterBoot boots and gives the release that runs, "" for none. The state is never torn and the service never a mixture.
func (n *node) requireWholeAfterBoot(old string) string {
	n.t.Helper()
	n.machine.Boot()
	_, err := state.Load(n.path("k"))
	require.NoError(n.t, err)
	config, err := n.machine.Config(KubeletService)
	require.NoError(n.t, err)
	if config == nil {
		require.Empty(n.t, old, "the service of the old release is gone")
		return ""
	}
	require.NoError(n.t, n.isWhole(*config))
	require.NotNil(n.t, n.machine.Running(KubeletService))
	return filepath.Base(filepath.Dir(strings.Fields(config.CommandLine)[0]))
}

func TestAnInterruptedApplyIsUndoneAndSaysSo(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	report, err := Run(ctx, Options{Spec: n.spec("1.0.0"), Host: n.host(),
		Enroll: func(context.Context, *nodespec.NodeSpec, time.Duration) (nodereport.Enroll, error) {
			cancel()
			return nodereport.Enroll{}, errors.New("cut off: " + context.Canceled.Error())
		}})
	require.Error(t, err)
	require.True(t, report.RolledBack)
	require.Empty(t, n.machine.Names())
}
