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

// prefix is the prefix of keys in Redis.
const prefix = "eventquota:"

// ampleTokens is the factor by which the bursts of a world with ample buckets are multiplied.
const ampleTokens = 20

// world is a simulated cluster: recorders, an API server, replicas of the webhook, Redis and settlers. Replicas and settlers
// are the real code. One goroutine drives all others.
type world struct {
	mix          *Mix
	rng          *rand.Rand // for choices other than those of the schedule
	began        time.Time
	ops          *operations
	redis        *luaredis.Server
	clockOffset  time.Duration // offset of the clock of Redis
	redisCopy    *luaredis.Copy
	api          *api
	policies     *policy.Current
	limits       store.Limits
	onForward    func(*operation) // called before each operation that runUntil forwards
	replicas     []*replica
	eventClients []*eventClient
	leaders      []*leader
	terms        int

	mu            sync.Mutex
	names         map[store.Key]string // names of registers and buckets
	encoded       map[string]string    // the same by the text of the key in Redis
	aliases       map[string]string    // aliases of notices, whose names are random
	notes         []string             // effects of the current step
	violations    []Violation
	nameCounts    map[groupName]*nameCount
	buckets       map[store.Key]store.Bucket // the quotas
	spamGroups    map[store.Key]store.Key    // the groups of spam filters
	tokensTaken   map[store.Key]int64        // tokens of quotas that were taken
	calls         map[*decision]struct{}     // decisions in flight
	creates       uint64
	unreported    int64
	unconfirmed   int64 // occurrences that a replica may report again if Redis has lost data
	uncertain     int64 // the part of unreported that Redis may still have
	givenUp       int64
	skips         bool              // recorders skip counts
	ample         bool              // buckets have more tokens than needed, so that the check of tokens finds excess takes
	skipped       int64             // counts that a quota may have refused, as far as a store knows
	lostEvents    int64             // counts of Events that were admitted, and then deleted or refused by another webhook
	local         map[store.Key]int // decisions without the store, by group
	overwritten   string            // the register that was overwritten
	denied        int
	longOutages   int  // number of long outages
	faultsStopped bool // all faults have ended
	faultsUsed    int  // number of limited faults
}

func newWorld(mix *Mix, seed uint64, engine *luaredis.Engine) *world {
	w := &world{
		mix: mix, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), ops: newOperations(seed),
		names: map[store.Key]string{}, encoded: map[string]string{}, aliases: map[string]string{}, nameCounts: map[groupName]*nameCount{},
		buckets: map[store.Key]store.Bucket{}, tokensTaken: map[store.Key]int64{}, calls: map[*decision]struct{}{}, local: map[store.Key]int{},
		spamGroups: map[store.Key]store.Key{},
	}
	w.redis = luaredis.NewServer(engine, func() time.Time { return time.Now().Add(w.clockOffset) })
	w.redis.Cluster = true
	w.api = &api{world: w, events: map[string]*storedEvent{}, notFound: map[string]bool{}}
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

// note records an effect of the current step for the trace.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// takeNotes returns and clears the notes of a step, in an order that does not depend on the order of goroutines.
func (w *world) takeNotes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	notes := w.notes
	w.notes = nil
	slices.Sort(notes)
	return notes
}

// reportViolation records that an invariant is broken.
func (w *world) reportViolation(k Kind, format string, args ...any) {
	v := Violation{k, fmt.Sprintf(format, args...)}
	w.note("BROKEN: %s: %s", v.Kind, v.Detail)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, v)
}

// since returns the time since the start of the schedule.
func (w *world) since() time.Duration { return time.Since(w.began) }

// alias returns the name of an Event in traces.
func (w *world) alias(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if alias := w.aliases[name]; alias != "" {
		return alias
	}
	return name
}

// nameNotice sets the alias of a notice, because its name is random. The alias depends on the object of the notice.
func (w *world) nameNotice(name string, about string, first time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aliases[name] != "" {
		return
	}
	base := fmt.Sprintf("notice about %s since %v", about, first.Sub(w.began).Round(time.Second))
	alias := base
	for n := 2; slices.ContainsFunc(values(w.aliases), func(other string) bool { return other == alias }); n++ {
		alias = fmt.Sprintf("%s (%d)", base, n)
	}
	w.aliases[name] = alias
}

func values(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// groupName is the name of an Event in a group. Two users may use the same name.
type groupName struct {
	group store.Key
	name  string
}

// nameCount has the highest count that was sent under a name, and the highest of those that were not denied.
type nameCount struct {
	namespace, reason    string
	requested, notDenied int64
}

// recordCount records that a count was sent under a name.
func (w *world) recordCount(write *store.Write, denied bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := groupName{write.GroupKey, write.Name}
	b := w.nameCounts[key]
	if b == nil {
		b = &nameCount{namespace: write.Namespace, reason: write.Reason}
		w.nameCounts[key] = b
	}
	if strings.HasPrefix(write.Name, readerPrefix) { // each write is an occurrence of its own
		b.requested++
		if !denied {
			b.notDenied++
		}
		return
	}
	b.requested = max(b.requested, write.Count)
	if !denied {
		b.notDenied = max(b.notDenied, write.Count)
	}
}

// countUnreported counts dropped occurrences that a replica could not report to Redis.
func (w *world) countUnreported(r *replica, register store.Key, d *engine.Drops) {
	w.note("%s could not report %d drops to %s", r.name, d.Total, w.nameOf(register))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unreported += d.Total
	if r.unreachable() || !r.available() { // or the breaker is still open although Redis answers again
		w.uncertain += d.Total
	}
}

// nameOf returns the name of a register or bucket in traces.
func (w *world) nameOf(key store.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name := w.names[key]; name != "" {
		return name
	}
	return strings.ToLower(key.String()[:8])
}
