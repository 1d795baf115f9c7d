package node

import (
	"context"
	"fmt"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/remotewmcb"
)

// remoteLog reads the kubelet's log over a connection of its own.
type remoteLog struct{ args *Args }

// logOf gives the reader of the kubelet's log where the module was given a connection to the host, else nil.
func logOf(args *Args) logReader {
	if args.Connection == nil || args.WMCB == nil {
		return nil
	}
	return remoteLog{args}
}

// KubeletLog is logReader's.
func (r remoteLog) KubeletLog(ctx context.Context, lines int) ([]string, error) {
	connection, err := remotewmcb.Dial(ctx, r.args.Connection)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	host := remotewmcb.Host{Name: r.args.Connection.InventoryHostname, InstallDir: r.args.InstallDir}
	remote, err := remotewmcb.Open(ctx, connection, *r.args.WMCB, host)
	if err != nil {
		return nil, err
	}
	defer remote.Close(ctx)
	var status nodereport.Status
	err = remote.Run(ctx, []string{"status", "--install-dir", r.args.InstallDir, "--log-lines", fmt.Sprint(lines)}, nil, nil, &status)
	shown := make([]string, len(status.KubeletLog))
	for i, line := range status.KubeletLog {
		shown[i] = remotewmcb.Clean(line)
	}
	return shown, err
}
