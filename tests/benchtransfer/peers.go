package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

func timed(cmd *exec.Cmd) (time.Duration, error) {
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	if err != nil {
		return took, fmt.Errorf("%s: %w: %s", cmd.Args[0], err, out)
	}
	return took, nil
}

func (b *bench) sftp(h host, port int, files []file) (time.Duration, error) {
	if err := h.empty(); err != nil {
		return 0, err
	}
	cmd := exec.Command("sftp", append(h.sshOptions(port), "-b", "-", "Administrator@127.0.0.1")...) //nolint:gosec // a benchmark's host
	var batch strings.Builder
	for _, f := range files {
		fmt.Fprintf(&batch, "put %s /C:/bench/%s\n", f.Path, f.Name)
	}
	cmd.Stdin = strings.NewReader(batch.String())
	return timed(cmd)
}

func (b *bench) scp(h host, port int, files []file) (time.Duration, error) {
	if err := h.empty(); err != nil {
		return 0, err
	}
	arguments := h.sshOptions(port)
	for _, f := range files {
		arguments = append(arguments, f.Path)
	}
	return timed(exec.Command("scp", append(arguments, "Administrator@127.0.0.1:/C:/bench/")...)) //nolint:gosec // a benchmark's host
}

// ansibleWay puts the files as Ansible's winrm connection does; where that has PowerShell, a program that does the same takes its place.
func (b *bench) ansibleWay(h host, scheme string, files []file) (time.Duration, error) {
	if err := h.empty(); err != nil {
		return 0, err
	}
	if err := b.putDecoder(h); err != nil {
		return 0, err
	}
	paths := map[string]string{}
	for _, f := range files {
		paths[f.Path] = `C:\bench\` + f.Name
	}
	return b.peer(h, scheme, "ansible", paths)
}

// winrmcpWay measures a small file, and scales: all of it would take most of an hour.
func (b *bench) winrmcpWay(h host, scheme string, total int64) (time.Duration, error) {
	if err := h.empty(); err != nil {
		return 0, err
	}
	const small = 256 << 10
	took, err := b.peer(h, scheme, "winrmcp", map[string]string{fmt.Sprintf("%d", small): `C:\bench\small.b64`})
	return time.Duration(float64(took) * float64(total) / small), err
}

func (b *bench) putDecoder(h host) error {
	cmd := exec.Command("sftp", append(h.sshOptions(22), "-b", "-", "Administrator@"+h.Address)...) //nolint:gosec // a benchmark's host
	cmd.Stdin = strings.NewReader("put " + b.decoder + " /C:/bench/decode.exe\n")
	_, err := timed(cmd)
	return err
}

// peer runs peers.py, which gives the seconds that the transfer took.
func (b *bench) peer(h host, scheme, way string, paths map[string]string) (time.Duration, error) {
	arguments, err := json.Marshal(map[string]any{"host": h.Address, "password": h.Password, "ca": h.CATrust, "scheme": scheme, "way": way, "paths": paths})
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(b.python, "tests/benchtransfer/peers.py") //nolint:gosec // a benchmark's peer
	cmd.Stdin = strings.NewReader(string(arguments))
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("peers.py: %w: %s", err, out)
	}
	var seconds float64
	if err := json.Unmarshal(out, &seconds); err != nil {
		return 0, err
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
