package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// client is a source of Events. A recorder keeps the names it used and counts
// for each, as client-go's do: the count is absolute, it is kept before it is
// sent, a repeat is a PATCH, and one of an Event that is not there is a CREATE
// with the same name. It sends one thing at a time. Other clients use a new
// name each time.
type client struct {
	world    *world
	id       int
	recorder bool
	batch    bool // tells of many occurrences at once
	busy     bool
	serial   int
	sent     map[kind]facts
}

// speak tells of something, unless the client is busy with what it told.
func (c *client) speak() {
	rng := c.world.rng
	c.tell(kind{
		group:   fmt.Sprint("pod-", rng.IntN(3)),
		reason:  fmt.Sprint("Reason", rng.IntN(3)),
		message: fmt.Sprint("message ", rng.IntN(4)),
	})
}

func (c *client) tell(k kind) {
	if c.busy {
		return
	}
	f := c.sent[k]
	repeat := f.name != "" && c.recorder
	if !repeat {
		c.serial++
		f = facts{name: fmt.Sprintf("e%d.%d", c.id, c.serial), group: k.group, reason: k.reason, message: k.message}
	}
	f.count += c.some()
	c.sent[k] = f
	c.busy = c.recorder
	first := c.mutate(k, f)
	if repeat {
		first = c.patch(k, f)
	}
	c.world.fly(first, c.patience())
}

// some is how many occurrences the client tells of: large and odd ones where
// the test must recognize sums of them.
func (c *client) some() int64 {
	switch {
	case c.world.faults.Deletions:
		return 1 + c.world.rng.Int64N(1e9)
	case c.batch:
		return 1 + c.world.rng.Int64N(50)
	}
	return 1
}

// patience is how long a request may take: mostly less, sometimes more than
// the store waits for the second phase.
func (c *client) patience() time.Duration {
	if c.world.rng.IntN(10) == 0 && !c.world.faults.Return {
		return 6 * time.Second
	}
	return time.Second
}

func (c *client) done() stage {
	c.busy = false
	return nil
}

// mutate sends a CREATE to the mutating phase.
func (c *client) mutate(k kind, f facts) stage {
	w := c.world
	f.update = nil
	return func() stage {
		d, err := w.subject.Merge(w.t.Context(), w.now, f.write(w.now), w.terms)
		if err != nil {
			w.t.Fatalf("Merge: %v", err)
		}
		f.combined = d.Verdict == store.Aggregate
		a := w.account(f.name)
		a.passed = w.claims + 1
		switch {
		case d.Verdict == store.Merge || d.Verdict == store.Drop:
			w.reach(f)
			a.elsewhere = true
			w.account(d.Into).stands = d.Total
			return c.done()
		case w.faults.Refusals && w.rng.IntN(5) == 0:
			return c.done()
		}
		a.stands = 0
		return c.validate(k, f)
	}
}

// validate sends a CREATE to the validating phase and stores it.
func (c *client) validate(k kind, f facts) stage {
	w := c.world
	return func() stage {
		w.reach(f)
		a := w.account(f.name)
		if w.take(f).Verdict == store.Drop {
			a.elsewhere = true
			return c.done()
		}
		a.passed = w.claims + 1
		e := &event{kind: k, group: store.KeyOf(f.group), known: f.count}
		e.stubborn = w.faults.Refusals && !w.faults.Deletions && w.rng.IntN(10) == 0
		e.write(w.now, f.count)
		return func() stage {
			w.stored[f.name] = e
			return c.done()
		}
	}
}

// patch sends an UPDATE to the validating phase and stores it, or a CREATE if
// there is no such Event. The API server asks again when the Event was written
// in the meantime.
func (c *client) patch(k kind, f facts) stage {
	w := c.world
	return func() stage {
		e := w.stored[f.name]
		if e == nil {
			return c.mutate(k, f)
		}
		version, a := e.version, w.account(f.name)
		f.update = &store.Update{Recorder: true, OldCount: e.count, OldMerged: e.merged}
		w.reach(f)
		d := w.take(f)
		if d.Verdict == store.Merge {
			a.stands = d.Total
			return c.done()
		}
		a.passed, a.stands, e.known = w.claims+1, f.count, f.count
		decided := w.now
		return func() stage {
			if e.version != version || w.stored[f.name] != e {
				return c.patch(k, f)
			}
			e.write(decided, f.count)
			return c.done()
		}
	}
}

// take is the validating phase of a write.
func (w *world) take(f facts) store.Decision {
	w.t.Helper()
	d, err := w.subject.Take(w.t.Context(), w.now, f.write(w.now), w.terms)
	if err != nil {
		w.t.Fatalf("Take: %v", err)
	}
	return d
}
