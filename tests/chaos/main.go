// Command chaos breaks transfers to the hosts of a sandbox in every way that a network, a disk and a person can, and checks that the next
// attempt mends it: the line is cut, forgotten or flips bits, the module is killed, files rot, the disk is full. tests/chaos.sh starts it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// chaos is one run of this program.
type chaos struct {
	sandbox, payload, module string
	ansible                  string
	count                    int
	seed                     uint64
	work, cache              string
	hosts                    map[string]*host
	wmcb                     file
	files                    []file
	mu                       sync.Mutex
	rows                     []*row
}

func main() {
	c := &chaos{}
	flag.StringVar(&c.sandbox, "sandbox", ".sandbox", "folder of a running sandbox, whose host winhost1 has SSH and winhost2 WinRM as well")
	flag.StringVar(&c.payload, "payload", "build/payload", "folder of the release's files")
	flag.StringVar(&c.module, "module", "build/ansible_collections/wsu/windows/plugins/bin/wsu.linux-amd64", "the modules' binary")
	flag.StringVar(&c.ansible, "ansible", ".venv/bin/ansible-playbook", "the ansible-playbook that joins hosts")
	flag.IntVar(&c.count, "cuts", 20, "how often the line is cut on each transport")
	flag.Uint64Var(&c.seed, "seed", 0, "the same seed makes the same chaos; 0: another one each time")
	only := flag.String("only", "", "some cases only, separated by commas")
	flag.Parse()
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	fmt.Printf("seed %d\n", c.seed)
	if err := c.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func (c *chaos) run(only string) (err error) {
	if c.work, err = os.MkdirTemp("", "chaos"); err != nil {
		return err
	}
	defer os.RemoveAll(c.work)
	c.cache = filepath.Join(c.work, "cache")
	if err := os.Mkdir(c.cache, 0o700); err != nil {
		return err
	}
	if c.hosts, err = readHosts(c.sandbox); err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(c.payload, "wmcb.exe"))
	if err != nil {
		return err
	}
	if c.wmcb, err = cached(c.cache, "wmcb.exe", program); err != nil {
		return err
	}
	if c.files, err = c.mixture(); err != nil {
		return err
	}
	one, two := c.hosts["winhost1"], c.hosts["winhost2"]
	ways := []way{
		{"SSH", one, 22, 0, one.ssh},
		{"SSH, 25 ms round trip", one, 22, 25 * time.Millisecond, one.ssh},
		{"WinRM", two, 5985, 0, two.winrm},
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"cuts", func() error { return c.allCuts(ways) }},
		{"breaks", func() error { return c.breaks(ways) }},
		{"full", func() error { return c.full(ways[0]) }},
		{"together", func() error { return c.together(way{"SSH", two, 22, 0, two.ssh}, ways[2]) }},
		{"join", c.join},
	} {
		if only == "" || strings.Contains(","+only+",", ","+step.name+",") {
			if err := step.run(); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
	}
	return c.print()
}

// allCuts: SSH with one lane and with several are one transport. The transports' hosts are independent of each other.
func (c *chaos) allCuts(ways []way) error {
	errs := make([]error, 2)
	var wait sync.WaitGroup
	wait.Go(func() { errs[0] = errorsOf(c.cuts(ways[0], (c.count+1)/2), c.cuts(ways[1], c.count/2)) })
	wait.Go(func() { errs[1] = c.cuts(ways[2], c.count) })
	wait.Wait()
	return errorsOf(errs...)
}

// breaks: a few of what takes long to be noticed or is the same everywhere, and more where many cuts are asked for.
func (c *chaos) breaks(ways []way) error {
	few := 2 + c.count/100
	for _, w := range ways[1:] {
		for _, broken := range []struct {
			name string
			run  func(*place, *rand.Rand, measure, *row) error
		}{
			{"killed", c.killed}, {"forgotten", c.forgotten}, {"flipped bits", c.flipped},
		} {
			if err := c.each(w, broken.name, few, broken.run); err != nil {
				return err
			}
		}
	}
	return c.each(ways[0], "rotten disks", 1, c.rotten)
}

func (c *chaos) print() error {
	fmt.Printf("%-34s %9s %5s %8s %5s %5s %15s %15s %8s %8s\n", "CASE", "TRANSFERS", "CUTS", "ATTEMPTS", "RUNS", "LANES", "WORST AGAIN", "ON THE LINE", "SECONDS", "FAILURES")
	failures := 0
	for _, r := range c.rows {
		fmt.Printf("%-34s %9d %5d %8d %5d %5d %11.2f MiB %11.2f MiB %8.1f %8d\n", r.Name, r.Transfers, r.Cuts, r.Attempts, r.Runs, r.Lanes,
			float64(r.WorstSent)/(1<<20), float64(r.WorstWire)/(1<<20), r.Seconds, r.Failures)
		failures += r.Failures
	}
	raw, err := json.Marshal(map[string]any{"seed": c.seed, "results": c.rows})
	fmt.Println(string(raw))
	if err == nil && failures > 0 {
		err = fmt.Errorf("%d failures; the same again: -seed %d", failures, c.seed)
	}
	return err
}
