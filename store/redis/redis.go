// Package redis is the store that many replicas share. Redis keeps the state and decides only whether a quota has a
// token: store/rules applies a step to a copy, and a script sets the result unless somebody else has changed
// the register meanwhile. The store is as durable as Redis: what Redis acknowledged but had not written
// to disk or to a replica when its server died is lost.
//
// Everything about one user's Events from one source about one object is one register under one key,
// which expires when nothing in it matters any more. What is pending is kept for at least a day.
// Registers are spread over 128 hash tags, each with an index of what is due.
package redis

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
)

//go:embed step.lua
var source string

var script = redisclient.NewScript(source) //nolint:gochecknoglobals // as good as a constant

// DefaultPrefix is a Prefix for a Redis that is shared with nobody.
const DefaultPrefix = "eventquota:"

// shards is the number of hash tags. It must not change, or what is stored would not be found.
const shards = 128

// Options are the settings of a Store.
type Options struct {
	// Prefix begins the name of each key.
	Prefix string
	// Unsettled says that nobody settles what is stored, so that nothing is kept pending.
	Unsettled bool
	// Unreported takes what this replica could not report to Redis before it stopped, within the longest
	// wait, or because the namespace has too many reports. Nil drops it.
	Unreported func(now time.Time, namespace string, register store.Key, d *rules.Drops)
	// Reported is called for each decision that becomes a report, and Waiting with the number
	// of registers of which something was decided that Redis does not surely know. They must not block, and may be nil.
	Reported func()
	Waiting  func(n int)
	// StepTimeout is how long Redis may take to answer, and a call whose caller sets no deadline. Less is 200 ms.
	StepTimeout time.Duration
	// Now is the clock of this process. Nil for the real one.
	Now func() time.Time
}

// Store is a store.Store and store.Queue in Redis. Make one with New and call Run once.
type Store struct {
	client redisclient.Caller
	opts   Options
	steps  *store.Steps
	// prefixes are those of the keys of each shard, and dues the keys of its index.
	prefixes, dues [shards]string

	clocks [shards]clock
	looked [shards]atomic.Int64 // where in each index the next claim begins
	turns  rules.Turns
	lines  *lines
	quotas *quotas
	log    *reports
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New makes a store that keeps its state in the Redis of client.
func New(client redisclient.Caller, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reported == nil {
		o.Reported = func() {}
	}
	if o.Waiting == nil {
		o.Waiting = func(int) {}
	}
	if o.Unreported == nil {
		o.Unreported = func(time.Time, string, store.Key, *rules.Drops) {}
	}
	o.StepTimeout = max(o.StepTimeout, 200*time.Millisecond)
	s := &Store{client: client, opts: o, steps: store.NewSteps()}
	for i := range shards {
		s.prefixes[i] = o.Prefix + "{" + hex.EncodeToString([]byte{byte(i)}) + "}:"
		s.dues[i] = s.prefixes[i] + "due"
	}
	s.lines = newLines(linesBytes)
	s.quotas = &quotas{store: s, all: store.NewTable[*quota](maxQuotas)}
	s.log = newReports(maxReports)
	return s
}

func shard(group store.Key) int { return int(group[0] % shards) }

func (s *Store) groupKey(group store.Key) string {
	return s.prefixes[shard(group)] + base64.RawURLEncoding.EncodeToString(group[:])
}

func (s *Store) quotaKey(quota store.Key) string {
	return s.opts.Prefix + "quota:" + base64.RawURLEncoding.EncodeToString(quota[:])
}

// now is the time at a group's shard.
func (s *Store) now(group store.Key) time.Time { return s.clocks[shard(group)].now(s.opts.Now()) }

// Decide implements store.Store. It ignores the caller's time, as the clock is that of Redis. It makes a trip for
// each quota, all at the same time, and one for the group, and none for what it knows to be refused. A
// decision that comes with store.ErrUnconfirmed stands.
func (s *Store) Decide(ctx context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	t := &taken{
		quotas: s.quotas, namespace: w.Namespace, limits: &l, at: s.opts.Now(),
		grants: make([]rules.Grant, len(l.Quotas)), asked: len(l.Quotas) == 0,
	}
	d, err := s.decide(ctx, &w, &l, t)
	failed := err != nil && !errors.Is(err, store.ErrUnconfirmed)
	if failed {
		return store.Decision{}, fmt.Errorf("step of a group: %w", err)
	}
	if !pays(d) {
		t.giveBack(ctx)
	}
	s.reportQuotaDrop(&w, &l, d)
	return d, err
}

// decide makes the trips for a write that the copy of its group does not refuse.
func (s *Store) decide(ctx context.Context, w *store.Write, l *store.Limits, t *taken) (store.Decision, error) {
	g := s.guess(w, l, allOK(l))
	if g.known && g.Verdict == store.Drop && !l.ChargeMerged {
		// The group's own bucket is empty, and can only have become emptier since the copy was made. The
		// decision becomes a report.
		s.report(w, l, g.Decision, g.at)
		g.Unasked = true
		return g.Decision, nil
	}
	if !t.asked && pays(g.Decision) {
		if err := t.ask(ctx); err != nil {
			return store.Decision{}, err
		}
	}
	if t.asked && slices.ContainsFunc(t.grants, func(g rules.Grant) bool { return !g.OK }) {
		g = s.guess(w, l, t.grants)
		if g.Verdict == store.Drop && !g.changed { // there is nothing to tell the group
			g.Unasked = !t.trips
			return g.Decision, nil
		}
	}
	c := &call{namespace: w.Namespace, Op: rules.Op{Write: *w, Limits: l}, taken: t}
	d, err := s.do(ctx, w.Group, c)
	if err != nil || !c.lacking {
		return d, err
	}
	if err := t.ask(ctx); err != nil {
		return store.Decision{}, err
	}
	return s.do(ctx, w.Group, c)
}

// guess is what would become of a write, and whether that would change its group.
type guess struct {
	store.Decision
	changed bool
	known   bool // by a copy of the group; as its first if there is none
	at      time.Time
}

// guess decides a write by the copy of its group, which it does not change.
func (s *Store) guess(w *store.Write, l *store.Limits, grants []rules.Grant) guess {
	r := guess{at: s.now(w.Group)}
	decide := func(g *rules.Group) {
		r.Decision, r.changed = g.Clone().Decide(r.at, store.Key{}, *w, l, grants)
	}
	r.known = s.lines.look(w.Group, r.at, decide)
	if !r.known {
		decide(&rules.Group{})
	}
	return r
}

// reportQuotaDrop reports what a quota has refused to the notice of that quota.
func (s *Store) reportQuotaDrop(w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict != store.Drop || d.Empty == &l.Spam || d.Occurrences <= 0 || d.Empty.Silent {
		return
	}
	drops := rules.Dropped(s.opts.Now(), *w, l, d.Empty, d.Occurrences)
	s.log.change(s.opts.Now(), w.Namespace, rules.NoticeKey(d.Empty), func(r *report) { r.drops.Merge(&drops) })
	s.opts.Reported()
}

// DecideLocally decides a write while Redis is unavailable, by what this replica knows of its group and
// quotas. The decision becomes a report.
func (s *Store) DecideLocally(w store.Write, l store.Limits) store.Decision {
	grants := make([]rules.Grant, len(l.Quotas))
	s.quotas.each(w.Namespace, &l, func(i int, q *quota, now time.Time) { _, grants[i] = q.level.Take(l.Quotas[i].Limit, now) })
	now := s.now(w.Group)
	var d store.Decision
	fresh := s.steps.Next()
	s.locally(w.Namespace, w.Group, now, fresh, func(g *rules.Group) {
		var changed bool
		if d, changed = g.Decide(now, fresh, w, &l, grants); changed {
			s.report(&w, &l, d, now)
		}
	})
	if pays(d) {
		s.quotas.each(w.Namespace, &l, func(i int, q *quota, now time.Time) { q.level = q.level.Force(l.Quotas[i].Limit, now) })
	}
	s.reportQuotaDrop(&w, &l, d)
	return d
}

// report makes a decision a report to its group.
func (s *Store) report(w *store.Write, l *store.Limits, d store.Decision, at time.Time) {
	s.log.add(s.opts.Now(), w.Group, rules.Op{Write: *w, Limits: l, Decision: d, At: at})
	s.opts.Reported()
}

// clock is the clock of one shard of Redis: the TIME in its last answer and what has passed since by the monotonic
// clock of this process. It lags by the time that the answer took to come. Before the first answer it is the clock of
// this process, which a step that is too early or too late corrects. Times of different shards are never compared.
type clock struct {
	mu   sync.Mutex
	at   int64     // microseconds of Unix time
	seen time.Time // when that answer came; zero for none yet
}

// now is the time of the shard, given the time of this process.
func (c *clock) now(here time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() {
		return here.Truncate(time.Microsecond)
	}
	return time.UnixMicro(c.at).Add(here.Sub(c.seen)).Truncate(time.Microsecond).UTC()
}

// set takes the time of an answer.
func (c *clock) set(at int64, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.seen = at, here
}

// version names one step of one process, see store.Steps: it is never used twice, so an old copy never matches, not
// even after a failover. A register that does not exist has the zero value.
type version = store.Key

// writer is the process of a step, and number its number.
func writer(v version) [8]byte { return [8]byte(v[:8]) }

func number(v version) uint64 { return binary.BigEndian.Uint64(v[8:]) }

const (
	writersFor = int64(time.Hour / time.Second) // how long a process is remembered
	maxWriters = 32
)

// register is one value of Redis.
type register struct {
	version version
	group   *rules.Group
}

// last is the number of the last step of a process that the register has taken; 0 for none.
func (r *register) last(of [8]byte) uint64 {
	for _, seen := range append([]rules.Seen{{Step: r.version}}, r.group.Seen...) {
		if writer(seen.Step) == of {
			return number(seen.Step)
		}
	}
	return 0
}

// seen are the steps that the register still remembers once v is its version.
func (r *register) seen(v version, now int64) []rules.Seen {
	all := append([]rules.Seen{{Step: r.version, At: now}}, r.group.Seen...)
	all = slices.DeleteFunc(all, func(one rules.Seen) bool {
		return one.Step.IsZero() || writer(one.Step) == writer(v) || now-one.At >= writersFor
	})
	return all[:min(len(all), maxWriters)]
}

// decode reads a value; an empty one is a register that does not exist.
func decode(value string) (register, error) {
	const mark, reservation = 16, 8 + 16
	if value == "" {
		return register{group: &rules.Group{}}, nil
	}
	start := mark + 1
	if len(value) > mark && value[mark] == 'R' {
		start += reservation
	}
	if len(value) <= start {
		return register{}, fmt.Errorf("register of %d bytes: %w", len(value), rules.ErrFormat)
	}
	group, err := rules.Unmarshal([]byte(value[start:]))
	return register{version: version([]byte(value[:mark])), group: group}, err
}

var errAnswer = errors.New("script of Redis answers what it never does")

// scan reads the first values of an answer.
func scan(answer []any, into ...any) error {
	if len(answer) < len(into) {
		return errAnswer
	}
	for i, to := range into {
		ok := false
		switch to := to.(type) {
		case *int64:
			*to, ok = answer[i].(int64)
		case *string:
			*to, ok = answer[i].(string)
		case *[]any:
			*to, ok = answer[i].([]any)
		}
		if !ok {
			return errAnswer
		}
	}
	return nil
}
