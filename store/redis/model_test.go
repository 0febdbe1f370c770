package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/storetest"
)

// faultyCaller is a client of Redis with outages. During an outage most calls are not carried out; others are, but their
// answers are lost. Between outages an answer is lost now and then.
type faultyCaller struct {
	redisclient.Caller
	healthy atomic.Bool // no further fault
	out     atomic.Bool

	seed   string
	prefix string

	mu    sync.Mutex
	calls map[string]int // by key
}

// dice returns a pseudo-random number below 100. It does not depend on concurrent calls for other keys, so a seed repeats
// its run.
func (s *faultyCaller) dice(cmd goredis.Cmder) int {
	args := cmd.Args()
	key := args[1]
	if args[0] == "evalsha" || args[0] == "eval" {
		key = args[3]
	}
	if of, ok := key.(*string); ok {
		key = *of
	}
	name := strings.TrimPrefix(fmt.Sprint(key), s.prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[name]++
	sum := store.KeyOf(s.seed, name, fmt.Sprint(s.calls[name]))
	return int(sum[0]) * 100 / 256
}

// Call implements redisclient.Caller.
func (s *faultyCaller) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	if s.healthy.Load() {
		return s.Caller.Call(ctx, cmds...)
	}
	var lost error
	switch n := s.dice(cmds[0]); {
	case s.out.Load() && n < 80:
		lost = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case s.out.Load() || n < 2:
		_ = s.Caller.Call(ctx, cmds...)
		lost = io.ErrUnexpectedEOF
	default:
		return s.Caller.Call(ctx, cmds...)
	}
	for _, cmd := range cmds {
		cmd.SetErr(lost)
	}
	return lost
}

// replicas are several replicas that share a Redis, as one store. Any of them decides, locally if Redis does not answer,
// and flushes when it does.
type replicas struct {
	stores  []flushedStore
	clients []*faultyCaller
	rng     *rand.Rand
	outages bool
	// everywhere lets any replica decide any Event in outages.
	everywhere bool
}

func (s *stores) replicas(t *testing.T, n int, seed uint64, outages bool) *replicas {
	t.Helper()
	r := &replicas{rng: rand.New(rand.NewPCG(seed, 1)), outages: outages}
	c, prefix := &clock{}, s.prefix()
	for i := range n {
		client := &faultyCaller{Caller: newClocked(t, s.client, c), seed: fmt.Sprint(seed, i), prefix: prefix, calls: map[string]int{}}
		client.healthy.Store(!outages)
		r.clients = append(r.clients, client)
		r.stores = append(r.stores, flushedStore{redis.New(client, redis.Options{Prefix: prefix, Now: c.now, StepTimeout: longTimeout}), c})
	}
	return r
}

// Decide implements store.Store.
func (r *replicas) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	i := r.rng.IntN(len(r.stores))
	if r.outages {
		if !r.everywhere { // the API server keeps using one connection
			i = int(w.GroupKey[0]) % len(r.stores)
		}
		if r.rng.IntN(30) == 0 {
			r.clients[i].out.Store(!r.clients[i].out.Load())
		}
	}
	d, err := r.stores[i].Decide(ctx, now, w, l)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return r.stores[i].DecideLocally(w, l), nil
	}
	return d, err
}

// Claim implements store.Queue. Outages end before a drain.
func (r *replicas) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	for i, s := range r.stores {
		if ahead == math.MaxInt64 {
			r.clients[i].healthy.Store(true)
		}
		s.set(now)
		s.Flush(ctx)
	}
	writes, err := r.stores[0].Claim(ctx, now, ahead, n, claimed)
	if !r.clients[0].healthy.Load() {
		err = nil // the writes of a partial answer are used
	}
	return writes, err
}

// Complete implements store.Queue. It hides failures in outages, as if the settler had crashed.
func (r *replicas) Complete(ctx context.Context, now time.Time, w store.PendingWrite, o store.Outcome) error {
	err := r.stores[0].Complete(ctx, now, w, o)
	if !r.clients[0].healthy.Load() {
		return nil
	}
	return err
}

// Pending implements store.Queue.
func (r *replicas) Pending(ctx context.Context) (int64, error) { return r.stores[0].Pending(ctx) }

func TestRedisKeepsCountsExact(t *testing.T) {
	on := standalone(t)
	for name, faults := range storetest.FaultMixes() {
		t.Run(name, func(t *testing.T) {
			storetest.Simulate(t, faults, *seeds, on.fresh)
		})
	}
}

func TestReplicasKeepCountsExact(t *testing.T) {
	on := standalone(t)
	tests := map[string]struct {
		replicas            int
		outages, everywhere bool
	}{
		"while three share Redis":                             {3, false, false},
		"while one has outages":                               {1, true, false},
		"while three have outages, each its own":              {3, true, false},
		"while three have outages, and decide about the same": {3, true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			seed := seeds.First
			fresh := func(t *testing.T) storetest.Subject {
				t.Helper()
				seed++
				r := on.replicas(t, test.replicas, seed, test.outages)
				r.everywhere = test.everywhere
				return r
			}
			storetest.Simulate(t, storetest.Faults{Outages: test.outages, AnyReplica: test.everywhere}, *seeds, fresh)
		})
	}
}

func TestReplicasBoundWritesInStorms(t *testing.T) {
	on := standalone(t)
	seed := seeds.First
	fresh := func(t *testing.T) storetest.Subject {
		t.Helper()
		seed++
		return on.replicas(t, 3, seed, false)
	}
	storetest.Simulate(t, storetest.Faults{Storm: true}, *seeds, fresh)
}
