package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

type quota struct {
	level rules.Level
	clock clock
	asked time.Time // when Redis last answered
}

// of finds or makes a quota for a namespace. The caller holds the lock.
func (qs *quotas) of(namespace string, key store.Key) *quota {
	e := qs.all.Get(key)
	if e == nil {
		e = qs.all.Add(key, namespace, &quota{})
	}
	qs.all.Set(e, 1, false)
	qs.all.Shrink(0)
	return e.Value
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

// trip takes n tokens of a quota, one at most, and gives some time back.
func (qs *quotas) trip(ctx context.Context, namespace string, b *store.Bucket, n int64, back time.Duration) (rules.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, qs.store.opts.StepTimeout)
	defer cancel()
	one, capacity := rules.Cost(b.Limit)
	answer, err := script.Run(ctx, qs.store.client, []string{qs.store.quotaKey(b.Key)},
		"quota", one, capacity, min(int64(b.Reserve)*one, capacity), n, back.Microseconds())
	var now, given, used, at int64
	if err == nil {
		err = scan(answer, &now, &given, &used, &at)
	}
	if err != nil {
		return rules.Grant{}, err
	}
	here := qs.store.opts.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.of(namespace, b.Key)
	q.level, q.asked = rules.Level{Used: used, At: at}, here
	q.clock.set(now, here)
	if given == n {
		return rules.Grant{OK: true}, nil
	}
	_, g := q.level.Take(b.Limit, time.UnixMicro(now))
	return g, nil
}

// taken is what a write has taken of its quotas: a token of each, or none.
type taken struct {
	quotas    *quotas
	namespace string
	limits    *store.Limits
	grants    []rules.Grant // as if all were empty, before they are asked
	asked     bool          // ask was called, or there is no quota
	trips     bool          // Redis was asked for any of them
	at        time.Time
}

// ask takes a token from each quota, all at the same time, up to one that is known to be empty: that refuses, unless one
// before it does. With an error, those that were taken stay so: they count for what is decided without Redis.
func (t *taken) ask(ctx context.Context) error {
	t.asked = true
	here := t.quotas.store.opts.Now()
	var trips errgroup.Group
	refused := false
	t.quotas.each(t.namespace, t.limits, func(i int, q *quota, now time.Time) {
		if refused {
			return
		}
		b := &t.limits.Quotas[i]
		_, known := q.level.Take(b.Limit, now)
		if b.Burst <= 0 || b.Every <= 0 || !known.OK && here.Sub(q.asked) < emptyFor {
			t.grants[i], refused = known, !known.OK
			return
		}
		t.trips = true
		trips.Go(func() (err error) {
			t.grants[i], err = t.quotas.trip(ctx, t.namespace, b, 1, 0)
			return err
		})
	})
	return trips.Wait()
}

// giveBack gives back the tokens that were taken, each for less by the time that it was out. One that is lost on the
// way stays lost.
func (t *taken) giveBack(ctx context.Context) {
	out := max(0, t.quotas.store.opts.Now().Sub(t.at))
	for i := range t.limits.Quotas {
		b := &t.limits.Quotas[i]
		one, _ := rules.Cost(b.Limit)
		if back := time.Duration(one)*time.Microsecond - out; t.grants[i].OK && back > 0 {
			_, _ = t.quotas.trip(ctx, t.namespace, b, 0, back)
		}
	}
}

// pays reports whether a decision takes a token from each quota.
func pays(d store.Decision) bool { return d.Verdict.Admits() && !d.Paid }

// allOK are the grants of quotas that all have tokens.
func allOK(l *store.Limits) []rules.Grant {
	return slices.Repeat([]rules.Grant{{OK: true}}, len(l.Quotas))
}
