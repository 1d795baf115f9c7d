// Command benchtransfer measures transfers to the hosts of a sandbox beside what else could bring the same files there, in one run: OpenSSH's
// sftp and scp, Ansible's way over WinRM, and winrmcp's. tests/bench-transfer.sh starts it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	b := &bench{}
	flag.StringVar(&b.sandbox, "sandbox", ".sandbox", "folder of a running sandbox, whose host winhost1 has SSH and winhost2 WinRM as well")
	flag.StringVar(&b.payload, "payload", "build/payload", "folder of the release's files")
	flag.StringVar(&b.previous, "previous", "", "the kubelet.exe of the release before")
	flag.StringVar(&b.versions, "kubernetes", "", "the versions of both, for the table")
	flag.StringVar(&b.module, "module", "build/ansible_collections/wsu/windows/plugins/bin/wsu.linux-amd64", "the modules' binary")
	flag.StringVar(&b.python, "python", ".venv-sandbox/bin/python", "a Python with pywinrm")
	flag.StringVar(&b.decoder, "decoder", "", "a Windows program that writes the base64 lines of its standard input to a file")
	flag.IntVar(&b.runs, "runs", 3, "how often each case is measured; the median counts")
	only := flag.String("only", "", "ssh, random, winrm, delta, nothing or many: these cases only")
	flag.Parse()
	if err := b.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "benchtransfer:", err)
		os.Exit(1)
	}
}

type bench struct {
	sandbox, payload, previous, versions, module, python, decoder string
	runs                                                          int
	work                                                          string
	hosts                                                         map[string]host
	results                                                       []result
}

// result is one line of the table. Ratio is the peer's time through ours, Want the least that it should be.
type result struct {
	Case    string  `json:"case"`
	Peer    string  `json:"peer,omitempty"`
	Seconds float64 `json:"seconds"`
	PeerS   float64 `json:"peer_seconds,omitempty"`
	MBs     float64 `json:"mb_per_s,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Want    float64 `json:"want,omitempty"`
	Note    string  `json:"note,omitempty"`
	Misses  bool    `json:"misses,omitempty"`
}

func (b *bench) run(only string) (err error) {
	if b.work, err = os.MkdirTemp("", "benchtransfer"); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if b.hosts, err = readHosts(filepath.Join(b.sandbox, "inventory", "hosts.yml")); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"ssh", b.overSSH}, {"random", b.random}, {"winrm", b.overWinRM}, {"delta", b.delta}, {"nothing", b.nothing}, {"many", b.many},
	} {
		if only == "" || only == c.name {
			if err := c.run(); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return b.print()
}

func (b *bench) add(r result) {
	if r.PeerS > 0 {
		r.Ratio = round(r.PeerS / r.Seconds)
		r.Misses = r.Ratio < r.Want
	}
	r.Seconds, r.PeerS, r.MBs = round(r.Seconds), round(r.PeerS), round(r.MBs)
	b.results = append(b.results, r)
	fmt.Fprintf(os.Stderr, "%+v\n", r)
}

func (b *bench) print() error {
	fmt.Printf("%-44s %8s %8s  %-16s %8s %6s %6s  %s\n", "CASE", "SECONDS", "MB/S", "PEER", "SECONDS", "RATIO", "WANT", "")
	missed := false
	for _, r := range b.results {
		note := r.Note
		if r.Misses {
			note, missed = "BELOW THE AIM "+note, true
		}
		fmt.Printf("%-44s %8.2f %8s  %-16s %8s %6s %6s  %s\n", r.Case, r.Seconds, blank(r.MBs), r.Peer, blank(r.PeerS), blank(r.Ratio), blank(r.Want), note)
	}
	raw, err := json.Marshal(map[string]any{"results": b.results, "missed": missed})
	fmt.Println(string(raw))
	return err
}

func blank(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", f)
}

func round(f float64) float64 { return float64(int(f*100+0.5)) / 100 }

// median runs contenders in turn, so that whatever else the machine does hits all of them, and gives each one's median.
func (b *bench) median(contenders ...func() (time.Duration, error)) ([]float64, error) {
	times := make([][]float64, len(contenders))
	for range b.runs {
		for i, contender := range contenders {
			d, err := contender()
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], d.Seconds())
		}
	}
	medians := make([]float64, len(contenders))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = times[i][len(times[i])/2]
	}
	return medians, nil
}
