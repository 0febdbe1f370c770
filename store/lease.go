package store

import (
	"crypto/rand"
	"sync"
	"time"
)

// Quotas, and spam buckets that are shared, are buckets of many sources and
// objects, each under one hot key of Redis. A replica leases their tokens in
// small batches, so that most writes find one without a round trip. Here they
// are all called quotas.
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
	leased  func(int)
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
	l := &leases{client: client, keyFor: keyFor, clock: clock, script: newScript("lease"), replica: rand.Text()[:12], leased: func(int) {}}
	for i := range l.shards {
		l.shards[i].bound = maxStocks / leaseShards
		l.shards[i].stocks = map[quota]*stock{}
	}
	return l
}
