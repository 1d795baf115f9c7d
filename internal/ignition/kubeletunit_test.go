package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func flagsOfUnit(t *testing.T, contents string, dropins ...dropin) map[string]string {
	t.Helper()
	c := &config{files: map[string]resource{"/etc/env": {source: "data:,B%3Dfile%0A%23c%0AC%3D%22quoted%22%0A"}},
		units: map[string]unit{KubeletUnit: {contents: contents, dropins: dropins}}}
	flags, err := kubeletFlags(c)
	require.NoError(t, err)
	return flags
}

func TestKubeletFlagsAreReadAsSystemdReadsThem(t *testing.T) {
	cases := map[string]struct {
		unit    string
		dropins []dropin
		want    map[string]string
	}{
		"a continuation that is only a backslash": {"[Service]\nExecStart=/usr/bin/kubelet \\\n  --a=1 \\\n   \\\n  --b=2\nRestart=always\n", nil, map[string]string{"a": "1", "b": "2"}},
		"windows line ends":                       {"[Service]\r\nExecStart=/usr/bin/kubelet \\\r\n  --a=1 \\\r\n  --b=2\r\n", nil, map[string]string{"a": "1", "b": "2"}},
		"a comment between continued lines":       {"[Service]\nExecStart=/usr/bin/kubelet \\\n  --a=1 \\\n# no\n; no\n  --b=2\n", nil, map[string]string{"a": "1", "b": "2"}},
		"two flags on a line":                     {"[Service]\nExecStart=kubelet --a=1 --b=2\n", nil, map[string]string{"a": "1", "b": "2"}},
		"a value of its own word":                 {"[Service]\nExecStart=kubelet --a 1 --bool --b=\n", nil, map[string]string{"a": "1", "bool": "true", "b": ""}},
		"quotes":                                  {"[Service]\nExecStart=kubelet \"--a=x y\" '--b=z'\n", nil, map[string]string{"a": "x y", "b": "z"}},
		"an unknown variable":                     {"[Service]\nExecStart=kubelet --a=${NOPE} --b=x,${NOPE},y --c=1\n", nil, map[string]string{"b": "x,y", "c": "1"}},
		"the unit's environment":                  {"[Service]\nEnvironment=\"A=1\" B=2\nExecStart=kubelet --a=${A} --b=$B\n", nil, map[string]string{"a": "1", "b": "2"}},
		"an environment file wins":                {"[Service]\nEnvironmentFile=-/etc/env\nEnvironmentFile=/absent\nEnvironment=B=unit\nExecStart=kubelet --b=${B} --c=${C}\n", nil, map[string]string{"b": "file", "c": "quoted"}},
		"a variable that is several words":        {"[Service]\nEnvironment=\"A=--x=1 --y=2\"\nExecStart=kubelet $A $UNSET --z=3\n", nil, map[string]string{"x": "1", "y": "2", "z": "3"}},
		"other sections do not count":             {"[Unit]\nExecStart=kubelet --a=0\n[Service]\nExecStart=kubelet --a=1\n[Install]\nExecStart=kubelet --a=2\n", nil, map[string]string{"a": "1"}},
		"a drop-in replaces the command": {"[Service]\nExecStart=kubelet --a=1\n",
			[]dropin{{"20.conf", "[Service]\nEnvironment=L=4\n"}, {"10.conf", "[Service]\nExecStart=\nExecStart=kubelet --b=${L}\n"}}, map[string]string{"b": "4"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, flagsOfUnit(t, c.unit, c.dropins...)) })
	}
}

func TestAGzipBombStopsAtTheBound(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	zeros := make([]byte, 1<<20)
	for range 64 {
		_, err := w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	_, err := resource{source: "data:;base64," + base64.StdEncoding.EncodeToString(packed.Bytes()), compression: "gzip"}.decode()
	require.ErrorContains(t, err, "unpacks to more than")
}

func TestDataURLsOfEveryKindDecode(t *testing.T) {
	for source, want := range map[string]string{
		"": "", "data:,": "", "data:,a%20b%0A": "a b\n", "data:text/plain;charset=utf-8;base64,aGk=": "hi", "data:;base64,aGk=": "hi", "data:text/plain,hi": "hi",
	} {
		got, err := resource{source: source}.decode()
		require.NoError(t, err, source)
		assert.Equal(t, want, string(got), source)
	}
	for _, source := range []string{"data:hello", "data:;base64,%%%", "file:///etc/passwd", "http://x/y"} {
		_, err := resource{source: source}.decode()
		assert.Error(t, err, source)
	}
}
