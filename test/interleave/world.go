package interleave

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/test/interleave/luaredis"
)

// prefix begins the keys of Redis.
const prefix = "eventquota:"

// ampleTokens is how many times as much it is that buckets have where they have plenty.
const ampleTokens = 20

// world is a simulated cluster: recorders, an API server, replicas of the webhook, Redis, and settlers, each the real code as
// far as there is such. One goroutine drives all others.
type world struct {
	mix          *Mix
	rng          *rand.Rand // of what belongs to the world and not to the schedule
	began        time.Time
	ops          *operations
	redis        *luaredis.Server
	jumped       time.Duration // the clock of Redis
	copied       *luaredis.Copy
	api          *api
	policies     *policy.Current
	limits       store.Limits
	onForward    func(*operation) // is told of what goes on at the end
	replicas     []*replica
	eventClients []*eventClient
	leaders      []*leader
	terms        int

	mu            sync.Mutex
	names         map[store.Key]string // of what has a key
	encoded       map[string]string    // by the key's text in Redis
	aliases       map[string]string    // of notices, whose names are random
	notes         []string             // of the step under way
	violations    []Violation
	nameCounts    map[account]*nameCount
	buckets       map[store.Key]store.Bucket // the quotas
	spams         map[store.Key]store.Key    // the groups of spam filters
	paid          map[store.Key]int64        // tokens of quotas that were taken
	calls         map[*decision]struct{}     // decisions under way
	creates       uint64
	unreported    int64
	unconfirmed   int64 // occurrences that a replica may report again, where Redis has lost what it said
	uncertain     int64 // of unreported: Redis may have it all the same
	givenUp       int64
	skips         bool              // recorders skip counts
	ample         bool              // buckets have more tokens than are needed, so that it shows if too many are taken
	skipped       int64             // counts that may have been refused by a quota, for all that is known
	lostEvents    int64             // counts of Events that were admitted and then refused by others, or deleted
	local         map[store.Key]int // decisions without the store, by group
	overwritten   string            // the register that was overwritten
	denied        int
	longs         int  // long outages
	faultsStopped bool // there are no faults any more
	spent         int  // faults of which there are few
}

func newWorld(mix *Mix, seed uint64, engine *luaredis.Engine) *world {
	w := &world{
		mix: mix, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), ops: newOperations(seed),
		names: map[store.Key]string{}, encoded: map[string]string{}, aliases: map[string]string{}, nameCounts: map[account]*nameCount{},
		buckets: map[store.Key]store.Bucket{}, paid: map[store.Key]int64{}, calls: map[*decision]struct{}{}, local: map[store.Key]int{},
		spams: map[store.Key]store.Key{},
	}
	w.redis = luaredis.NewServer(engine, func() time.Time { return time.Now().Add(w.jumped) })
	w.redis.Cluster = true
	w.api = &api{world: w, events: map[string]*storedEvent{}, missed: map[string]bool{}}
	w.policies = policy.NewCurrent(policy.NewSet(policy.Default(), policy.Rules{}, nil))
	w.limits, w.skips = mix.limits(w.rng), w.rng.IntN(2) == 0
	if w.ample = w.rng.IntN(2) == 0; w.ample {
		w.limits.SpamFilter.Burst *= ampleTokens
	}
	for i := range mix.Clients {
		w.eventClients = append(w.eventClients, newEventClient(w, i+1, seed))
	}
	return w
}

// note notes what comes of the step under way.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// sortedNotes are the notes of a step, in an order that does not depend on that of goroutines.
func (w *world) sortedNotes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	notes := w.notes
	w.notes = nil
	slices.Sort(notes)
	return notes
}

// violated notes that something does not hold.
func (w *world) violated(k Kind, format string, args ...any) {
	v := Violation{k, fmt.Sprintf(format, args...)}
	w.note("BROKEN: %s: %s", v.Kind, v.Says)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, v)
}

// since is the time since the beginning.
func (w *world) since() time.Duration { return time.Since(w.began) }

// alias is the name of an Event in schedules.
func (w *world) alias(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if alias := w.aliases[name]; alias != "" {
		return alias
	}
	return name
}

// noticed gives a notice an alias by what it is about, as its name is a random one.
func (w *world) noticed(name string, about string, first time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aliases[name] != "" {
		return
	}
	base := fmt.Sprintf("notice about %s since %v", about, first.Sub(w.began).Round(time.Second))
	alias := base
	for n := 2; slices.ContainsFunc(valuesOf(w.aliases), func(other string) bool { return other == alias }); n++ {
		alias = fmt.Sprintf("%s (%d)", base, n)
	}
	w.aliases[name] = alias
}

func valuesOf(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// account is whose name it is: two users may use the same.
type account struct {
	group store.Key
	name  string
}

// nameCount is what came under one name: the highest count that a store was asked about, and the highest of those that were not
// denied.
type nameCount struct {
	namespace, reason string
	asked, reached    int64
}

// noteCount notes that a count came under a name.
func (w *world) noteCount(write *store.Write, denied bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := account{write.GroupKey, write.Name}
	b := w.nameCounts[key]
	if b == nil {
		b = &nameCount{namespace: write.Namespace, reason: write.Reason}
		w.nameCounts[key] = b
	}
	b.asked = max(b.asked, write.Count)
	if !denied {
		b.reached = max(b.reached, write.Count)
	}
}

// spilled takes what a replica could not report.
func (w *world) spilled(r *replica, register store.Key, d *engine.Drops) {
	w.note("%s could not report %d drops to %s", r.name, d.Total, w.nameOf(register))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unreported += d.Total
	if r.unreachable() || !r.available() { // or it does not know yet that Redis answers again
		w.uncertain += d.Total
	}
}

func (w *world) nameOf(key store.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name := w.names[key]; name != "" {
		return name
	}
	return strings.ToLower(key.String()[:8])
}
