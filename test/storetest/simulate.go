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

// Faults are the faults of a simulated cluster, in addition to settlers that crash and are replaced.
type Faults struct {
	// Refusals: other webhooks refuse admitted CREATEs, and the API server rejects writes by the settler.
	// Collisions: users choose names of other users' Events. Deletions: stored Events disappear, as by their TTL.
	Refusals, Collisions, Deletions bool
	// RecreateDeleted: a client reports each deleted Event again, so in the end nothing may be missing. Nothing is dropped.
	RecreateDeleted bool
	// Outages: replicas decide for a time without the store that they share. Each then has its own write intervals.
	Outages bool
	// AnyReplica: during outages, any replica decides about any Event. Names are kept for longer than an outage. There
	// are no quotas, as their drops are counted as each replica decided them.
	AnyReplica bool
	// Rollback: the store loses acknowledged changes, whose counts may then be missing. All clients use a new name each
	// time, as the store may also lose names.
	Rollback bool
	// Rollouts: an empty store replaces the current one. For some time both decide and have settlers, and then the old
	// store's settler writes everything. Settlers do not crash, and no client continues with a refused name.
	Rollouts bool
	// Storm: many sources write about many objects under several quotas. A store cannot track them all, so counts need
	// not be exact. Writes by the settler never fail.
	Storm bool
}

// FaultMixes returns the faults of simulations, by their names as tests.
func FaultMixes() map[string]Faults {
	return map[string]Faults{
		"settlers crash":                     {},
		"other webhooks refuse":              {Refusals: true},
		"users choose each other's names":    {Collisions: true},
		"Events disappear":                   {Deletions: true},
		"Events disappear and come back":     {Deletions: true, RecreateDeleted: true},
		"stores are replaced":                {Rollouts: true},
		"refusals, collisions and deletions": {Refusals: true, Collisions: true, Deletions: true},
	}
}

// Simulate runs a store with models of the API server, its clients and the settler, and checks these promises:
//
// Exact (I1): once all pending counts are written, stored Events and notices report as many occurrences as reached the
// store. Each name counts with the highest count that was sent under it. If an Event disappears, or if others refuse an
// admitted CREATE, its count may be missing. Then all of it is missing, but nothing that merged into it. Nothing is ever
// reported twice.
//
// Bounded (I2): a stored Event or notice is written at most 2 + log2(max/min interval) + T/max interval times in any
// time T. Each settler that crashes between a write and its completion adds one write.
//
// Protected (I9): each bucket of a quota admits at most its burst and its refill. Each bucket that refuses has at most one
// notice in a window, independent of the number of objects and refused writes.
//
// No settler lowers a count, except by occurrences that are reported elsewhere.
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

// world is a simulated cluster. Concurrent requests are flights. One random flight advances at a time, so that all orders
// of their stages occur.
type world struct {
	t               *testing.T
	rng             *rand.Rand
	faults          Faults
	fresh           Fresh
	now             time.Time
	limits          store.Limits
	quotas          []quota
	variety         variety
	pace            time.Duration     // the longest time between two steps of a storm
	labels          int               // how many of 10 steps of a storm add a label
	stored          map[string]*event // at the API server, by name
	names           []string          // of stored Events, oldest first
	lost            []*event          // deleted, or never stored
	counts          map[groupName]*nameCounts
	tokensTaken     map[store.Key]int // tokens taken, by bucket
	buckets         map[store.Key]store.Bucket
	refusingBuckets map[store.Key]bool
	clients         []*client
	flights         []flight
	settlers        []*settler  // one, or two while a store is replaced
	stores          int         // the number of stores so far
	replaced        []time.Time // when settlers were replaced
	lastSettled     time.Time   // when the settler last wrote in a storm
	versions        int
	creates         uint64
	draining        bool
	verbose         bool
	lines           []string
}

// variety is the number of distinct values of each field of Events.
type variety struct{ namespaces, users, components, pods, reasons, messages int }

// quota is a limit with a bucket for each value of per, as in a policy.
type quota struct {
	store.Bucket
	per func(k kind) string
}

// flight is a request or settlement in flight. It must end by a time.
type flight struct {
	next stage
	by   time.Time
}

// stage is one step of a flight. It returns the next one, or nil at the end.
type stage func() stage

func newWorld(t *testing.T, f Faults, rng *rand.Rand, fresh Fresh) *world {
	t.Helper()
	w := &world{
		t: t, rng: rng, faults: f, fresh: fresh, now: epoch(), variety: variety{1, 2, 1, 3, 3, 4},
		stored: map[string]*event{}, counts: map[groupName]*nameCounts{}, tokensTaken: map[store.Key]int{}, buckets: map[store.Key]store.Bucket{},
		refusingBuckets: map[store.Key]bool{}, settlers: []*settler{newSettler(fresh(t), 1)}, stores: 1,
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
		w.limits.SimilarThreshold = 1 + 99*rng.IntN(2) // so that an Event does not change to or from a combined one
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

// chooseStorm chooses a storm, with few or many namespaces, objects, reasons, sources and users.
func (w *world) chooseStorm() {
	rng := w.rng
	w.pace = randomOf(rng, time.Millisecond, 50*time.Millisecond, time.Second, 10*time.Second)
	w.labels = randomOf(rng, 0, 0, 2, 5)
	w.variety = variety{
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

// step makes one random step.
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

// stormStep makes one write. Every five seconds, the settler writes all that is due.
func (w *world) stormStep() {
	w.advanceTime(w.upTo(w.pace))
	if w.now.Sub(w.lastSettled) > 5*time.Second {
		w.lastSettled = w.now
		w.settleAll(w.settlers[0], 0)
	}
	if w.rng.IntN(10) < w.labels {
		w.label()
		return
	}
	randomOf(w.rng, w.clients...).act()
	w.finish()
}

// upTo returns a random time below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// randomSettler returns one of the settlers, with its store.
func (w *world) randomSettler() *settler {
	if len(w.settlers) == 1 {
		return w.settlers[0]
	}
	return randomOf(w.rng, w.settlers...)
}

// log records a line, if verbose.
func (w *world) log(format string, args ...any) {
	if w.verbose {
		w.lines = append(w.lines, fmt.Sprintf("%v ", w.now.Sub(epoch()))+fmt.Sprintf(format, args...))
	}
}

// startFlight starts a flight that takes less than longest.
func (w *world) startFlight(s stage, longest time.Duration) {
	w.flights = append(w.flights, flight{s, w.now.Add(w.upTo(longest))})
}

// advance moves a random flight on by one stage.
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

// advanceTime lets time pass, and ends the flights whose time has come.
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

// end finishes all flights, and lets the settlers write all pending counts.
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

// drain removes the oldest settler after it has written all pending counts.
func (w *world) drain() {
	oldest := w.settlers[0]
	w.settlers = w.settlers[1:]
	for range 20 {
		if w.settleAll(oldest, math.MaxInt64) == 0 {
			return
		}
		w.advanceTime(time.Second)
	}
	w.t.Error("writes are still pending after 20 rounds of claims")
}

// recreateDeleted lets a client report each deleted Event until it is stored again.
func (w *world) recreateDeleted() {
	for _, e := range w.lost {
		for range 4 {
			w.clients[0].report(e.kind)
			w.finish()
			w.settleAll(w.settlers[0], time.Hour) // orphaned counts, which wait for the next Event of their key, are due later than that
		}
	}
}
