package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheModuleIsTheNameOrTheFirstArgument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "arguments")
	require.NoError(t, os.WriteFile(file, []byte(`{"nonsense": 1}`), 0o600))
	for _, argv := range [][]string{
		{"wsu", "csr_approve", file}, {"/x/csr_approve", file}, {"/x/csr_approve.linux-amd64", file}, {"AnsiballZ_csr_approve", file}, {"/x/wsu.linux-amd64", "csr_approve", file},
	} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, 1, dispatch(argv, &stdout, &stderr), argv)
		assert.Contains(t, stdout.String(), "argument nonsense", argv)
	}
	for _, argv := range [][]string{{"wsu"}, {"wsu", "no_such_module", file}} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, 2, dispatch(argv, &stdout, &stderr))
		assert.Contains(t, stderr.String(), "csr_approve")
		assert.Empty(t, stdout.String())
	}
}

func TestModuleNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, module := range modules {
		assert.False(t, seen[module.Name], module.Name)
		seen[module.Name] = true
	}
}

// TestASignalEndsAModuleWithAResult runs the real binary against a server that accepts and never answers, with its arguments
// in a pipe, as the action plugin does.
func TestASignalEndsAModuleWithAResult(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "wsu")
	build := exec.Command("go", "build", "-o", binary, ".")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	asked := make(chan struct{}, 8)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			asked <- struct{}{}
		}
	}()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"clusters": [{"name": "x", "cluster": {"server": "https://`+listener.Addr().String()+`"}}], "users": [{"name": "x", "user": {}}]}`), 0o600))

	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		command := exec.Command(binary, "node", "/dev/fd/3")
		command.ExtraFiles = []*os.File{reader}
		var stdout bytes.Buffer
		command.Stdout = &stdout
		require.NoError(t, command.Start())
		_, err = writer.WriteString(`{"name": "w1", "kubeconfig": "` + kubeconfig + `"}`)
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		<-asked
		require.NoError(t, command.Process.Signal(signal))
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		select {
		case err := <-ended:
			require.Error(t, err)
			assert.Equal(t, 1, command.ProcessState.ExitCode())
		case <-time.After(30 * time.Second): // 2 s are promised; the machine may be busy
			_ = command.Process.Kill()
			t.Fatal("it did not end")
		}
		var result map[string]any
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &result), stdout.String())
		assert.Equal(t, "interrupted", result["reason"])
		assert.NoError(t, reader.Close())
	}
}
