package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// emptyFor is how long a quota is taken to be empty without asking again: others may give tokens
	// back.
	emptyFor = 200 * time.Millisecond
	// maxQuotas is how many levels a replica remembers.
	maxQuotas = 1 << 16
)

// quotas are the token buckets that many groups share, as this replica sees them.
type quotas struct {
	store *Store

	mu  sync.Mutex
	all *lru.Cache // store.Key to *quota
}

// quota is one of them. Calls that come while a trip is under way wait, and take their tokens together
// in the next.
type quota struct {
	key     store.Key
	level   rules.Level
	clock   clock
	asked   time.Time // when Redis answered last
	busy    bool
	waiting []*tokenCall
	back    time.Duration // to give back with the next trip
}

type tokenCall struct {
	limit store.Limit
	trip  bool // whether Redis is asked
	done  chan struct{}
	grant rules.Grant
	err   error
}

func newQuotas(s *Store) *quotas { return &quotas{store: s, all: lru.New(maxQuotas)} }

// of finds or makes a quota. The caller holds the lock.
func (qs *quotas) of(key store.Key) *quota {
	known, _ := qs.all.Get(key)
	q, ok := known.(*quota)
	if ok {
		return q
	}
	q = &quota{key: key}
	qs.all.Add(key, q)
	return q
}

// taken are the tokens that a write has taken.
type taken struct {
	quotas *quotas
	limits *store.Limits
	grants []rules.Grant
	asked  []bool // which quotas were
	trips  bool   // whether Redis was asked for any
	at     time.Time
}

// taken are no tokens yet.
func (qs *quotas) taken(l *store.Limits) *taken {
	n := len(l.Quotas)
	return &taken{quotas: qs, limits: l, at: qs.store.opts.Now(), grants: make([]rules.Grant, n), asked: make([]bool, n)}
}

// ask takes a token from each quota that a decision charges and that was not asked yet. All are asked at
// the same time. A token that comes when ctx is done is lost.
func (t *taken) ask(ctx context.Context, w *store.Write, d store.Decision) error {
	calls := make([]*tokenCall, len(t.asked))
	for i := range calls {
		if !t.asked[i] && !d.Paid && d.Verdict.Admits() {
			t.asked[i] = true
			calls[i] = t.quotas.take(ctx, &t.limits.Quotas[i])
		}
	}
	for i, c := range calls {
		if c == nil {
			continue
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.err != nil {
			return c.err
		}
		t.grants[i], t.trips = c.grant, t.trips || c.trip
	}
	return nil
}

// allGranted reports whether every quota that was asked has given a token.
func (t *taken) allGranted() bool {
	for i, g := range t.grants {
		if t.asked[i] && !g.OK {
			return false
		}
	}
	return true
}

// short reports whether a write needs tokens of g that were not asked for: others have changed g since
// its copy was looked at.
func (c *call) short(g *rules.Group, now time.Time) bool {
	if !slices.Contains(c.taken.asked, false) {
		return false
	}
	grants := slices.Clone(c.taken.grants)
	for i, asked := range c.taken.asked {
		grants[i].OK = grants[i].OK || !asked
	}
	d, _ := g.Clone().Decide(now, store.Key{}, c.write, c.limits, grants)
	for i, asked := range c.taken.asked {
		if !asked && !d.Paid && d.Verdict.Admits() {
			return true
		}
	}
	return false
}

// giveBack gives back the tokens that were not used.
func (t *taken) giveBack(used func(i int) bool) {
	now := t.quotas.store.opts.Now()
	for i, g := range t.grants {
		if g.OK && (used == nil || !used(i)) {
			t.quotas.giveBack(&t.limits.Quotas[i], max(0, now.Sub(t.at)))
		}
	}
}

func granted(g rules.Grant) *tokenCall {
	c := &tokenCall{done: make(chan struct{}), grant: g}
	close(c.done)
	return c
}

// take asks a quota for a token. One that is known to be empty is not asked.
func (qs *quotas) take(ctx context.Context, b *store.Bucket) *tokenCall {
	if b.Burst <= 0 || b.Every <= 0 {
		_, g := rules.Level{}.Take(b.Limit, time.Time{})
		return granted(g)
	}
	here := qs.store.opts.Now()
	qs.mu.Lock()
	q := qs.of(b.Key)
	if here.Sub(q.asked) < emptyFor {
		if _, g := q.level.Take(b.Limit, q.clock.now(here)); !g.OK {
			qs.mu.Unlock()
			return granted(g)
		}
	}
	c := &tokenCall{limit: b.Limit, trip: true, done: make(chan struct{})}
	q.waiting = append(q.waiting, c)
	first := !q.busy
	q.busy = true
	qs.mu.Unlock()
	if first {
		go qs.serve(context.WithoutCancel(ctx), q)
	}
	return c
}

// giveBack gives a token back that was out for a time.
func (qs *quotas) giveBack(b *store.Bucket, out time.Duration) {
	one, capacity := rules.Cost(b.Limit)
	back := time.Duration(one)*time.Microsecond - out
	if back <= 0 || capacity == 0 {
		return // it has come back by itself, or there is none
	}
	qs.mu.Lock()
	q := qs.of(b.Key)
	q.back += back
	first := !q.busy
	q.busy = true
	qs.mu.Unlock()
	if first {
		go qs.serve(context.Background(), q)
	}
}

// serve makes trips to a quota until nobody waits.
func (qs *quotas) serve(ctx context.Context, q *quota) {
	for {
		qs.mu.Lock()
		calls, back := q.waiting, q.back
		q.waiting, q.back = nil, 0
		if len(calls) == 0 && back == 0 {
			q.busy = false
			qs.mu.Unlock()
			return
		}
		qs.mu.Unlock()
		qs.trip(ctx, q, calls, back)
	}
}

// trip takes tokens for calls, and gives back.
func (qs *quotas) trip(ctx context.Context, q *quota, calls []*tokenCall, back time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, qs.store.tripTimeout)
	defer cancel()
	limit := store.Limit{Burst: 1, Every: longestEvery}
	if len(calls) > 0 {
		limit = calls[0].limit
	}
	one, capacity := rules.Cost(limit)
	answer, err := script.Run(ctx, qs.store.client, []string{qs.store.quotaKey(q.key)}, "quota", one, capacity, len(calls), back.Microseconds())
	here := qs.store.opts.Now()
	var now, given, used, at int64
	for i, v := range []*int64{&now, &given, &used, &at} {
		if err == nil {
			*v, err = integer(answer, i)
		}
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if err == nil {
		q.level, q.asked = rules.Level{Used: used, At: at}, here
		q.clock.set(now, here)
	}
	for i, c := range calls {
		switch {
		case err != nil:
			c.err = err
		case int64(i) < given:
			c.grant.OK = true
		default:
			_, c.grant = q.level.Take(c.limit, time.UnixMicro(now))
		}
		close(c.done)
	}
}

// longestEvery stands for the limit of a quota to which something is only given back.
const longestEvery = time.Hour

// local is what quotas grant by what this replica knows, while Redis is unavailable.
func (qs *quotas) local(l *store.Limits) []rules.Grant {
	here := qs.store.opts.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	grants := make([]rules.Grant, len(l.Quotas))
	for i := range l.Quotas {
		q := qs.of(l.Quotas[i].Key)
		_, grants[i] = q.level.Take(l.Quotas[i].Limit, q.clock.now(here))
	}
	return grants
}

// chargeLocally takes the tokens of a verdict.
func (qs *quotas) chargeLocally(w *store.Write, l *store.Limits, v store.Verdict) {
	here := qs.store.opts.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for i := range l.Quotas {
		if v.Admits() {
			q := qs.of(l.Quotas[i].Key)
			q.level = q.level.Force(l.Quotas[i].Limit, q.clock.now(here))
		}
	}
}
