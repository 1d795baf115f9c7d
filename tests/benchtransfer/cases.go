package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"wsu.windows/tests/line"
)

// overSSH: the release's real payload, beside sftp and scp, on short and long lines.
func (b *bench) overSSH() error {
	ours, all, total, err := b.release()
	if err != nil {
		return err
	}
	if err := b.cold(ours, total); err != nil {
		return err
	}
	return b.onLines("SSH, payload", ours, all, total, map[time.Duration]float64{0: 2, 10 * time.Millisecond: 2, 50 * time.Millisecond: 2}, true)
}

// cold is the first transfer of a release from a control host: nothing is packed yet.
func (b *bench) cold(files []file, total int64) error {
	h := b.hosts["winhost1"]
	if err := h.empty(); err != nil {
		return err
	}
	o, err := b.transfer(h.ssh(22), files)
	if err != nil {
		return err
	}
	b.add(result{Case: "SSH, payload, the control host's first", Seconds: o.took.Seconds(), MBs: float64(total) / 1e6 / o.took.Seconds(),
		Note: fmt.Sprintf("packs once; %.1f MB as %.1f MB; %s", mb(o.SentBytes), mb(o.WireBytes), o.memory())})
	return nil
}

// random: 256 MiB that nothing can compress.
func (b *bench) random() error {
	content := make([]byte, 256<<20)
	_, _ = rand.Read(content) // it does not fail
	path := filepath.Join(b.work, "random.bin")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	f, err := b.cached(path)
	if err != nil {
		return err
	}
	return b.onLines("SSH, 256 MiB random", []file{f}, []file{f}, f.Size, map[time.Duration]float64{0: 1, 10 * time.Millisecond: 1.5, 50 * time.Millisecond: 1.5}, false)
}

func (b *bench) onLines(name string, ours, all []file, total int64, want map[time.Duration]float64, scp bool) error {
	h := b.hosts["winhost1"]
	for _, roundTrip := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond} {
		l, err := line.New(h.Address+":22", roundTrip)
		if err != nil {
			return err
		}
		var last outcome
		contenders := []func() (time.Duration, error){
			func() (time.Duration, error) {
				if err := h.empty(); err != nil {
					return 0, err
				}
				last, err = b.transfer(h.ssh(l.Port()), ours)
				return last.took, err
			},
			func() (time.Duration, error) { return b.sftp(h, l.Port(), all) },
		}
		if scp {
			contenders = append(contenders, func() (time.Duration, error) { return b.scp(h, l.Port(), all) })
		}
		medians, err := b.median(contenders...)
		l.Close()
		if err != nil {
			return err
		}
		for i, peer := range []string{"sftp", "scp"}[:len(contenders)-1] {
			b.add(result{Case: fmt.Sprintf("%s, %d ms", name, roundTrip.Milliseconds()), Seconds: medians[0], MBs: float64(total) / 1e6 / medians[0],
				Peer: peer, PeerS: medians[i+1], Want: want[roundTrip], Note: fmt.Sprintf("%d lanes; %s", last.Lanes, last.memory())})
		}
	}
	return nil
}

// overWinRM: the payload beside Ansible's way and winrmcp's.
func (b *bench) overWinRM() error {
	files, all, total, err := b.release()
	if err != nil {
		return err
	}
	h := b.hosts["winhost2"]
	defer os.Remove(h.latencyOfEach)
	for _, scheme := range []string{"https", "http"} {
		port := map[string]int{"https": 5986, "http": 5985}[scheme]
		for _, latency := range []int{0, 10} {
			if err := os.WriteFile(h.latencyOfEach, fmt.Append(nil, latency), 0o600); err != nil {
				return err
			}
			var last outcome
			rest := *b
			rest.runs = 1 // the peers take minutes
			ours, err := b.median(func() (time.Duration, error) {
				if err := h.empty(); err != nil {
					return 0, err
				}
				last, err = b.transfer(h.winrm(scheme, port), files)
				return last.took, err
			})
			if err != nil {
				return err
			}
			peers, err := rest.median(func() (time.Duration, error) { return b.ansibleWay(h, scheme, all) },
				func() (time.Duration, error) { return b.winrmcpWay(h, scheme, total) })
			if err != nil {
				return err
			}
			name := fmt.Sprintf("WinRM %s, payload, %d ms a message", map[string]string{"https": "TLS", "http": "NTLM-sealed"}[scheme], latency)
			note := fmt.Sprintf("%d lanes; %s; first file by %s", last.Lanes, last.memory(), last.FirstFile)
			b.add(result{Case: name, Seconds: ours[0], MBs: float64(total) / 1e6 / ours[0], Peer: "Ansible's winrm", PeerS: peers[0], Want: 5, Note: note})
			b.add(result{Case: name, Seconds: ours[0], MBs: float64(total) / 1e6 / ours[0], Peer: "winrmcp's way", PeerS: peers[1], Want: 20, Note: "the peer's 256 KiB, scaled"})
		}
	}
	return nil
}

// delta: the kubelet of the next patch release, where the host has this one.
func (b *bench) delta() error {
	if b.previous == "" {
		return errors.New("give the kubelet.exe of the release before with -previous")
	}
	present, err := b.cached(b.previous)
	if err != nil {
		return err
	}
	next, err := b.cached(filepath.Join(b.payload, "kubelet.exe"))
	if err != nil {
		return err
	}
	h := b.hosts["winhost1"]
	if err := h.empty(); err != nil {
		return err
	}
	if _, err := b.transfer(h.ssh(22), []file{present}); err != nil {
		return err
	}
	first, err := b.transfer(h.ssh(22), []file{next})
	if err != nil {
		return err
	}
	if err := h.cmd(`del C:\k\store\` + next.SHA256); err != nil {
		return err
	}
	again, err := b.transfer(h.ssh(22), []file{next})
	if err != nil {
		return err
	}
	if !slices.Equal(again.Differences, []string{next.Name}) {
		return fmt.Errorf("it was not sent as a difference: %+v", again)
	}
	if err := os.Remove(filepath.Join(b.work, present.SHA256)); err != nil { // without the old one here, all is sent
		return err
	}
	if err := h.cmd(`del C:\k\store\` + next.SHA256); err != nil {
		return err
	}
	whole, err := b.transfer(h.ssh(22), []file{next})
	if err != nil {
		return err
	}
	b.add(result{Case: "kubelet " + b.versions, Seconds: again.took.Seconds(), Peer: "full send", PeerS: whole.took.Seconds(),
		Note:   fmt.Sprintf("%.2f MB instead of %.2f MB, 1/%.0f; the first time %.1f s, %s", mb(again.WireBytes), mb(whole.WireBytes), float64(whole.WireBytes)/float64(again.WireBytes), first.took.Seconds(), first.memory()),
		Misses: again.WireBytes*4 > whole.WireBytes})
	return nil
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// nothing: 300 MB that are there already.
func (b *bench) nothing() error {
	var files []file
	for i := range 3 {
		content := make([]byte, 100<<20)
		_, _ = rand.Read(content) // it does not fail
		path := filepath.Join(b.work, fmt.Sprintf("present-%d", i))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		f, err := b.cached(path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	for kind, to := range map[string]string{"SSH": "winhost1", "WinRM NTLM-sealed": "winhost2"} {
		h := b.hosts[to]
		if err := h.empty(); err != nil {
			return err
		}
		port := map[string]int{"SSH": 22, "WinRM NTLM-sealed": 5985}[kind]
		l, err := line.New(fmt.Sprintf("%s:%d", h.Address, port), 0)
		if err != nil {
			return err
		}
		connection := h.ssh(l.Port())
		if kind != "SSH" {
			connection = h.winrm("http", l.Port())
			connection["host"] = "127.0.0.1"
		}
		if _, err := b.transfer(connection, files); err != nil {
			return err
		}
		before := l.Sent.Load() + l.Received.Load()
		medians, err := b.median(func() (time.Duration, error) {
			o, err := b.transfer(connection, files)
			return o.took, err
		})
		wire := (l.Sent.Load() + l.Received.Load() - before) / int64(b.runs)
		l.Close()
		if err != nil {
			return err
		}
		b.add(result{Case: kind + ", nothing to send (300 MB)", Seconds: medians[0], Note: fmt.Sprintf("%d B on the wire", wire), Misses: medians[0] > 1 || wire > 64<<10})
	}
	return nil
}

// many: several hosts at once from one control host.
func (b *bench) many() error {
	files, _, total, err := b.release()
	if err != nil {
		return err
	}
	names := []string{}
	for name := range b.hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	var alone float64
	for _, count := range []int{1, 2, 5, 10, 20} {
		if count > len(names) {
			break
		}
		took := make([]float64, count)
		errs := make([]error, count)
		for _, name := range names[:count] {
			if err := b.hosts[name].empty(); err != nil {
				return err
			}
		}
		var wait sync.WaitGroup
		begin := time.Now()
		for i, name := range names[:count] {
			wait.Go(func() {
				var o outcome
				o, errs[i] = b.transfer(b.hosts[name].ssh(22), files)
				took[i] = o.took.Seconds()
			})
		}
		wait.Wait()
		all := time.Since(begin).Seconds()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if count == 1 {
			alone = all
		}
		b.add(result{Case: fmt.Sprintf("%d hosts at once", count), Seconds: all, MBs: float64(total) * float64(count) / 1e6 / all,
			Note: fmt.Sprintf("first %.1f s, last %.1f s; %.2f of one host's speed in all", slices.Min(took), slices.Max(took), alone*float64(count)/all)})
	}
	return nil
}
