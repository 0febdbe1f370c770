package store

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"sync"
	"time"
)

// Redis is a Store and Settling that many replicas share. Each step is one
// script, which Redis runs at once and whole, on the clock of Redis: the time
// that callers give is not used.
//
// All that is known of a source and object is one value under one key, which
// expires when nothing in it matters any more. What is owed is kept for a day
// at least. Sources and objects are spread over 128 hash slots, each with an
// index of what is due.
//
// It is as safe as Redis is: what Redis had acknowledged and then lost, because
// it had not been written to disk or to a replica when a server died, is lost.
type Redis struct {
	client Client
	prefix string
	now    func(time.Time) int64 // the time that scripts are told; 0 for the clock of Redis

	scripts scripts
	leases  *leases
	refuser *refuser
}

// RedisOptions are the settings of a Redis store.
type RedisOptions struct {
	// Prefix begins the name of each key.
	Prefix string
	// Leased is told how many tokens of quotas and shared spam buckets this
	// replica took from Redis, or, less than 0, sent back unused. It must not
	// block. Nil for nobody.
	Leased func(tokens int)
}

// DefaultRedisPrefix is a Prefix for those who share a Redis with nobody.
const DefaultRedisPrefix = "eventquota:"

var (
	_ Store    = (*Redis)(nil)
	_ Settling = (*Redis)(nil)
)

// NewRedis makes a store of what is in the Redis of client.
func NewRedis(client Client, o RedisOptions) *Redis {
	r := &Redis{client: client, prefix: o.Prefix, now: func(time.Time) int64 { return 0 }, scripts: newScripts()}
	r.leases = newLeases(client, r.quotaKey, func(now time.Time) int64 { return r.now(now) })
	if o.Leased != nil {
		r.leases.leased = o.Leased
	}
	r.refuser = newRefuser(r.leases, r.takeRefusals)
	return r
}

// shards is how many hash slots are in use. It must not change: what is stored
// would not be found.
const shards = 128

// tag begins the names of all keys of one hash slot.
func (r *Redis) tag(shard byte) string {
	return r.prefix + "{" + hex.EncodeToString([]byte{shard}) + "}:"
}

// keys are the keys of a group: its own, and the index of what is due in its slot.
func (r *Redis) keys(group Key) []string {
	tag := r.tag(group[0] % shards)
	return []string{tag + base64.RawURLEncoding.EncodeToString(group[:]), tag + "due"}
}

// quotaKey is the key of a quota's bucket, which may be in any slot.
func (r *Redis) quotaKey(quota Key) string {
	return r.prefix + "quota:" + base64.RawURLEncoding.EncodeToString(quota[:])
}

// Merge implements Store. Where a merge is charged to a shared spam bucket, it
// takes a round trip more when this replica is out of leased tokens of that.
func (r *Redis) Merge(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	w, t = w.rounded(), t.rounded()
	t.Quotas = nil // the validating phase asks them
	var p payment
	if t.ChargeMerged {
		var err error
		if p, err = r.leases.pay(ctx, now, &t); err != nil {
			return Decision{}, err
		}
	}
	v, err := r.decide(ctx, r.scripts.merge, now, w, t, p)
	return v.Decision, err
}

// Take implements Store. It takes a round trip more when this replica is out of
// leased tokens of a quota or a shared spam bucket, and none for what it knows to
// be refused.
func (r *Redis) Take(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	w, t = w.rounded(), t.rounded()
	if d, known := r.refuser.refuse(now, w, t); known {
		return d, nil
	}
	p, err := r.leases.pay(ctx, now, &t)
	if err != nil {
		return Decision{}, err
	}
	v, err := r.decide(ctx, r.scripts.take, now, w, t, p)
	if v.Verdict == Drop && !v.quota {
		r.refuser.learn(now, w, t, v.left, v.Next)
	}
	return v.Decision, err
}

// decide lets a script decide a write for which p was leased, and gives back what
// of that was not used.
func (r *Redis) decide(ctx context.Context, s script, now time.Time, w Write, t Terms, p payment) (verdict, error) {
	var both trip
	c := both.add(s, r.keys(w.Group), packWrite(r.now(now), w, t, p))
	refills := r.leases.topUp(&both, now, t.shared(t.Quotas))
	err := both.send(ctx, r.client)
	refills.done()
	v, err := readVerdict(c, err)
	if err != nil {
		return verdict{}, err // and it may have used up its tokens
	}
	if !v.charged {
		r.leases.refund(now, &t, p)
	}
	switch {
	case v.Verdict != Drop:
	case v.quota:
		v.Empty, v.Next = p.quotas.empty, p.quotas.next
	case t.SharedSpam:
		v.Empty, v.Next = t.Spam, p.spam.next
	default:
		v.Empty = t.Spam
	}
	return v, nil
}

// Run gives back what was leased and not used, and hands over what was refused
// by this replica alone, until ctx is done. Then it gives and hands over all.
func (r *Redis) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { r.leases.run(ctx) })
	parts.Go(func() { r.refuser.run(ctx) })
	parts.Wait()
}
