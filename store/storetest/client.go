package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// kind is what makes Events the same but for their name.
type kind struct{ user, pod, reason, message string }

// client is a source of Events. A recorder keeps the names that it used and counts for each, as
// client-go's do: the count is absolute, it is kept before it is sent, a repeat is a PATCH, and one of
// an Event that is not found is a CREATE of the same name. It sends one thing at a time. Other
// clients use a new name each time.
type client struct {
	world            *world
	id               int
	recorder, series bool
	busy             bool
	serial           int
	sent             map[kind]facts
}

// speak reports something, unless the client is busy with what it reported.
func (c *client) speak() {
	rng := c.world.rng
	c.report(kind{
		user:    fmt.Sprint("user-", rng.IntN(2)),
		pod:     fmt.Sprint("pod-", rng.IntN(3)),
		reason:  fmt.Sprint("Reason", rng.IntN(3)),
		message: fmt.Sprint("message ", rng.IntN(4)),
	})
}

func (c *client) report(k kind) {
	if c.busy {
		return
	}
	w := c.world
	f := c.sent[k]
	// A name that began longer ago than names are kept is one of a recorder that was restarted.
	repeat := c.recorder && f.name != "" && w.now.Sub(f.first) < w.limits.RepeatWindow*9/10
	if repeat {
		f.count += c.some()
	} else {
		c.serial++
		f = about(fmt.Sprintf("e%d.%d", c.id, c.serial), []detail{by(k.user), pod(k.pod), reason(k.reason), message(k.message)})
		f.series, f.first = c.series, w.now
		if other := w.pick(); w.faults.Collisions && other != "" && w.rng.IntN(8) == 0 {
			c.steal(other, &f)
		}
	}
	f.at = w.now
	c.sent[k] = f
	c.busy = c.recorder
	first := c.create(k, f)
	if repeat {
		first = c.patch(k, f)
	}
	w.fly(first, time.Second)
}

// steal takes the name of an Event about another object that no recorder goes on with.
func (c *client) steal(name string, f *facts) {
	e := c.world.stored[name]
	if c.recorder || e.kind == (kind{}) || e.recorder || e.kind.pod == f.pod {
		return
	}
	key := account{f.write(c.world.now).Group, name}
	if _, used := c.world.accounts[key]; !used {
		f.name, c.world.accounts[key] = name, &book{}
	}
}

// some is how many more occurrences the client reports: large and odd ones where the test must
// recognize sums of them.
func (c *client) some() int64 {
	if c.world.faults.Deletions || c.world.faults.Refusals {
		return 1 + c.world.rng.Int64N(1e9)
	}
	return 1 + c.world.rng.Int64N(3)
}

func (c *client) done() stage {
	c.busy = false
	return nil
}

// create sends a CREATE and stores it.
func (c *client) create(k kind, f facts) stage {
	w := c.world
	f.update = nil
	return func() stage {
		a := w.reach(f)
		d := w.decide(f)
		f.combined = d.Verdict == store.Aggregate
		if !d.Verdict.Admits() {
			a.elsewhere = true
			if w.faults.Rollouts {
				delete(c.sent, k)
			}
			return c.done()
		}
		write := f.write(w.now)
		e := &event{kind: k, recorder: c.recorder, series: f.series, count: f.count, known: f.count, combined: f.combined}
		e.object, e.keys = write.Object, [2]store.Key{write.Exact, write.Similar}
		decided := w.now
		return func() stage {
			refused := w.faults.Refusals && !a.elsewhere && w.rng.IntN(8) == 0
			if _, taken := w.stored[f.name]; taken || refused {
				w.say("CREATE %s is refused by others", f.name)
				w.lost = append(w.lost, e)
				return c.done()
			}
			e.stubborn = w.faults.Refusals && w.rng.IntN(10) == 0
			e.created = w.now
			w.store(f.name, e, f.count, decided)
			return c.done()
		}
	}
}

// patch sends an UPDATE and stores it, or a CREATE if there is no such Event. The API server asks again
// when the Event was written in the meantime.
func (c *client) patch(k kind, f facts) stage {
	w := c.world
	return func() stage {
		e := w.stored[f.name]
		if e == nil {
			return c.create(k, f)
		}
		version, a := e.version, w.reach(f)
		f.update = &store.Update{Recorder: true, Reverts: e.combined}
		if d := w.decide(f); !d.Verdict.Admits() {
			a.elsewhere = a.elsewhere || d.Verdict == store.Drop
			return c.done()
		}
		e.known = f.count
		decided := w.now
		return func() stage {
			if e.version != version || w.stored[f.name] != e {
				return c.patch(k, f)
			}
			w.store(f.name, e, f.count, decided)
			return c.done()
		}
	}
}

// label lets somebody label some Event.
func (w *world) label() {
	name := w.pick()
	e := w.stored[name]
	if e == nil || e.kind == (kind{}) {
		return
	}
	f := about(name, []detail{by(e.kind.user), pod(e.kind.pod), reason(e.kind.reason), message(e.kind.message), count(e.count)})
	f.combined, f.series = e.combined, e.series
	f.update = &store.Update{Same: store.KeyOf("label", fmt.Sprint(w.versions))}
	if w.decide(f).Verdict.Admits() {
		e.version = w.version()
	}
}

// decide asks a store about a write.
func (w *world) decide(f facts) store.Decision {
	w.t.Helper()
	by := w.some()
	if f.update != nil {
		f.update.Stored = w.stored[f.name].says(by)
	}
	write := f.write(w.now)
	d, err := by.subject.Decide(w.t.Context(), w.now, write, f.under(w.limits, &write))
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		w.t.Fatalf("Decide: %v", err)
	}
	w.say("%s of %s/%s %s %q count %d, update %+v: %s", f.name, f.user, f.pod, f.reason, f.message, f.count, f.update, decided(d))
	return d
}
