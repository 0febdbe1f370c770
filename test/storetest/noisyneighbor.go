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

// noisy is a namespace whose writes must not affect others, and filling is how many of them fill a small store.
const (
	noisy         = "noisy"
	fillingWrites = 5000
)

// WithNoisyNeighbor makes stores to which another namespace sends thousands of writes before every 25th one of their callers,
// who are shown only what is their own. By Compare, that is what it would be without those writes. Fresh stores may be small: a
// caller that holds less than a quarter of the bound must lose nothing.
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
	decides int // of Decide
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

// writeNoise is a write of any shape: of a group that is new or not, which repeats, combines, is refused by its spam
// filter or by a quota that is new, or takes a token from one; or an UPDATE of an Event that is not known. The first
// ones are all admitted and new, so that nothing is pending of what fills the store.
func (b *noisyNeighbor) writeNoise(now time.Time) (store.Write, store.Limits) {
	b.n++
	admitted := b.n < 2*fillingWrites
	part := func(what string) string {
		if admitted {
			return fmt.Sprint(what, b.n)
		}
		return fmt.Sprint(what, randomOf(b.rng, b.n, b.n, b.n/2, b.n/16, 0))
	}
	f := about(fmt.Sprint("event", b.n), []detail{
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
