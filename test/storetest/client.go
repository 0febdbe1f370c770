package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// client is a source of Events. A recorder remembers its names and their counts, as client-go's recorder does. Counts
// are absolute, and remembered before they are sent. A repeat is a PATCH, or, if the Event is not found, a CREATE of the
// same name. A recorder sends one request at a time. Other clients use a new name each time.
type client struct {
	world            *world
	id               int
	recorder, series bool
	busy             bool
	serial           int
	sent             map[kind]facts
	// refusedByQuota has the names that a quota has refused. A store that knows nothing of the object does not keep these
	// names. It assumes that the recorder counts by one, and that each occurrence was refused.
	refusedByQuota map[string]bool
}

// act reports a random Event, unless the client is busy.
func (c *client) act() { c.report(c.world.variety.randomKind(c.world.rng)) }

// randomKind returns a random kind of Event.
func (v variety) randomKind(rng *rand.Rand) kind {
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, rng.IntN(n)) }
	return kind{
		pick("namespace-", v.namespaces), pick("user-", v.users), pick("component-", v.components),
		pick("pod-", v.pods), pick("Reason", v.reasons), pick("message ", v.messages),
	}
}

func (c *client) report(k kind) {
	if c.busy {
		return
	}
	w := c.world
	f := c.sent[k]
	// Before a store forgets a name, the recorder restarts and uses a new one.
	repeat := c.recorder && f.name != "" && w.now.Sub(f.first) < w.limits.IdenticalWindow*9/10
	if repeat {
		f.count += c.randomCount(f.name)
	} else {
		c.serial++
		f = facts{kind: k, name: fmt.Sprintf("e%d.%d", c.id, c.serial), count: 1, series: c.series, first: w.now}
		if other := w.randomEvent(); w.faults.Collisions && other != "" && w.rng.IntN(8) == 0 {
			c.useForeignName(other, &f)
		}
	}
	f.at = w.now
	c.sent[k] = f
	c.busy = c.recorder
	first := c.create(f)
	if repeat {
		first = c.patch(f)
	}
	w.startFlight(first, time.Second)
}

// useForeignName uses the name of an Event about another object, unless a recorder continues to count that Event.
func (c *client) useForeignName(name string, f *facts) {
	e := c.world.stored[name]
	if c.recorder || e.notice() || e.recorder || e.kind.pod == f.pod {
		return
	}
	key := groupName{f.write(c.world.now).GroupKey, name}
	if _, used := c.world.counts[key]; !used {
		f.name, c.world.counts[key] = name, &nameCounts{}
	}
}

// randomCount returns how many more occurrences the client reports. If Events may be lost, counts are large and random, so
// that the checks can recognize their sums.
func (c *client) randomCount(name string) int64 {
	if c.refusedByQuota[name] {
		return 1
	}
	if c.world.faults.Deletions || c.world.faults.Refusals {
		return 1 + c.world.rng.Int64N(engine.MaxOccurrences) // a store caps the occurrences of one write
	}
	return 1 + c.world.rng.Int64N(3)
}

func (c *client) done() stage {
	c.busy = false
	return nil
}

// create sends a CREATE, which is stored if it is admitted.
func (c *client) create(f facts) stage {
	w := c.world
	f.update = nil
	return func() stage {
		w.creates++
		f.id = w.creates
		a := w.recordCount(f)
		d := w.decide(f)
		f.combined = d.Verdict == store.Aggregate
		if d.Verdict == store.Drop && d.RefusedBy.Key != w.limits.SpamFilter.Key {
			c.refusedByQuota[f.name] = true
		}
		if !d.Verdict.Admits() {
			a.countedElsewhere = true
			if w.faults.Rollouts {
				delete(c.sent, f.kind)
			}
			return c.done()
		}
		write := f.write(w.now)
		e := &event{kind: f.kind, recorder: c.recorder, series: f.series, count: f.count, knownWritten: f.count, combined: f.combined, createID: f.id}
		e.object, e.keys = write.ObjectKey, [2]store.Key{write.ExactKey, write.SimilarKey}
		decided := w.now
		return func() stage {
			refused := w.faults.Refusals && !a.countedElsewhere && w.rng.IntN(8) == 0
			if _, taken := w.stored[f.name]; taken || refused {
				w.log("CREATE %s is refused by others", f.name)
				w.lost = append(w.lost, e)
				return c.done()
			}
			e.rejectsWrites = w.faults.Refusals && w.rng.IntN(10) == 0
			w.store(f.name, e, f.count, decided)
			return c.done()
		}
	}
}

// patch sends an UPDATE, which is stored if it is admitted, or a CREATE if the Event does not exist. The API server sends
// the UPDATE for admission again if the Event was written meanwhile.
func (c *client) patch(f facts) stage {
	w := c.world
	return func() stage {
		e := w.stored[f.name]
		if e == nil {
			return c.create(f)
		}
		if c.looksLikeReader(&f, e) {
			f.count++
			c.sent[f.kind] = f
		}
		version, a := e.version, w.recordCount(f)
		f.update = &store.Update{ByRecorder: true, RevertsMessage: e.combined, UID: e.uid}
		if d := w.decide(f); !d.Verdict.Admits() {
			a.countedElsewhere = a.countedElsewhere || d.Verdict == store.Drop
			return c.done()
		}
		e.knownWritten = f.count
		decided := w.now
		return func() stage {
			if e.version != version || w.stored[f.name] != e {
				return c.patch(f)
			}
			w.store(f.name, e, f.count, decided)
			return c.done()
		}
	}
}

// looksLikeReader reports whether a store would take the recorder, which skips counts here, for a client that has read the count and added
// one. The recorder's next count would correct that, but not its last one.
func (c *client) looksLikeReader(f *facts, e *event) bool {
	return e.merged != 0 && f.count == e.count+1
}

// label adds a label to a random Event.
func (w *world) label() {
	name := w.randomEvent()
	e := w.stored[name]
	if e == nil || e.notice() {
		return
	}
	f := facts{kind: e.kind, name: name, count: e.count, combined: e.combined, series: e.series}
	f.update = &store.Update{ContentKey: store.KeyOf("label", fmt.Sprint(w.versions)), UID: e.uid}
	if w.decide(f).Verdict.Admits() {
		e.version = w.version()
	}
}

// decide lets a random store decide a write.
func (w *world) decide(f facts) store.Decision {
	w.t.Helper()
	by := w.randomSettler()
	if f.update != nil {
		f.update.Stored = w.stored[f.name].storedCount(by)
	}
	write := f.write(w.now)
	l := f.under(w.limits, &write)
	l.Quotas = slices.Clone(l.Quotas)
	for _, q := range w.quotas {
		q.Key = store.KeyOf(q.Name, q.per(f.kind))
		l.Quotas = append(l.Quotas, q.Bucket)
	}
	d, err := by.subject.Decide(w.t.Context(), w.now, write, l)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		w.t.Fatalf("Decide: %v", err)
	}
	w.log("%s of %+v count %d, update %+v: %s", f.name, f.kind, f.count, f.update, formatDecision(d))
	w.recordTokens(&write, &l, d)
	return d
}

// event is an Event or a notice that the API server stores.
type event struct {
	kind           kind   // zero for a notice
	bucket         string // of a notice
	object         store.Key
	keys           [2]store.Key // exact and similar
	recorder       bool         // its client continues to count it
	series         bool
	combined       bool
	count          int64
	merged         int64 // the annotation: how much of annotatedTotal was merged
	annotatedTotal int64
	by             int   // the store that wrote the annotation; 0 for none
	knownWritten   int64 // the count that the store knows to be written
	uid            string
	version        string
	createID       uint64
	writes         []time.Time // of the count
	crashes        int         // of settlers after a write
	rejectsWrites  bool        // the API server rejects writes by the settler
}

func (e *event) notice() bool { return e.kind == kind{} }

// storedCount returns the stored count as the store of a settler sees it.
func (e *event) storedCount(to *settler) store.Stored {
	return store.Stored{
		Count: e.count, Merged: e.merged,
		Overwritten: e.merged != 0 && e.count != e.annotatedTotal, ByOtherStore: e.by != 0 && e.by != to.id,
	}
}

// store writes the count of an Event. decided is the time of the decision about the request.
func (w *world) store(name string, e *event, count int64, decided time.Time) {
	e.version = w.version()
	if w.stored[name] == nil {
		e.uid = "uid-" + e.version
		w.stored[name] = e
		w.names = append(w.names, name)
	}
	e.count = count
	if !w.draining {
		e.writes = append(e.writes, decided)
	}
	w.log("stored %s %d, version %s", name, count, e.version)
}

func (w *world) version() string {
	w.versions++
	return fmt.Sprint(w.versions)
}

// randomEvent returns the name of a random stored Event, or "" if there is none.
func (w *world) randomEvent() string {
	if len(w.names) == 0 {
		return ""
	}
	return randomOf(w.rng, w.names...)
}

// deleteEvent deletes a random Event. It deletes none whose lost count is unknown, and none if so many are lost that
// nearly any sum would be allowed.
func (w *world) deleteEvent() {
	name := w.randomEvent()
	e := w.stored[name]
	if e == nil || len(w.lost) > 12 && !w.faults.RecreateDeleted {
		return
	}
	for a, c := range w.counts {
		if a.name == name && c.countedElsewhere {
			return
		}
	}
	w.log("lost %s %d", name, e.count)
	delete(w.stored, name)
	w.names = slices.DeleteFunc(w.names, func(n string) bool { return n == name })
	w.lost = append(w.lost, e)
}
