package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// noisy is a namespace whose writes must not affect others, and fillingWrites is a number of writes that fill a small store.
const (
	noisy         = "noisy"
	fillingWrites = 5000
)

// WithNoisyNeighbor makes stores to which another namespace sends thousands of writes before every 25th write of the
// caller. The caller sees only its own pending writes, so Compare can compare the store with one without the neighbor.
// The stores may be small: a caller that uses less than a quarter of the bound must lose nothing.
func WithNoisyNeighbor(fresh Fresh) Fresh {
	return func(t *testing.T) Subject {
		t.Helper()
		return &noisyNeighbor{Subject: fresh(t), t: t, rng: rand.New(rand.NewPCG(1, 1)), now: epoch()}
	}
}

type noisyNeighbor struct {
	Subject
	t       *testing.T
	rng     *rand.Rand
	decides int // calls of Decide
	n       int // writes of the other namespace
	now     time.Time
}

// Decide implements store.Store.
func (b *noisyNeighbor) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	const every = 25
	b.now = now
	for range fillingWrites * (b.decides % every / (every - 1)) {
		noise, under := b.writeNoise(now)
		if _, err := b.Subject.Decide(ctx, now, noise, under); err != nil && !errors.Is(err, store.ErrFull) {
			b.t.Errorf("a write of another namespace: %v", err)
		}
	}
	b.decides++
	return b.Subject.Decide(ctx, now, w, l)
}

// writeNoise returns a random write of the neighbor, and its limits. Its group may be new or known. It may be merged,
// combined, refused by a spam filter or a quota, take a token from a quota, or be an UPDATE of an unknown Event. The first
// writes are all new and admitted, so they fill the store without pending writes.
func (b *noisyNeighbor) writeNoise(now time.Time) (store.Write, store.Limits) {
	b.n++
	admitted := b.n < 2*fillingWrites
	part := func(prefix string) string {
		if admitted {
			return fmt.Sprint(prefix, b.n)
		}
		return fmt.Sprint(prefix, randomOf(b.rng, b.n, b.n, b.n/2, b.n/16, 0))
	}
	f := newFacts(fmt.Sprint("event", b.n), []detail{
		in(noisy), pod(part("pod")), by(part("user")), reason(part("reason")), message(part("message")), count(1 + b.rng.Int64N(3)),
	})
	if !admitted && b.rng.IntN(8) == 0 {
		f.update = &store.Update{ByRecorder: b.rng.IntN(2) == 0, UID: part("uid"), Stored: store.Stored{Count: f.count + 1}}
	}
	w, l := f.write(now), limits()
	l.SpamFilter.Key = store.KeyOf(noisy, part("spam filter"))
	l.SpamFilter.Burst = randomOf(b.rng, 0, 1, 25)
	if admitted {
		l.SpamFilter.Burst = 25
	} else if b.rng.IntN(2) == 0 {
		q := bucket(part("noisy quota"), randomOf(b.rng, 0, 1, 1000), time.Hour)
		q.NoticeObject.Namespace = noisy
		l.Quotas = []store.Bucket{q}
	}
	return w, f.under(l, &w)
}

// Claim implements store.Queue.
func (b *noisyNeighbor) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	b.now = now
	return b.Subject.Claim(ctx, now, ahead, n, func(turn string, group store.Key) bool {
		return strings.TrimPrefix(turn, "/") == noisy || claimed(turn, group)
	})
}

// Pending implements store.Queue.
func (b *noisyNeighbor) Pending(ctx context.Context) (int64, error) {
	writes, err := b.Claim(ctx, b.now, math.MaxInt64, math.MaxInt, noneClaimed)
	groups := map[store.Key]bool{}
	for _, p := range writes {
		groups[p.Ref.Group] = true
	}
	return int64(len(groups)), err
}
