package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// rollbackStore is a store whose Redis is restored once, at its 120th write, from a copy made at the 40th.
type rollbackStore struct {
	*replicas
	t      *testing.T
	server *redistest.Server
	writes int
	copied []byte
}

// Decide implements store.Store.
func (r *rollbackStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	dump := filepath.Join(r.server.Dir, "dump.rdb")
	switch r.writes++; r.writes {
	case 40:
		err := r.server.Client().Save(ctx).Err()
		copied, readErr := os.ReadFile(dump)
		if err = errors.Join(err, readErr); err != nil {
			r.t.Fatal(err)
		}
		r.copied = copied
	case 120:
		r.server.Kill()
		if err := errors.Join(os.WriteFile(dump, r.copied, 0o600), r.server.Launch(), r.server.WaitReady(ctx)); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.replicas.Decide(ctx, now, w, l)
}

// Claim implements store.Queue. It first uses up the connections from before the rollback, each of which fails once.
func (r *rollbackStore) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	for range 100 {
		if _, err := r.Pending(ctx); err == nil {
			break
		}
	}
	return r.replicas.Claim(ctx, now, ahead, n, claimed)
}

func TestRedisRollback(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Lines: []string{`save ""`}})
	on := &stores{client: connect(t, server.Addr())}
	seed, rolled := seeds.First, 0
	fresh := func(t *testing.T) storetest.Subject {
		t.Helper()
		seed++
		r := &rollbackStore{replicas: on.replicas(t, 2, seed, false), t: t, server: server}
		t.Cleanup(func() {
			if r.writes > 120 {
				rolled++
			}
		})
		return r
	}
	storetest.Simulate(t, storetest.Faults{Rollback: true}, storetest.Seeds{First: seeds.First, Runs: seeds.Runs, Steps: 2 * seeds.Steps}, fresh)
	if runs := seeds.Count(); rolled < runs {
		t.Errorf("Redis was rolled back in %d runs of %d", rolled, runs)
	}
}

// TestRedisRestartInStorm pauses Redis in a storm and resumes it later. All local decisions are reported, and Redis
// carries out no attempt late that is still in its buffers.
func TestRedisRestartInStorm(t *testing.T) {
	const callers, objects = 8, 30
	server := redistest.Start(t, redistest.Options{})
	s := []*replica{newReplica(t, server.Addr()), newReplica(t, server.Addr())}
	l, count := limits(5), newTallies()
	l.Quotas = []store.Bucket{quota(60)}
	stopped := make(chan struct{})
	paused, resumed := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := 0; n < 300 || paused.Err() == nil; n++ {
				i := c + callers*n
				object := fmt.Sprint("pod-", i%objects)
				w := eventWrite(object, fmt.Sprint(i%7), i)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				d, err := s[c%2].Decide(ctx, time.Now(), w, l)
				cancel()
				if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
					d, err = s[c%2].DecideLocally(w, l), nil
				}
				count.add(object, d, err)
				if n == 50 && c == 0 {
					close(stopped)
				}
			}
		})
	}
	<-stopped
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * time.Second)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	resumed()
	wg.Wait()
	for _, one := range s {
		one.stop()
	}
	count.check(t, s[0])
}
