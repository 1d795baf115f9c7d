package nodespec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
)

const good = `
apiVersion: wsu.windows/v1
kind: NodeSpec
release: 0.1.0
flavour: openshift
node: {name: win1, addresses: [10.0.0.5], labels: {pool: windows}}
bootstrap: {ignitionSHA256: ` + sum + `}
kubelet: {version: v1.36.3, config: {maxPods: 100}, extraArgs: {v: "4"}}
files: [{name: kubelet.exe, sha256: ` + sum + `, size: 10}]
`

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestDecodeFillsDefaultsIn(t *testing.T) {
	spec, err := Decode([]byte(good))
	require.NoError(t, err)
	require.Equal(t, `C:\k`, spec.Paths.Install)
	require.Equal(t, "containerd", spec.Runtime.Service)
	require.Equal(t, []string{"os=Windows:NoSchedule"}, spec.Node.Taints)
	require.EqualValues(t, 100, spec.Kubelet.Config["maxPods"])
}

func TestDecodeNamesTheWrongField(t *testing.T) {
	for name, c := range map[string]struct{ old, new, field string }{
		"an unknown field at the top":          {"release: 0.1.0", "release: 0.1.0\nrelaese: 1", "relaese"},
		"an unknown field further down":        {"name: win1", "name: win1, nmae: x", "node.nmae"},
		"an unknown field in a list":           {"size: 10", "size: 10, digest: x", "files[0].digest"},
		"a field in another case":              {"kind: NodeSpec", "Kind: NodeSpec", "Kind"},
		"a wrong type":                         {"release: 0.1.0", "release: [1]", "release"},
		"a node name in upper case":            {"name: win1", "name: WIN1", "node.name"},
		"a node name of 64 characters":         {"name: win1", "name: " + strings.Repeat("a", 64), "node.name"},
		"no node name":                         {"name: win1", `name: ""`, "node.name"},
		"a loopback address":                   {"10.0.0.5", "127.0.0.1", "node.addresses[0]"},
		"a label that the kubelet may not set": {"pool: windows", "node-role.kubernetes.io/worker: ''", "node.labels.node-role.kubernetes.io/worker"},
		"both ways to the Ignition":            {"bootstrap: {", `bootstrap: {ignitionFile: C:\x, `, "bootstrap"},
		"a digest that is too short":           {"sha256: " + sum, "sha256: abc", "files[0].sha256"},
		"a path out of the folder":             {"name: kubelet.exe", `name: ..\kubelet.exe`, "files[0].name"},
		"no kubelet":                           {"name: kubelet.exe", "name: x.exe", "files"},
		"a version without v":                  {"v1.36.3", "1.36.3", "kubelet.version"},
		"a flag that wmcb sets":                {`v: "4"`, `config: "4"`, "kubelet.extraArgs.config"},
		"another apiVersion":                   {"wsu.windows/v1", "wsu.windows/v2", "apiVersion"},
		"an effect that does not exist":        {"name: win1", "name: win1, taints: [a=b:Never]", "node.taints[0]"},
		"a release with a path in it":          {"release: 0.1.0", `release: ..\x`, "release"},
		"a path with spaces":                   {"kind: NodeSpec", "kind: NodeSpec\npaths: {install: 'C:\\Program Files'}", "paths.install"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, good, c.old)
			_, err := Decode([]byte(strings.Replace(good, c.old, c.new, 1)))
			require.True(t, reason.Is(err, reason.SpecInvalid), "%v", err)
			require.Equal(t, c.field, reason.Of(err).Object, "%v", err)
		})
	}
}

func TestDecodeRefusesRepeatedFieldsAndRubbish(t *testing.T) {
	for _, raw := range []string{"", "[]", "\x00", good + "release: 0.2.0\n", "{", strings.Repeat("a", MaxSize+1)} {
		_, err := Decode([]byte(raw))
		require.True(t, reason.Is(err, reason.SpecInvalid), "%v", err)
	}
}

func TestDecodingWhatWasEncodedGivesTheSame(t *testing.T) {
	spec, err := Decode([]byte(good))
	require.NoError(t, err)
	raw, err := json.Marshal(spec)
	require.NoError(t, err)
	again, err := Decode(raw)
	require.NoError(t, err)
	require.Equal(t, spec, again)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"apiVersion":"wsu.windows/v1","kind":"NodeSpec","files":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec, err := Decode(raw)
		if err != nil {
			require.True(t, reason.Is(err, reason.SpecInvalid))
			return
		}
		require.NoError(t, Validate(spec))
		encoded, err := json.Marshal(spec)
		require.NoError(t, err)
		_, err = Decode(encoded)
		require.NoError(t, err)
	})
}
