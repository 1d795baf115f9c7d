package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rotten: bits flip on the disks of both sides, in whatever is kept. The wrong file never appears, and the next run mends it.
func (c *chaos) rotten(p *place, random *rand.Rand, m measure, row *row) error {
	for _, rot := range []struct {
		what string
		do   func(*place, *rand.Rand, measure) error
	}{
		{"what had arrived of a content", c.rotPartial}, {"a finished content", c.rotContent}, {"kept frames of the control host", c.rotFrames},
	} {
		if err := p.host.remove(p.install + `\store`); err != nil {
			return err
		}
		if err := rot.do(p, random, m); err != nil {
			return fmt.Errorf("%s: %w", rot.what, err)
		}
		if err := p.host.honest(p.install); err != nil && rot.what != "a finished content" {
			return fmt.Errorf("%s: %w", rot.what, err)
		}
		total, err := c.untilDone(p, func(outcome) bool { return false })
		if err == nil {
			err = p.host.whole(p.install, c.files)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", rot.what, err)
		}
		row.add(total, 1, 0, 0)
	}
	return c.rotBase(p, random, row)
}

// rotPartial breaks a transfer off for good, so that its next attempts find nobody, and damages what arrived.
func (c *chaos) rotPartial(p *place, random *rand.Rand, m measure) error {
	at := p.line.Sent.Load() + m.line*3/4
	r, err := c.begin(p.connection(), p.install, c.files)
	if err != nil {
		return err
	}
	r.until(p.line, at)
	_ = r.cmd.Process.Kill() // one that has ended has left nothing partial
	if _, err := r.end(); err != nil {
		return err
	}
	names, err := p.host.names(p.install + `\store`)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".partial") {
			continue
		}
		info, err := p.host.files.Stat(remote(p.install + `\store\` + name))
		if err != nil {
			return err
		}
		if info.Size() > 1<<20 {
			return p.host.flip(p.install+`\store\`+name, random.Int64N(1<<20), uint(random.IntN(8)))
		}
	}
	return errors.New("nothing partial was there")
}

// rotContent damages a content that is visible.
func (c *chaos) rotContent(p *place, random *rand.Rand, _ measure) error {
	if _, err := c.untilDone(p, func(outcome) bool { return false }); err != nil {
		return err
	}
	f := c.files[random.IntN(4)] // the large ones
	return p.host.flip(p.install+`\store\`+f.SHA256, random.Int64N(f.Size), uint(random.IntN(8)))
}

// rotFrames damages what the control host keeps beside its cache.
func (c *chaos) rotFrames(_ *place, random *rand.Rand, _ measure) error {
	kept, err := filepath.Glob(filepath.Join(c.cache, "*.frames-*"))
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(path string) bool { return strings.HasSuffix(path, ".lock") })
	if len(kept) == 0 {
		return errors.New("no frames are kept")
	}
	return flipLocal(kept[random.IntN(len(kept))], random)
}

func flipLocal(path string, random *rand.Rand) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content[random.IntN(len(content))] ^= 1 << random.IntN(8)
	return os.WriteFile(path, content, 0o600)
}

// rotBase damages what differences are made to, on the host.
func (c *chaos) rotBase(p *place, random *rand.Rand, row *row) error {
	const what = "the base of a difference"
	old := c.files[0]
	content, err := os.ReadFile(old.Path)
	if err != nil {
		return err
	}
	next, err := cached(c.cache, "next", slices.Concat(content[:1<<20], []byte(fmt.Sprint("news", random.Uint64())), content[1<<20:]))
	if err != nil {
		return err
	}
	if err := p.host.flip(p.install+`\store\`+old.SHA256, 3<<20+random.Int64N(1<<20), uint(random.IntN(8))); err != nil {
		return err
	}
	o, err := c.transfer(p.connection(), p.install, []file{next})
	if err == nil {
		err = o.error()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Equal(o.Differences, []string{"next"}) {
		return fmt.Errorf("%s: it was not sent as a difference: %+v", what, o)
	}
	row.add(tally{o, 1}, 1, 0, 0)
	seen, err := p.host.digest(p.install + `\store\` + next.SHA256)
	if err == nil && seen != next.SHA256 {
		err = fmt.Errorf("%s: the content has the digest %s", what, seen)
	}
	return err
}
