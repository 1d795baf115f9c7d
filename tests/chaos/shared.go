package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"wsu.windows/internal/reason"
)

// sandboxDo runs a command of the sandbox.
func (c *chaos) sandboxDo(arguments ...string) error {
	cmd := exec.Command(filepath.Join(c.sandbox, "bin", "sandbox"), arguments...) //nolint:gosec,noctx // the test's own sandbox
	cmd.Env = append(os.Environ(), "SANDBOX_DIR="+c.sandbox)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("sandbox %v: %w: %s", arguments, err, out)
	}
	return nil
}

// full: the drive fills up while the contents arrive.
func (c *chaos) full(w way) error {
	row := c.row(w.name + ", disk full")
	defer row.done()
	p, err := w.place(`C:\chaos-full`)
	if err != nil {
		return err
	}
	defer p.line.Close()
	m, err := c.measure(p, c.files)
	if err != nil {
		return err
	}
	if err := p.host.remove(p.install + `\store`); err != nil {
		return err
	}
	name := p.host.Name
	if err := c.sandboxDo("fill", name, "--leave", fmt.Sprint(80<<20)); err != nil {
		return err
	}
	o, err := c.transfer(p.connection(), p.install, c.files)
	if err != nil {
		return err
	}
	if o.Reason != string(reason.DiskFull) {
		row.fail("too little space before: %v", o.error())
	}
	if err := c.sandboxDo("unfill", name); err != nil {
		return err
	}
	at := p.line.Sent.Load() + m.line/3
	r, err := c.begin(p.connection(), p.install, c.files)
	if err != nil {
		return err
	}
	r.until(p.line, at)
	p.line.Hold(true)
	err = c.sandboxDo("fill", name)
	p.line.Hold(false)
	second, endErr := r.end()
	if err := errorsOf(err, endErr, c.sandboxDo("unfill", name)); err != nil {
		return err
	}
	if second.Reason != string(reason.DiskFull) {
		row.fail("full on the way: %+v", second)
	}
	if err := p.host.honest(p.install); err != nil {
		row.fail("%v", err)
	}
	third, err := c.untilDone(p, func(outcome) bool { return false })
	if err == nil {
		err = p.host.whole(p.install, c.files)
	}
	if err != nil {
		row.fail("with space again: %v", err)
	}
	row.add(tally{outcome{attempts: o.attempts + second.attempts + third.attempts, Lanes: third.Lanes}, 2 + third.runs}, 2, 0, 0)
	return nil
}

// together: two runs at once against one host, over both transports.
func (c *chaos) together(one, other way) error {
	row := c.row("SSH and WinRM at once")
	defer row.done()
	const install = `C:\chaos-both`
	a, err := one.place(install)
	if err != nil {
		return err
	}
	defer a.line.Close()
	b, err := other.place(install)
	if err != nil {
		return err
	}
	defer b.line.Close()
	for _, later := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond, time.Second} {
		if err := a.host.remove(install); err != nil {
			return err
		}
		first, err := c.begin(a.connection(), install, c.files)
		if err != nil {
			return err
		}
		time.Sleep(later)
		second, err := c.begin(b.connection(), install, c.files)
		if err != nil {
			return err
		}
		attempts, said := 0, ""
		for _, r := range []*run{first, second} {
			o, err := r.end()
			if err != nil {
				return err
			}
			attempts, said = attempts+o.attempts, said+"---\n"+o.said
			if o.Failed && o.Reason != string(reason.TransferBusy) {
				row.fail("%s apart: %v", later, o.error())
			}
		}
		if err := a.host.whole(install, c.files); err != nil {
			row.fail("%s apart: %v\n%s", later, err, said)
		}
		row.add(tally{outcome{attempts: attempts}, 2}, 0, 0, 0)
	}
	return nil
}
