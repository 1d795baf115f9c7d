package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/tests/line"
)

const (
	// mostAgain is what one cut may cost, in bytes on the line: what is lost was on its way, and packed.
	mostAgain = 4 << 20
	// overhead is for the headers of a stream and the ends of its lanes.
	overhead = 64 << 10
	// workers transfers go on at once on each host, each into an install folder of its own: most of a transfer with a cut is waiting.
	workers = 3
)

// way is a transport over a line to a host.
type way struct {
	name      string
	host      *host
	port      int
	roundTrip time.Duration
	connect   func(port int) map[string]any
}

// place is where one worker transfers to: an install folder, over a line.
type place struct {
	way
	install string
	line    *line.Line
}

func (w way) place(install string) (*place, error) {
	l, err := line.New(fmt.Sprintf("%s:%d", w.host.Address, w.port), w.roundTrip)
	return &place{w, install, l}, err
}

func (p *place) connection() map[string]any { return p.connect(p.line.Port()) }

// measure is what a transfer without a cut sends: on the line towards the host, with wmcb.exe and without, where nothing is to be sent at
// all, and in the stream alone.
type measure struct{ fresh, line, nothing, wire int64 }

func (c *chaos) measure(p *place, files []file) (m measure, err error) {
	if err := p.host.remove(p.install); err != nil {
		return m, err
	}
	for _, into := range []*int64{&m.fresh, &m.nothing, &m.line} {
		before := p.line.Sent.Load()
		o, err := c.transfer(p.connection(), p.install, files)
		if err == nil {
			err = o.error()
		}
		if err != nil {
			return m, err
		}
		*into = p.line.Sent.Load() - before
		if into == &m.nothing {
			if err := p.host.remove(p.install + `\store`); err != nil {
				return m, err
			}
		}
		m.wire = max(m.wire, o.WireBytes)
	}
	return m, p.host.whole(p.install, files)
}

// plan says what happens to one transfer.
type plan struct {
	fresh bool    // wmcb.exe is not there
	cuts  []int64 // bytes on the line
}

// newPlan makes the plan of a transfer: most are cut anywhere, some before the stream, in wmcb.exe itself, at the very end, or twice.
func newPlan(random *rand.Rand, number int, m measure) plan {
	const tail = 6 << 10
	switch number % 10 {
	case 0:
		return plan{fresh: true, cuts: []int64{random.Int64N(m.fresh - m.line + 1)}}
	case 1:
		return plan{cuts: []int64{random.Int64N(m.nothing)}}
	case 2:
		return plan{cuts: []int64{m.line - random.Int64N(tail)}}
	case 3, 6:
		first := random.Int64N(m.line)
		return plan{cuts: []int64{first, random.Int64N(m.line - first + 1)}}
	}
	return plan{cuts: []int64{random.Int64N(m.line)}}
}

// cuts cuts the line of transfers until that has happened often enough.
func (c *chaos) cuts(w way, count int) error {
	row := c.row(w.name + ", cut")
	defer row.done()
	var number, happened atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, workers)
	for worker := range workers {
		wait.Go(func() {
			p, err := w.place(fmt.Sprintf(`C:\chaos%d`, worker))
			if err != nil {
				errs[worker] = err
				return
			}
			defer p.line.Close()
			m, err := c.measure(p, c.files)
			if err != nil {
				errs[worker] = err
				return
			}
			for int(happened.Load()) < count && row.Failures < 5 {
				n := int(number.Add(1)) - 1
				random := rand.New(rand.NewPCG(c.seed, uint64(n))) //nolint:gosec // the same cuts with the same seed
				happened.Add(int64(c.cut(p, newPlan(random, n, m), m, row)))
			}
		})
	}
	wait.Wait()
	return errorsOf(errs...)
}

// cut makes one transfer according to its plan, and checks what came of it. It gives how often the line was cut.
func (c *chaos) cut(p *place, plan plan, m measure, row *row) (cuts int) {
	leftovers := p.install
	if !plan.fresh {
		leftovers += `\store`
	}
	if err := p.host.remove(leftovers); err != nil {
		row.fail("%v", err)
		return 0
	}
	p.line.CutAfter(plan.cuts...)
	total, err := c.untilDone(p, func(o outcome) bool {
		return p.line.CutsLeft() < len(plan.cuts) && (o.Reason == string(reason.HostUnreachable) || o.Reason == string(reason.ConnectionLost))
	})
	cuts = len(plan.cuts) - p.line.CutsLeft()
	p.line.CutAfter()
	if err == nil {
		err = p.host.whole(p.install, c.files)
	}
	sent, wire := total.SentBytes-size(c.files), total.WireBytes-m.wire
	if err == nil && wire > int64(cuts)*mostAgain+overhead {
		err = fmt.Errorf("%d cuts cost %.2f MiB that were sent again", cuts, float64(wire)/(1<<20))
	}
	if err != nil {
		row.fail("%s: fresh %v, cuts %v of %d bytes: %v", p.install, plan.fresh, plan.cuts, m.line, err)
	}
	row.add(total, cuts, sent, wire)
	return cuts
}

// tally is what the runs of one transfer said together.
type tally struct {
	outcome
	runs int
}

// untilDone runs the module, and again where again says that its failure is one that the next run mends.
func (c *chaos) untilDone(p *place, again func(outcome) bool) (tally, error) {
	const most = 4
	var t tally
	for t.runs = 1; ; t.runs++ {
		o, err := c.transfer(p.connection(), p.install, c.files)
		if err != nil {
			return t, err
		}
		t.SentBytes, t.WireBytes, t.attempts = t.SentBytes+o.SentBytes, t.WireBytes+o.WireBytes, t.attempts+o.attempts
		t.Lanes = max(t.Lanes, o.Lanes)
		if err = o.error(); err == nil || t.runs == most || !again(o) {
			return t, err
		}
	}
}

func (r *row) add(t tally, cuts int, sent, wire int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Transfers, r.Cuts, r.Attempts, r.Runs, r.Lanes = r.Transfers+1, r.Cuts+cuts, r.Attempts+t.attempts, r.Runs+t.runs, max(r.Lanes, t.Lanes)
	if cuts > 0 {
		r.WorstSent, r.WorstWire = max(r.WorstSent, sent/int64(cuts)), max(r.WorstWire, wire/int64(cuts))
	}
}
