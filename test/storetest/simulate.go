package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Faults are what goes wrong in a simulated cluster, besides settlers that crash and are replaced.
type Faults struct {
	// Refusals lets others refuse CREATEs that were admitted, and the API server what the settler writes. Collisions
	// lets users choose names that other users' Events have. Deletions lets stored Events disappear, as by their TTL.
	Refusals, Collisions, Deletions bool
	// RecreateDeleted makes a client report each deleted Event once more, so that nothing may be missing in the
	// end. Nothing is ever dropped.
	RecreateDeleted bool
	// Outages says that replicas decide for a time without the store that they share. What each then
	// decides has waits between writes of its own.
	Outages bool
	// AnyReplica lets any replica decide about any Event in outages. Names are kept for longer than those
	// last, and there are no quotas, whose drops are reported as they were decided.
	AnyReplica bool
	// Rollback says that the store forgets what it has acknowledged, which may be missing then. All
	// clients use a new name each time, as what is known of names may be lost.
	Rollback bool
	// Rollouts let another store, which knows nothing, take the place of the one there is. For some
	// time both decide and settle, before the old one writes all it has. No answer to a settler is
	// lost, and no client goes on with a name that was refused.
	Rollouts bool
	// Storm makes many sources write about many objects under several quotas, more than a store keeps
	// track of, so that counts need not be exact. Settling never fails.
	Storm bool
}

// FaultMixes are what goes wrong in simulations, by sentences.
func FaultMixes() map[string]Faults {
	return map[string]Faults{
		"while nothing goes wrong but settlers crash": {},
		"while others refuse":                         {Refusals: true},
		"while users choose each other's names":       {Collisions: true},
		"while Events disappear":                      {Deletions: true},
		"while Events disappear and come back":        {Deletions: true, RecreateDeleted: true},
		"while stores take each other's place":        {Rollouts: true},
		"while all goes wrong":                        {Refusals: true, Collisions: true, Deletions: true},
	}
}

// Simulate runs a store between a model of the API server and models of its clients and of the
// settler, and holds it to these promises:
//
// Exact (I1): once all is settled, the counts of stored Events and notices add up to the occurrences that reached the
// store. Each name counts once: by the highest count that came under it. Of an Event that disappears, and of a CREATE
// that others refuse after it was admitted, the count that it had, or would have had, may be missing, but only the
// whole of it: what merged into it is not lost with it. Nothing is ever reported twice.
//
// Bounded (I2): a stored Event or notice is written at most 2 + log2(most/least interval) + T/most interval times in
// any time T, and once more for each settler that crashed between a write and its completion.
//
// Protected (I9): of each bucket of a quota, at most its burst and what comes back is let through, and each bucket
// that refuses has at most one notice in a window, whatever the number of objects and of refused writes.
//
// No settler lowers a count, except to take out what is reported elsewhere.
func Simulate(t *testing.T, f Faults, seeds Seeds, fresh Fresh) {
	t.Helper()
	seeds.each(t, func(t *testing.T, rng *rand.Rand) {
		t.Helper()
		w := newWorld(t, f, rng, fresh)
		w.verbose = seeds.Runs == 1
		for range seeds.Steps {
			if f.Storm {
				w.stormStep()
			} else {
				w.step()
			}
		}
		w.end()
		w.checkExact()
		w.checkBounded()
		w.checkProtected()
		if t.Failed() {
			for _, line := range w.lines {
				t.Log(line)
			}
		}
	})
}

// world is a simulated cluster. All that is going on at once are flights, of which one at a time moves
// on, so that every order of steps comes about.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	faults   Faults
	fresh    Fresh
	now      time.Time
	limits   store.Limits
	quotas   []quota
	crowd    crowd
	pace     time.Duration     // at most between two steps of a storm
	labels   int               // which part of a storm is labels, of 10
	stored   map[string]*event // at the API server, by name
	names    []string          // of what is stored, oldest first
	lost     []*event          // deleted from there, or never stored
	accounts map[account]*nameCounts
	passed   map[store.Key]int // tokens taken, by bucket
	buckets  map[store.Key]store.Bucket
	refusing map[store.Key]bool
	clients  []*client
	flights  []flight
	settlers []*settler  // one, and two while a store takes another's place
	stores   int         // so far
	replaced []time.Time // when settlers were
	settled  time.Time   // when the settler of a storm was at work
	versions int
	creates  uint64
	draining bool
	verbose  bool
	lines    []string
}

// crowd is how many of each there are in Events.
type crowd struct{ namespaces, users, components, pods, reasons, messages int }

// quota is one limit with a bucket for each of its scopes, as by a policy's "per".
type quota struct {
	store.Bucket
	per func(k kind) string
}

// flight is a request or a settlement on its way. It must have moved to its end at a time.
type flight struct {
	next stage
	by   time.Time
}

// stage is one step of a flight. It returns the next one, or nil at the end.
type stage func() stage

func newWorld(t *testing.T, f Faults, rng *rand.Rand, fresh Fresh) *world {
	t.Helper()
	w := &world{
		t: t, rng: rng, faults: f, fresh: fresh, now: epoch(), crowd: crowd{1, 2, 1, 3, 3, 4},
		stored: map[string]*event{}, accounts: map[account]*nameCounts{}, passed: map[store.Key]int{}, buckets: map[store.Key]store.Bucket{},
		refusing: map[store.Key]bool{}, settlers: []*settler{newSettler(fresh(t), 1)}, stores: 1,
	}
	interval := time.Duration(8+rng.IntN(10)) * time.Second
	w.limits = store.Limits{
		Merge:            true,
		SimilarThreshold: 1 + rng.IntN(5),
		Window:           time.Duration(1+rng.IntN(10)) * time.Minute,
		IdenticalWindow:  time.Duration(10+rng.IntN(90)) * time.Minute,
		WriteInterval:    interval,
		MaxWriteInterval: interval << rng.IntN(4),
		KeepMessages:     rng.IntN(4),
		ReservePerReason: rng.IntN(2),
		ChargeMerged:     rng.IntN(4) == 0,
	}
	filter := bucket("spam filter", 1+rng.IntN(30), time.Hour)
	if f.RecreateDeleted {
		w.limits.ChargeMerged = false
		w.limits.Window, w.limits.IdenticalWindow = 100*time.Hour, 100*time.Hour
		w.limits.SimilarThreshold = 1 + 99*rng.IntN(2) // so that an Event's place does not change
	} else {
		filter.NoticeObject = store.Object{}
		w.limits.SpamFilter = filter
	}
	switch {
	case f.Storm:
		w.chooseStorm()
	case f.AnyReplica:
		w.limits.IdenticalWindow = 100 * time.Hour
	case !f.RecreateDeleted && rng.IntN(2) == 0:
		w.limits.Quotas = append(w.limits.Quotas, bucket("quota", 1+rng.IntN(60), time.Duration(1+rng.IntN(60))*time.Second))
	}
	for i := range 5 {
		w.clients = append(w.clients, &client{world: w, id: i, recorder: i > 1 && !f.Rollback, series: i == 4, sent: map[kind]facts{}, refusedByQuota: map[string]bool{}})
	}
	return w
}

// chooseStorm chooses a storm: narrow or wide, of few or many reasons, sources and users.
func (w *world) chooseStorm() {
	rng := w.rng
	w.pace = randomOf(rng, time.Millisecond, 50*time.Millisecond, time.Second, 10*time.Second)
	w.labels = randomOf(rng, 0, 0, 2, 5)
	w.crowd = crowd{
		namespaces: randomOf(rng, 1, 1, 20), users: randomOf(rng, 1, 2, 50), components: randomOf(rng, 1, 3, 50),
		pods: randomOf(rng, 1, 10, 1000), reasons: randomOf(rng, 1, 5, 100), messages: randomOf(rng, 1, 5, 1000),
	}
	w.limits.Merge = rng.IntN(5) > 0
	w.limits.WriteInterval = time.Duration(1+rng.IntN(10)) * time.Second
	w.limits.MaxWriteInterval = w.limits.WriteInterval << rng.IntN(6)
	if !w.limits.SpamFilter.Key.IsZero() {
		w.limits.SpamFilter.Every = randomOf(rng, time.Second, time.Minute, 5*time.Minute)
	}
	for i := range 1 + rng.IntN(3) {
		every := randomOf(rng, 10*time.Millisecond, 200*time.Millisecond, time.Second, time.Minute)
		w.quotas = append(w.quotas, quota{
			bucket(fmt.Sprint("quota ", i), randomOf(rng, 1, 5, 10, 20, 50, 0), every),
			randomOf(rng,
				func(kind) string { return "" },
				func(k kind) string { return k.namespace },
				func(k kind) string { return k.user },
				func(k kind) string { return k.component },
				func(k kind) string { return k.namespace + k.pod },
				func(k kind) string { return k.reason },
				func(k kind) string { return k.namespace + "/" + k.reason },
			),
		})
	}
}

// step lets one thing happen.
func (w *world) step() {
	switch n := w.rng.IntN(100); {
	case n < 40:
		randomOf(w.rng, w.clients...).act()
	case n < 75:
		w.advance()
	case n < 85:
		w.advanceTime(w.upTo(2 * time.Second))
	case n < 89:
		w.advanceTime(w.upTo(w.limits.WriteInterval * 2))
	case n < 90:
		w.advanceTime(w.upTo(min(w.limits.Window, 10*time.Minute) * 5 / 4))
	case n < 95:
		w.settle()
	case n < 96:
		w.replaceSettler()
	case n < 97:
		w.label()
	case w.faults.Deletions:
		w.deleteEvent()
	case w.faults.Rollouts && len(w.settlers) == 1:
		w.stores++
		w.settlers = append(w.settlers, newSettler(w.fresh(w.t), w.stores))
	case w.faults.Rollouts:
		w.finish()
		w.drain()
	}
}

// stormStep makes one write, and lets the settler write what is due each five seconds.
func (w *world) stormStep() {
	w.advanceTime(w.upTo(w.pace))
	if w.now.Sub(w.settled) > 5*time.Second {
		w.settled = w.now
		w.settleAll(w.settlers[0], 0)
	}
	if w.rng.IntN(10) < w.labels {
		w.label()
		return
	}
	randomOf(w.rng, w.clients...).act()
	w.finish()
}

// upTo is a random time below a bound.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// some is one of the stores that decide, with its settler.
func (w *world) some() *settler {
	if len(w.settlers) == 1 {
		return w.settlers[0]
	}
	return randomOf(w.rng, w.settlers...)
}

// log notes what happens, where it will be read.
func (w *world) log(format string, args ...any) {
	if w.verbose {
		w.lines = append(w.lines, fmt.Sprintf("%v ", w.now.Sub(epoch()))+fmt.Sprintf(format, args...))
	}
}

// startFlight starts a flight that takes at most a while.
func (w *world) startFlight(s stage, longest time.Duration) {
	w.flights = append(w.flights, flight{s, w.now.Add(w.upTo(longest))})
}

// advance moves some flight on by one stage.
func (w *world) advance() {
	if len(w.flights) == 0 {
		return
	}
	i := w.rng.IntN(len(w.flights))
	if w.flights[i].next = w.flights[i].next(); w.flights[i].next == nil {
		w.flights = slices.Delete(w.flights, i, i+1)
	}
}

// finish moves all flights to their end.
func (w *world) finish() {
	for len(w.flights) > 0 {
		w.advance()
	}
}

// advanceTime lets time pass. Flights end in time.
func (w *world) advanceTime(d time.Duration) {
	until := w.now.Add(d)
	for {
		i := slices.IndexFunc(w.flights, func(f flight) bool { return f.by.Before(until) })
		if i < 0 {
			break
		}
		for w.flights[i].next != nil {
			w.flights[i].next = w.flights[i].next()
		}
		w.flights = slices.Delete(w.flights, i, i+1)
	}
	w.now = until
}

// end lets everybody finish and the settler write all there is.
func (w *world) end() {
	w.finish()
	w.draining = true
	w.settlers[0] = newSettler(w.settlers[0].subject, w.settlers[0].id)
	if w.faults.RecreateDeleted {
		w.recreateDeleted()
	}
	for len(w.settlers) > 0 {
		w.drain()
	}
}

// drain lets the oldest settler write all there is, and its store end.
func (w *world) drain() {
	by := w.settlers[0]
	w.settlers = w.settlers[1:]
	for range 20 {
		if w.settleAll(by, math.MaxInt64) == 0 {
			return
		}
		w.advanceTime(time.Second)
	}
	w.t.Error("something is pending after 20 drains")
}

// recreateDeleted makes a client report each deleted Event until another is stored in its place.
func (w *world) recreateDeleted() {
	for _, e := range w.lost {
		for range 4 {
			w.clients[0].report(e.kind)
			w.finish()
			w.settleAll(w.settlers[0], time.Hour) // what waits for the next Event of its key waits longer
		}
	}
}
