package redis

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

const (
	// emptyFor is how long a quota is taken for empty before it is asked again, as others may give tokens back.
	emptyFor = 200 * time.Millisecond
	// maxQuotas is the number of quotas whose levels a replica remembers.
	maxQuotas = 1 << 16
)

// quotas are the token buckets that many groups share, as this replica sees them.
type quotas struct {
	store *Store

	mu  sync.Mutex
	all *store.Table[*quota]
}

// quota is one of them. Calls that come while a trip is under way take their tokens together in the next one.
type quota struct {
	key     store.Key
	level   rules.Level
	clock   clock
	asked   time.Time // when Redis last answered
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

func newQuotas(s *Store) *quotas { return &quotas{store: s, all: store.NewTable[*quota](maxQuotas)} }

// of finds or makes a quota for a namespace. The caller holds the lock.
func (qs *quotas) of(namespace string, key store.Key) *quota {
	e := qs.all.Get(key)
	if e == nil {
		e = qs.all.Add(key, namespace, &quota{key: key})
	}
	qs.all.Set(e, 1, false)
	qs.all.Shrink(0)
	return e.Value
}

// taken is what a write has taken of its quotas: a token of each, or none.
type taken struct {
	quotas    *quotas
	namespace string
	limits    *store.Limits
	grants    []rules.Grant // as if all were empty, before they are asked
	asked     bool          // every quota was asked
	trips     bool          // Redis was asked for any of them
	at        time.Time
}

// ask takes a token from each quota, all at the same time. A token that comes after ctx is done is lost.
func (t *taken) ask(ctx context.Context) error {
	t.asked = true
	calls := make([]*tokenCall, len(t.grants))
	for i := range calls {
		calls[i] = t.quotas.take(ctx, t.namespace, &t.limits.Quotas[i])
	}
	for i, c := range calls {
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

// empty reports whether a quota that was asked had no token.
func (t *taken) empty() bool {
	return t.asked && slices.ContainsFunc(t.grants, func(g rules.Grant) bool { return !g.OK })
}

// pays reports whether a decision takes a token from each quota.
func pays(d store.Decision) bool { return d.Verdict.Admits() && !d.Paid }

// allOK are the grants of quotas that all have tokens.
func allOK(l *store.Limits) []rules.Grant {
	return slices.Repeat([]rules.Grant{{OK: true}}, len(l.Quotas))
}

// giveBack gives back the tokens that were taken, each for less by the time that it was out.
func (t *taken) giveBack() {
	out := max(0, t.quotas.store.opts.Now().Sub(t.at))
	for i := range t.limits.Quotas {
		b := &t.limits.Quotas[i]
		one, _ := rules.Cost(b.Limit)
		back := time.Duration(one)*time.Microsecond - out
		if !t.grants[i].OK || back <= 0 {
			continue // there is none, or it has come back by itself
		}
		t.quotas.mu.Lock()
		q := t.quotas.of(t.namespace, b.Key)
		q.back += back
		t.quotas.wake(context.Background(), q)
		t.quotas.mu.Unlock()
	}
}

// take asks a quota for a token. One that is known to be empty is not asked.
func (qs *quotas) take(ctx context.Context, namespace string, b *store.Bucket) *tokenCall {
	c := &tokenCall{limit: b.Limit, done: make(chan struct{})}
	if b.Burst <= 0 || b.Every <= 0 {
		_, c.grant = rules.Level{}.Take(b.Limit, time.Time{})
		close(c.done)
		return c
	}
	here := qs.store.opts.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of(namespace, b.Key)
	if here.Sub(q.asked) < emptyFor {
		if _, c.grant = q.level.Take(b.Limit, q.clock.now(here)); !c.grant.OK {
			close(c.done)
			return c
		}
	}
	c.trip, c.grant = true, rules.Grant{}
	q.waiting = append(q.waiting, c)
	qs.wake(context.WithoutCancel(ctx), q)
	return c
}

// wake begins to make trips to a quota, if none are under way. The caller holds the lock.
func (qs *quotas) wake(ctx context.Context, q *quota) {
	if !q.busy {
		q.busy = true
		go qs.serve(ctx, q)
	}
}

// serve makes trips to a quota until nobody waits.
func (qs *quotas) serve(ctx context.Context, q *quota) {
	for {
		qs.mu.Lock()
		calls, back := q.waiting, q.back
		q.waiting, q.back = nil, 0
		q.busy = len(calls) > 0 || back > 0
		qs.mu.Unlock()
		if len(calls) == 0 && back == 0 {
			return
		}
		qs.trip(ctx, q, calls, back)
	}
}

// trip takes tokens for calls, and gives some back.
func (qs *quotas) trip(ctx context.Context, q *quota, calls []*tokenCall, back time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, qs.store.opts.TripTimeout)
	defer cancel()
	one, capacity := int64(1), int64(0) // if something is only given back
	if len(calls) > 0 {
		one, capacity = rules.Cost(calls[0].limit)
	}
	// Those that must leave a reserve come first: they leave it to the others of the same trip.
	slices.SortStableFunc(calls, func(a, b *tokenCall) int { return cmp.Compare(b.limit.Reserve, a.limit.Reserve) })
	n, reserve := 0, int64(0)
	for n < len(calls) && calls[n].limit.Reserve > 0 {
		reserve = min(int64(calls[n].limit.Reserve)*one, capacity)
		n++
	}
	answer, err := script.Run(ctx, qs.store.client, []string{qs.store.quotaKey(q.key)},
		"quota", one, capacity, reserve, n, len(calls)-n, back.Microseconds())
	here := qs.store.opts.Now()
	var now, given, more, used, at int64
	if err == nil {
		err = scan(answer, &now, &given, &more, &used, &at)
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
		case i < n && int64(i) < given, i >= n && int64(i-n) < more:
			c.grant.OK = true
		default:
			_, c.grant = q.level.Take(c.limit, time.UnixMicro(now))
		}
		close(c.done)
	}
}

// each calls f for each quota of a write, under the lock, with the time at it.
func (qs *quotas) each(namespace string, l *store.Limits, f func(i int, q *quota, now time.Time)) {
	here := qs.store.opts.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for i := range l.Quotas {
		q := qs.of(namespace, l.Quotas[i].Key)
		f(i, q, q.clock.now(here))
	}
}
