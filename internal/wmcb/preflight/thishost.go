package preflight

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"wsu.windows/internal/kubeapi"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/winsystem"
	"wsu.windows/internal/wmcb/apply"
)

// ThisHost is the machine that the program runs on.
func ThisHost() Host {
	return Host{
		System: winsystem.Read, Interfaces: winsystem.Interfaces, FreeBytes: winsystem.FreeBytes, HasPipe: winsystem.HasPipe,
		Services: winservice.Open(), RuntimeVersion: askVersion, PortIsFree: listen, Resolve: net.DefaultResolver.LookupHost,
		Ask: ask, AddressTowards: apply.ThisHost().NodeIP, Now: time.Now,
	}
}

// askVersion runs `containerd --version`: "containerd github.com/containerd/containerd/v2 v2.4.2 REVISION".
func askVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // the service's own program
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	words := strings.Fields(string(output[:min(len(output), 500)]))
	if len(words) < 3 || words[0] != "containerd" {
		return "", fmt.Errorf("%s is not containerd", program)
	}
	return words[2], nil
}

func listen(port int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)) //nolint:gosec // for a moment, to see whether it can be had
	if err != nil {
		return err
	}
	return listener.Close()
}

// ask needs no credentials: whatever the API server answers carries its time.
func ask(ctx context.Context, server string, authority []byte) (time.Time, error) {
	client, err := kubeapi.New(&kubeconfig.Kubeconfig{Server: server, CA: authority})
	if err != nil {
		return time.Time{}, err
	}
	defer client.Close()
	return client.Time(ctx)
}
