package winhost

import (
	"context"
	"os/exec"
	"strconv"
)

// Command is a Windows program to run in the host, reached through its namespaces and not through SSH. Bound to ctx is the way in alone:
// like a session that is cut, it leaves the program running.
func (h *Host) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	return h.Linux(ctx, append([]string{"sh", "-c", `. ` + home + `/etc/wine.env; cd "$WINEPREFIX/drive_c"; exec "$WINE" "$@"`, "wine"}, args...)...)
}

// Linux is a program of the real machine to run in the host's namespaces.
func (h *Host) Linux(ctx context.Context, args ...string) (*exec.Cmd, error) {
	r, err := h.running()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(r.PID), "-m", "-u", "-n", "-p", "--"}, args...)...), nil
}
