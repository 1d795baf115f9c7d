package winhost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Status is what Status found.
type Status struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	// Running: its namespaces are there. Frozen: its processes are stopped; nothing below is known then.
	Running bool `json:"running"`
	Frozen  bool `json:"frozen,omitempty"`
	// Boots counts the boots, UpFor is the time since the last one was over.
	Boots int           `json:"boots,omitempty"`
	UpFor time.Duration `json:"upForNanoseconds,omitempty"`
	// SSH: the SSH server says who it is.
	SSH bool `json:"ssh"`
	// Services has the state of each service that starts automatically.
	Services map[string]string `json:"services,omitempty"`
}

const askLimit = 10 * time.Second

// Status looks at the host. A host that does not run is no error.
func (h *Host) Status(ctx context.Context) (Status, error) {
	r, runs, err := h.recorded()
	if err != nil || !runs {
		return Status{Name: h.Name}, err
	}
	status := Status{Name: r.Name, Address: r.Address, Running: true, Frozen: frozen(r), Boots: h.bootNumber()}
	if status.Frozen || status.Boots == 0 {
		return status, nil
	}
	if info, err := os.Stat(h.path("ready")); err == nil {
		status.UpFor = time.Since(info.ModTime()).Round(time.Millisecond)
	}
	status.SSH = sshAnswers(ctx, strings.Split(r.Address, "/")[0])
	if h.NotWindows {
		return status, nil
	}
	status.Services, err = h.Services(ctx)
	return status, err
}

// Services returns the states of the named services, or of all that start automatically.
func (h *Host) Services(ctx context.Context, names ...string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd, err := h.Command(ctx, append([]string{`C:\sandbox\bin\servicestates.exe`}, names...)...)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("host %s: services: %w: %s", h.Name, err, said.String())
	}
	states := map[string]string{}
	if err := json.Unmarshal(out, &states); err != nil {
		return nil, fmt.Errorf("host %s: services: %w: it said %q", h.Name, err, out)
	}
	return states, nil
}

func sshAnswers(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, "22"))
	if err != nil {
		return false
	}
	defer connection.Close()
	_ = connection.SetReadDeadline(time.Now().Add(2 * time.Second))
	banner := make([]byte, 4)
	n, _ := connection.Read(banner)
	return string(banner[:n]) == "SSH-"
}
