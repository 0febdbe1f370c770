package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// localStore is a replica that decides without Redis, and flushes before each Claim and Complete.
type localStore struct{ flushedStore }

// Decide implements store.Store.
func (c localStore) Decide(_ context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	c.set(now)
	c.SpillExcess()
	return c.DecideLocally(w, l), nil
}

// Claim implements store.Queue.
func (c localStore) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	c.set(now)
	c.Flush(ctx)
	return c.flushedStore.Claim(ctx, now, ahead, n, claimed)
}

// Complete implements store.Queue.
func (c localStore) Complete(ctx context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	c.set(now)
	c.Flush(ctx)
	return c.flushedStore.Complete(ctx, now, p, o)
}

// TestNoisyNamespaceChangesNoOther compares a replica with one that has a small cache and backlog, and in which another
// namespace writes. The others see no difference, with Redis or without.
func TestNoisyNamespaceChangesNoOther(t *testing.T) {
	s := standalone(t)
	fresh := func(copies, backlog int64, wrap func(flushedStore) storetest.Subject) storetest.Fresh {
		return func(t *testing.T) storetest.Subject {
			t.Helper()
			c := &clock{}
			o := redis.Options{Prefix: s.prefix(), Now: c.now, StepTimeout: longTimeout}
			return wrap(flushedStore{redis.New(newClocked(t, s.client, c), o).SetCacheBytes(copies, backlog), c})
		}
	}
	for name, wrap := range map[string]func(flushedStore) storetest.Subject{
		"with Redis":    func(p flushedStore) storetest.Subject { return p },
		"without Redis": func(p flushedStore) storetest.Subject { return localStore{p} },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Compare(t, storetest.Seeds{First: seeds.First, Runs: max(1, seeds.Runs/10), Steps: 100},
				fresh(64<<20, 64<<20, wrap), storetest.WithNoisyNeighbor(fresh(4<<20, 4<<20, wrap)))
		})
	}
}
