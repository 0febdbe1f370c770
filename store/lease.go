package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Quotas are buckets that many sources and objects share, each under one hot
// key of Redis. A replica leases their tokens in small batches, so that most
// writes find one without a round trip.
const (
	// leaseTime is how long a replica may keep a token before it must be used
	// or given back, and how long it takes a quota to be empty without asking.
	leaseTime = 250 * time.Millisecond
	// maxBatch is the most tokens that a replica leases in advance at once: as
	// many as its callers may use in one round trip.
	maxBatch = 256
	// maxStocks bounds the quotas of which a replica holds tokens or knows
	// that they are empty.
	maxStocks = 1 << 14
	// leaseShards is how many locks the quotas are spread over.
	leaseShards = 16
)

// leases are the tokens of quotas that one replica holds. It is safe for
// concurrent use.
//
// A token is taken from the bucket in Redis when it is leased, so all replicas
// together never use more than one bucket gives, and a write is decided as if
// it had come at most leaseTime earlier than it did. An answer that is lost
// costs the tokens that it gave.
//
// A replica holds of each quota at most one and a half batches, that is 384
// tokens and less than a tenth of Burst, and those that its calls under way took
// and did not need. That is what the others may be refused although it is not
// used, until it comes back within one and a half times leaseTime, and what is
// lost when the replica is killed: so many tokens come back by refill only. Of a
// bucket with less than 16 tokens left nothing is leased in advance, so near its
// end a bucket gives its tokens in the order in which it is asked.
//
// A quota that was empty counts as empty until its next token, and leaseTime at
// most, as another replica may give tokens back.
type leases struct {
	client  Client
	keyFor  func(Key) string
	clock   func(time.Time) int64
	script  script
	replica string // tells this replica's leases from those of others
	shards  [leaseShards]leaseShard
}

type leaseShard struct {
	mu     sync.Mutex
	bound  int
	stocks map[quota]*stock
	back   []unused // what is to be given back of stocks that were forgotten
	closed bool     // nothing is leased in advance any more
}

// newLeases makes empty leases. keyFor is the key of a quota's bucket in Redis,
// and clock the time that scripts are told, 0 for the clock of Redis.
func newLeases(client Client, keyFor func(Key) string, clock func(time.Time) int64) *leases {
	l := &leases{client: client, keyFor: keyFor, clock: clock, script: newScript("lease"), replica: rand.Text()[:12]}
	for i := range l.shards {
		l.shards[i].bound = maxStocks / leaseShards
		l.shards[i].stocks = map[quota]*stock{}
	}
	return l
}

// tokens is the answer of all quotas of a write.
type tokens struct {
	ok    bool
	empty Bucket    // when !ok: the first that had no token
	next  time.Time // when !ok: when it has one, by the clock of Redis; zero for never
}

// take takes a token from each quota, or from none. It takes a round trip when
// the replica is out of tokens of one. now is the replica's time before the
// call. After an error nothing is taken, but tokens may be lost.
func (l *leases) take(ctx context.Context, now time.Time, quotas []Bucket) (tokens, error) {
	var t trip
	var asked []asking
	result, tried := tokens{ok: true}, quotas
	for i, q := range quotas {
		what, next := l.fromStock(now, q)
		if what == isEmpty {
			result, tried = tokens{empty: q, next: next}, quotas[:i]
			break
		}
		if what == isShort {
			a := l.ask(&t, now, q, 1)
			a.place = i
			asked = append(asked, a)
		}
	}
	err := t.send(ctx, l.client)
	var missing []int
	for _, a := range slices.Backward(asked) { // the first that is empty is the answer
		if ok, next := l.answer(now, &a); !ok {
			result = tokens{empty: quotas[a.place], next: next}
			missing = append(missing, a.place)
		}
	}
	if err == nil && result.ok {
		return result, nil
	}
	for i, q := range tried {
		if !slices.Contains(missing, i) {
			l.putBack(now, q)
		}
	}
	if err != nil {
		return tokens{}, fmt.Errorf("lease of quota tokens: %w", err)
	}
	return result, nil
}

// giveBack gives back the tokens that take took, for a write that something
// else refused. They stay in the replica until they are used or their time has
// passed.
func (l *leases) giveBack(now time.Time, quotas []Bucket) {
	for _, q := range quotas {
		l.putBack(now, q)
	}
}

// empty tells, without a round trip, whether take would refuse, and what. Where
// it would have to ask first, nothing is refused.
func (l *leases) empty(now time.Time, quotas []Bucket) (tokens, bool) {
	for _, q := range quotas {
		found, next := l.look(now, q)
		if found == isEmpty {
			return tokens{empty: q, next: next}, true
		}
		if found == isShort {
			return tokens{}, false
		}
	}
	return tokens{}, false
}
