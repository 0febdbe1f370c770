package redis

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// errNoPlace says that a register does not exist, and that its namespace has as many as it may.
var errNoPlace = errors.New("the namespace has as many registers as it may")

const (
	// overFor is how long a replica goes by it that there was no place for a bucket or register.
	overFor = 5 * time.Second
	// maxOver is of how many it knows that.
	maxOver = 1 << 16
)

// over are the buckets and registers for which Redis had no place.
type over struct {
	mu   sync.Mutex
	all  *store.Table[time.Time] // since when
	last atomic.Int64            // when one was added, in microseconds
}

func newOver() *over { return &over{all: store.NewTable[time.Time](maxOver)} }

func (o *over) add(namespace string, key store.Key, here time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.all.Get(key)
	if e == nil {
		e = o.all.Add(key, namespace, here)
	}
	e.Value = here
	o.all.Set(e, 1, false)
	o.all.Shrink(0)
	o.last.Store(here.UnixMicro())
}

// has reports whether there was no place for a key a short time ago.
func (o *over) has(key store.Key, here time.Time) bool {
	if here.UnixMicro()-o.last.Load() >= overFor.Microseconds() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.all.Get(key)
	switch {
	case e == nil:
		return false
	case here.Sub(e.Value) < overFor:
		return true
	}
	o.all.Remove(e)
	return false
}

// forget forgets that there was no place for a key.
func (o *over) forget(key store.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.all.Get(key); e != nil {
		o.all.Remove(e)
	}
}

// Kinds of the keys of what is counted for a namespace.
const registersOf, bucketsOf = "ng:", "nq:"

func (s *Store) registersKey(namespace string) string {
	return string(s.appendName(nil, registersOf, namespace))
}

func (s *Store) bucketsKey(namespace string) string {
	return string(s.appendName(nil, bucketsOf, namespace))
}

func (s *Store) appendName(b []byte, kind, namespace string) []byte {
	return append(append(append(b, s.prefix...), kind...), namespace...)
}

// overflow puts overflow buckets in the place of those for which Redis had no place.
func (s *Store) overflow(namespace string, l *store.Limits, here time.Time) {
	l.Overflow(namespace, func(b *store.Bucket) bool { return !s.over.has(b.Key, here) })
}

// overflown is the first of quotas in whose place an overflow bucket has come.
func overflown(before, after []store.Bucket) *store.Bucket {
	if len(before) == 0 || len(after) > 0 && &before[0] == &after[0] {
		return nil
	}
	for i := range before {
		if !slices.ContainsFunc(after, func(b store.Bucket) bool { return b.Key == before[i].Key }) {
			return &before[i]
		}
	}
	return nil
}

// noPlace ends an attempt for whose register there is no place. Its callers decide without one. What was decided before goes
// where it is reported without one: drops of a bucket to the notice of its overflow bucket, all else to Options.Unreported. The
// caller holds the lock of the line.
func (s *Store) noPlace(t *attempt) {
	ln := t.line
	s.over.add(ln.namespace, ln.key, s.opts.Now())
	waiting := s.putBack(t)
	defer finish(waiting, errNoPlace)
	wt := s.backlog.take(ln.key)
	if wt == nil {
		return
	}
	wt.drops = slices.DeleteFunc(wt.drops, func(d rules.Drops) bool {
		register, ok := d.Overflow()
		if ok {
			s.backlog.drop(wt.since, wt.namespace, register, &d)
		}
		return ok
	})
	s.spill(ln.key, wt)
}

// full reports whether there is no place here for what was decided about one more register of a namespace.
func (b *backlog) full(namespace string, register store.Key, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Get(register) == nil && b.all.Held(namespace) >= most
}
