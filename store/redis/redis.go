// Package redis is the store that many replicas share. Redis keeps state and decides nothing: a step
// is made by store/rules on a copy, and a script sets the result if nobody else has changed the
// register meanwhile. It is as safe as Redis is: what Redis had acknowledged and then lost, because it
// had not been written to disk or to a replica when a server died, is lost.
//
// All of a user's Events from one source about one object is one register under one key, which expires
// when nothing in it matters any more. What is pending is kept for a day at least. Registers are spread
// over 128 hash tags, each with an index of what is due.
package redis

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// DefaultPrefix is a Prefix for a Redis that is shared with nobody.
const DefaultPrefix = "eventquota:"

// shards is how many hash tags are in use. It must not change: what is stored would not be found.
const shards = 128

// Options are the settings of a Store.
type Options struct {
	// Prefix begins the name of each key.
	Prefix string
	// Unsettled says that nobody settles what is stored: nothing is pending.
	Unsettled bool
	// Unreported takes what this replica could not report to Redis: when it stops, or when reports
	// have waited too long or are too many. Nil drops it.
	Unreported Sink
	// Reported counts the decisions in reports that Redis took, and Waiting is for how many registers
	// reports wait.
	// They must not block. Nil for nobody.
	Reported, Waiting func(n int)
	// Lost counts occurrences in reports that there was no place for. It must not block. Nil for nobody.
	Lost func(occurrences int64)
	// Now is the clock of this process. Nil for the real one.
	Now func() time.Time
}

// Sink takes drops to report in a notice of a register. store/memory's Store is one.
type Sink interface {
	ReportDrops(now time.Time, register store.Key, d *rules.Drops) error
}

// Store is a store.Store and store.Queue in Redis. Make one with New and call Run once.
type Store struct {
	client Client
	opts   Options

	tripTimeout time.Duration

	writer [8]byte // the random id of this process
	number atomic.Uint64
	// names begin the names of the keys of each hash slot, and dues are those of its index.
	names, dues [shards]string

	clocks [shards]clock
	looked [shards]atomic.Int64 // how far claims have come in an index
	turns  rules.Turns
	lines  []*lines
	quotas *quotas
	log    *reports
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New makes a store of what is in the Redis of client.
func New(client Client, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reported == nil {
		o.Reported = func(int) {}
	}
	if o.Waiting == nil {
		o.Waiting = func(int) {}
	}
	if o.Lost == nil {
		o.Lost = func(int64) {}
	}
	s := &Store{client: client, opts: o, tripTimeout: defaultTripTimeout}
	_, _ = rand.Read(s.writer[:]) // never fails
	for i := range shards {
		s.names[i] = o.Prefix + "{" + hex.EncodeToString([]byte{byte(i)}) + "}:"
		s.dues[i] = s.names[i] + "due"
	}
	s.lines = newLines()
	s.quotas = newQuotas(s)
	s.log = newReports()
	return s
}

// fresh is a version that no step has had, and its number.
func (s *Store) fresh() (version, uint64) {
	number := s.number.Add(1)
	return newVersion(s.writer, number), number
}

func shard(group store.Key) int { return int(group[0] % shards) }

func (s *Store) groupKey(group store.Key) string {
	return s.names[shard(group)] + base64.RawURLEncoding.EncodeToString(group[:])
}

func (s *Store) quotaKey(quota store.Key) string {
	return s.opts.Prefix + "quota:" + base64.RawURLEncoding.EncodeToString(quota[:])
}

// now is the time of a group's shard.
func (s *Store) now(group store.Key) time.Time { return s.clocks[shard(group)].now(s.opts.Now()) }

// Decide implements store.Store; the time that the caller gives is not used, as the clock is that of
// Redis. It takes a trip for the tokens of quotas and one for the group, and none for what is known to
// be refused. With store.ErrUnconfirmed the decision stands.
func (s *Store) Decide(ctx context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	if d, refused := s.refused(&w, &l); refused {
		return d, nil
	}
	t := s.quotas.taken(&l)
	err := t.ask(ctx, &w, s.predict(&w, &l))
	if err != nil {
		t.giveBack(nil)
		return store.Decision{}, err
	}
	if d, refused := s.refusedByQuota(&w, &l, t); refused {
		t.giveBack(nil)
		return d, nil
	}
	c := &call{write: w, limits: &l, taken: t}
	d, err := s.linesOf(w.Group).do(ctx, s, w.Group, c)
	if err == nil && c.lacking {
		c = &call{write: w, limits: &l, taken: t}
		if err = t.ask(ctx, &w, store.Decision{Verdict: store.Admit}); err == nil {
			d, err = s.linesOf(w.Group).do(ctx, s, w.Group, c)
		}
	}
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		t.giveBack(nil)
		return store.Decision{}, fmt.Errorf("step of a group: %w", err)
	}
	t.giveBack(func(i int) bool { return !d.Paid && l.Charges(&w, d.Verdict, i) })
	s.reportQuotaDrop(&w, &l, d)
	return d, err
}

// refused decides a CREATE without a trip where the group's own spam bucket is known to be empty. What
// is in the copy can only have become emptier. It becomes a report.
func (s *Store) refused(w *store.Write, l *store.Limits) (store.Decision, bool) {
	if w.Update != nil {
		return store.Decision{}, false
	}
	now := s.now(w.Group)
	d, ok := store.Decision{}, false
	s.linesOf(w.Group).look(w.Group, now, func(g *rules.Group) { d, ok = g.Refused(now, w, l) })
	if ok {
		s.log.add(s.opts.Now(), w.Group, rules.Op{Write: *w, Limits: l, Decision: d})
	}
	d.Unasked = true
	return d, ok
}

// refusedByQuota decides a CREATE that a quota refuses and that changes nothing of its group, by the
// copy of that, or as the first of its group.
func (s *Store) refusedByQuota(w *store.Write, l *store.Limits, t *taken) (store.Decision, bool) {
	if w.Update != nil || w.Count > 1 || t.allGranted() {
		return store.Decision{}, false
	}
	d, changed := s.guess(w, l, t.grants)
	if changed || d.Verdict != store.Drop {
		return store.Decision{}, false
	}
	s.reportQuotaDrop(w, l, d)
	d.Unasked = !t.trips
	return d, true
}

// predict is what becomes of a write if all quotas have tokens for it, as far as the copy of its group
// tells.
func (s *Store) predict(w *store.Write, l *store.Limits) store.Decision {
	if len(l.Quotas) == 0 {
		return store.Decision{}
	}
	all := make([]rules.Grant, len(l.Quotas))
	for i := range all {
		all[i].OK = true
	}
	d, _ := s.guess(w, l, all)
	return d
}

// guess decides a write by the copy of its group, which it leaves as it is, or as the first of its group.
func (s *Store) guess(w *store.Write, l *store.Limits, grants []rules.Grant) (d store.Decision, changed bool) {
	now := s.now(w.Group)
	decide := func(g *rules.Group) { d, changed = g.Clone().Decide(now, store.Key{}, *w, l, grants) }
	if !s.linesOf(w.Group).look(w.Group, now, decide) {
		decide(&rules.Group{})
	}
	return d, changed
}

// reportQuotaDrop reports what a quota has refused to the notice of that.
func (s *Store) reportQuotaDrop(w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict != store.Drop || d.Empty == &l.Spam || d.Occurrences <= 0 {
		return
	}
	drops := rules.Dropped(s.opts.Now(), *w, l, d.Empty, d.Occurrences)
	s.log.addDrops(s.opts.Now(), rules.NoticeKey(d.Empty), &drops)
}

// DecideLocally decides a write while Redis is unavailable, by what this replica knows of its group and
// quotas. It becomes a report.
func (s *Store) DecideLocally(w store.Write, l store.Limits) (store.Decision, error) {
	grants := s.quotas.local(&l)
	now := s.now(w.Group)
	var d store.Decision
	var changed bool
	v, _ := s.fresh()
	s.linesOf(w.Group).locally(w.Group, now, v, func(g *rules.Group) { d, changed = g.Decide(now, v, w, &l, grants) })
	s.quotas.chargeLocally(&w, &l, d.Verdict)
	s.reportQuotaDrop(&w, &l, d)
	if changed {
		s.log.add(s.opts.Now(), w.Group, rules.Op{Write: w, Limits: &l, Decision: d})
	}
	return d, nil
}
