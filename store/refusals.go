package store

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// refuserShards is how many locks the refuser is spread over.
	refuserShards = 64
	// flushRefusals is how often refusals are handed over. It must be well
	// under confirmWithin: until then Redis takes a refused Event for one on its
	// way.
	flushRefusals = 200 * time.Millisecond
	// manyRefusals of one source and object are handed over at once: until then
	// they take the places of its stored Events there.
	manyRefusals = maxRecords / 4
	// maxRefusalBytes bounds the refusals that wait, by an estimate.
	maxRefusalBytes = 32 << 20
)

// refuser refuses CREATEs without asking Redis, of which it is known that they
// find no token, and hands over what it refused. It is safe for concurrent use.
//
// A refusal never outlasts the moment at which there is a token: that is kept
// as the time that was left by the clock of Redis, from before Redis was asked.
//
// What is refused is handed over within flushRefusals, and at the end. A replica
// that is killed loses what it refused in that time: those occurrences are in no
// notice. When what waits is at its bound nothing is refused here any more, so
// that nothing is lost while Redis is away.
type refuser struct {
	leases  *leases // which know of empty quotas and shared spam buckets
	flush   func(context.Context, []refusal) error
	replica Key
	serial  atomic.Int64
	bytes   atomic.Int64
	bound   int64
	soon    chan struct{} // asks for a flush before its time
	shards  [refuserShards]refuserShard
	unused  sync.Pool // of *owed
	hashers sync.Pool // of *Hasher

	flushing sync.Mutex // guards what follows; one flush at a time keeps their order
	waiting  []*owed
}

type refuserShard struct {
	mu     sync.Mutex
	empty  emptyBuckets
	owed   map[Key]*owed
	closed bool
}

// newRefuser makes a refuser that knows of nothing. flush takes what was
// refused; it must not keep the slices. After an error it is given the same
// again, with the same serials, and what came since.
func newRefuser(l *leases, flush func(context.Context, []refusal) error) *refuser {
	r := &refuser{
		leases: l, flush: flush, bound: maxRefusalBytes,
		soon:    make(chan struct{}, 1),
		replica: KeyOf(rand.Text()),
	}
	r.unused.New = func() any { return newOwed() }
	r.hashers.New = func() any { return new(Hasher) }
	for i := range r.shards {
		sh := &r.shards[i]
		sh.empty = emptyBuckets{bound: maxEmpty / refuserShards, known: map[emptyBucket]emptiness{}}
		sh.owed = map[Key]*owed{}
	}
	return r
}

func (r *refuser) shard(group Key) *refuserShard {
	sh := &r.shards[group[0]%refuserShards]
	sh.mu.Lock()
	return sh
}

// refuse drops w if it is known that it finds no token at now, and counts it.
// Otherwise Redis must be asked.
func (r *refuser) refuse(now time.Time, w Write, t Terms) (Decision, bool) {
	if w.Update != nil {
		return Decision{}, false // it is never dropped
	}
	x := r.hashers.Get()
	h := x.(*Hasher)
	name := h.Add(w.Name).Sum()
	r.hashers.Put(h)
	sh := r.shard(w.Group)
	if next, ok := r.spamEmpty(sh, now, &w, &t); ok {
		ok = r.owe(sh, now, name, &w, &t)
		sh.mu.Unlock()
		return Decision{Verdict: Drop, Empty: t.Spam, Next: next}, ok
	}
	sh.mu.Unlock()
	if len(t.Quotas) == 0 {
		return Decision{}, false
	}
	found, ok := r.leases.empty(now, t.Quotas)
	if !ok {
		return Decision{}, false
	}
	sh = r.shard(w.Group)
	defer sh.mu.Unlock()
	return Decision{Verdict: Drop, Empty: found.empty, Next: found.next}, r.owe(sh, now, name, &w, &t)
}

// learn remembers that the spam bucket of w refused it, and will refuse its like
// for the time that was left by the clock of Redis: until the bucket's next
// token, or until the reserve of the reason is renewed if that is sooner; forever
// if neither ever happens. Of a shared bucket it is the time until the reserve is
// renewed. asked is the replica's time before Redis was asked,
// and next what the answer to w says.
func (r *refuser) learn(asked time.Time, w Write, t Terms, left time.Duration, next time.Time) {
	sh := r.shard(w.Group)
	defer sh.mu.Unlock()
	sh.empty.keep(asked.Add(left), &w, &t, next)
}

// owe counts what w tells of. It tells whether there was room for that.
func (r *refuser) owe(sh *refuserShard, now time.Time, name Key, w *Write, t *Terms) bool {
	if sh.closed || r.bytes.Load() >= r.bound {
		return false
	}
	o := sh.owed[w.Group]
	before := 0
	if o == nil {
		x := r.unused.Get()
		o = x.(*owed)
		o.open(w, r.serial.Add(1), r.replica)
		sh.owed[w.Group] = o
	} else {
		before = o.bytes
	}
	ok := o.count(now, name, w, t)
	more := o.bytes - before
	if more != 0 && (r.bytes.Add(int64(more)) > r.bound/2 || len(o.names) == manyRefusals) {
		select {
		case r.soon <- struct{}{}:
		default:
		}
	}
	return ok
}
