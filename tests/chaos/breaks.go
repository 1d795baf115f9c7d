package main

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"wsu.windows/internal/reason"
)

// each runs a case several times at once, each time with an install folder and a line of its own.
func (c *chaos) each(w way, name string, times int, run func(p *place, random *rand.Rand, m measure, row *row) error) error {
	row := c.row(w.name + ", " + name)
	defer row.done()
	var wait sync.WaitGroup
	for number := range times {
		wait.Go(func() {
			p, err := w.place(fmt.Sprintf(`C:\chaos-%s%d`, shortName(name), number))
			if err != nil {
				row.fail("%v", err)
				return
			}
			defer p.line.Close()
			m, err := c.measure(p, c.files)
			if err == nil {
				err = p.host.remove(p.install + `\store`)
			}
			if err == nil {
				random := rand.New(rand.NewPCG(c.seed, uint64(number))) //nolint:gosec // the same chaos with the same seed
				err = run(p, random, m, row)
			}
			if err != nil {
				row.fail("%s: %v", p.install, err)
			}
		})
	}
	wait.Wait()
	return nil
}

// shortName gives the first letters of a case, for a folder.
func shortName(name string) string {
	const letters = 4
	return name[:letters]
}

// killed: kill -9 of the module somewhere in the stream; the next run goes on there.
func (c *chaos) killed(p *place, random *rand.Rand, m measure, row *row) error {
	before := p.line.Sent.Load()
	at := before + m.nothing + random.Int64N(m.line-2*m.nothing)
	r, err := c.begin(p.connection(), p.install, c.files)
	if err != nil {
		return err
	}
	r.until(p.line, at)
	_ = r.cmd.Process.Kill() // one that has ended is told by its outcome
	first, err := r.end()
	if err != nil {
		return err
	}
	if !first.killed {
		return fmt.Errorf("it had ended before it was killed")
	}
	second, err := c.untilDone(p, func(outcome) bool { return false })
	if err != nil {
		return err
	}
	row.add(tally{outcome{attempts: first.attempts + second.attempts, Lanes: second.Lanes}, 1 + second.runs}, 0, 0, 0)
	// While the host has not noticed that the first one is gone, each attempt sends a chunk and is told to wait.
	asked := int64(second.attempts) * (1<<20 + overhead)
	if brought := at - before - m.nothing; second.WireBytes > m.wire-brought*3/4+2*mostAgain+asked {
		return fmt.Errorf("the second run sent %d bytes of %d, and the first one had sent %d", second.WireBytes, m.wire, brought)
	}
	return p.host.whole(p.install, c.files)
}

// forgotten: what is between forgets the connections, and tells nobody.
func (c *chaos) forgotten(p *place, random *rand.Rand, m measure, row *row) error {
	p.line.ForgetAfter(random.Int64N(m.line))
	total, err := c.untilDone(p, func(o outcome) bool {
		return o.Reason == string(reason.HostUnreachable) || o.Reason == string(reason.ConnectionLost)
	})
	if !p.line.Forgotten() {
		return fmt.Errorf("it ended before the connections were forgotten")
	}
	row.add(total, 1, total.SentBytes-size(c.files), total.WireBytes-m.wire)
	if err != nil {
		return err
	}
	return p.host.whole(p.install, c.files)
}

// flipped: one bit is another one when it arrives. Nothing wrong may appear; the run ends well or with a reason, and the next one mends it.
func (c *chaos) flipped(p *place, random *rand.Rand, m measure, row *row) error {
	const often = 4
	for range often {
		at, bit := random.Int64N(m.line), uint(random.IntN(8))
		if err := p.host.remove(p.install + `\store`); err != nil {
			return err
		}
		p.line.FlipAfter(at, bit)
		o, err := c.transfer(p.connection(), p.install, c.files)
		if err != nil {
			return err
		}
		if !p.line.Flipped() {
			return fmt.Errorf("it ended before the bit %d of the byte %d", bit, at)
		}
		if o.Failed && (o.Reason == "" || o.Reason == string(reason.Internal)) {
			return fmt.Errorf("bit %d of the byte %d: %w", bit, at, o.error())
		}
		if err := p.host.honest(p.install); err != nil {
			return fmt.Errorf("bit %d of the byte %d: %w", bit, at, err)
		}
		second, err := c.untilDone(p, func(outcome) bool { return false })
		if err != nil {
			return fmt.Errorf("after bit %d of the byte %d: %w", bit, at, err)
		}
		row.add(tally{outcome{attempts: o.attempts + second.attempts, Lanes: o.Lanes}, 1 + second.runs}, 1, 0, 0)
		if err := p.host.whole(p.install, c.files); err != nil {
			return err
		}
	}
	return nil
}
