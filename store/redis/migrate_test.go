package redis_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// migrating simulates a Redis Cluster that moves a slot to another server, key by key. It answers TRYAGAIN to a script
// whose keys are on both servers or do not exist. It does not run scripts.
type migrating struct {
	mu           sync.Mutex
	known, moved map[string]bool
	moving       bool
}

type tryAgainError struct{}

func (tryAgainError) Error() string { return "TRYAGAIN Multiple keys request during rehashing of slot" }

// RedisError implements goredis.Error.
func (tryAgainError) RedisError() {}

// Call implements redisclient.Caller.
func (m *migrating) Call(_ context.Context, cmds ...goredis.Cmder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cmd, args := cmds[0].(*goredis.Cmd), cmds[0].Args()
	n := args[2].(int)
	moved, missing := 0, 0
	for _, key := range args[3 : 3+n] {
		if m.moved[*key.(*string)] {
			moved++
		}
		if !m.known[*key.(*string)] {
			missing++
		}
	}
	if m.moving && n > 1 && (moved > 0 && moved < n || missing > 0) {
		cmd.SetErr(tryAgainError{})
		return tryAgainError{}
	}
	now := time.Now().UnixMicro()
	switch args[3+n] {
	case "step":
		for _, key := range args[3 : 3+n] {
			m.known[*key.(*string)] = true
		}
		cmd.SetVal([]any{now, int64(1), int64(0), ""})
	default:
		cmd.SetVal([]any{now, int64(0)})
	}
	return nil
}

// TestBreakerDoesNotFlapDuringSlotMigration moves a slot of a Cluster. The breaker stays open, although Redis answers
// scripts whose keys are on one server. It closes after all keys have moved.
func TestBreakerDoesNotFlapDuringSlotMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 40
		m := &migrating{known: map[string]bool{}, moved: map[string]bool{}}
		var changes []bool
		var mu sync.Mutex
		breaker := redisclient.NewBreaker(m, redisclient.BreakerOptions{Deadline: time.Second, OnChange: func(open bool, _ error) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, open)
		}})
		s := redis.New(breaker, redis.Options{Prefix: "test:"})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		running.Go(func() { breaker.Run(ctx, s.Probe) })
		l := limits(1 << 20)
		write := func(n int) {
			w := eventWrite(fmt.Sprint("pod-", n%objects), fmt.Sprint(n), n)
			if breaker.Closed() {
				if _, err := s.Decide(ctx, time.Now(), w, l); err == nil {
					return
				}
			}
			s.DecideLocally(w, l)
		}
		n := 0
		for range objects {
			write(n)
			n++
		}
		m.mu.Lock()
		m.moved[s.IndexKey()], m.moving = true, true
		m.mu.Unlock()
		for i := range objects { // a second each
			for range 10 {
				write(n)
				n++
				<-time.After(100 * time.Millisecond)
			}
			m.mu.Lock()
			m.moved[s.GroupKey(eventWrite(fmt.Sprint("pod-", i), "", 0).GroupKey)] = true
			m.mu.Unlock()
		}
		m.mu.Lock()
		m.moving = false
		m.mu.Unlock()
		<-time.After(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(changes) != "[true false]" {
			t.Errorf("breaker changes %v, want one opening and one closing", changes)
		}
		stop()
		running.Wait()
		if left := s.Waiting(); left != 0 {
			t.Errorf("%d registers have a backlog, want none", left)
		}
	})
}

// moveSlot moves the slot of a key to another server of a Cluster, up to four keys at a time, and calls meanwhile after
// each time.
func moveSlot(t *testing.T, addresses []string, key string, meanwhile func()) {
	t.Helper()
	ctx := t.Context()
	servers := map[string]*goredis.Client{}
	ids := map[string]string{}
	for _, address := range addresses {
		servers[address] = goredis.NewClient(&goredis.Options{Addr: address, DisableIdentity: true})
		defer func() { _ = servers[address].Close() }()
		ids[address] = servers[address].Do(ctx, "cluster", "myid").Val().(string)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	slot, err := servers[addresses[0]].ClusterKeySlot(ctx, key).Result()
	must(err)
	from, to := "", ""
	for address, c := range servers {
		if n, err := c.ClusterCountKeysInSlot(ctx, int(slot)).Result(); err == nil && n > 0 {
			from = address
		} else {
			to = address
		}
	}
	host, port, err := net.SplitHostPort(to)
	must(err)
	must(servers[to].Do(ctx, "cluster", "setslot", slot, "importing", ids[from]).Err())
	must(servers[from].Do(ctx, "cluster", "setslot", slot, "migrating", ids[to]).Err())
	for {
		keys, err := servers[from].ClusterGetKeysInSlot(ctx, int(slot), 4).Result()
		must(err)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			must(servers[from].Migrate(ctx, host, port, key, 0, 10*time.Second).Err())
		}
		meanwhile()
	}
	for _, address := range []string{to, from} {
		must(servers[address].Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err())
	}
	for address, c := range servers {
		if address != from && address != to {
			must(c.Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err())
		}
	}
}

// TestSlotMigrationInStorm moves the slot of all keys in a storm. That is an outage; after it every occurrence is
// reported once.
func TestSlotMigrationInStorm(t *testing.T) {
	const callers, objects, burst = 8, 60, 150
	cluster := redistest.StartCluster(t, redistest.Options{}, 3, 0)
	count, l := newTallies(), withQuota(limits(5), quota(burst))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running, writing sync.WaitGroup
	var replicas []*redis.Store
	var decides []*fallback.Store
	var opened, closed, local [2]atomic.Int64
	for i := range 2 {
		breaker := redisclient.NewBreaker(connect(t, cluster.Addrs()...), redisclient.BreakerOptions{
			Deadline: 5 * time.Second, OnChange: func(open bool, err error) {
				if !open {
					closed[i].Add(1)
					return
				}
				opened[i].Add(1)
				t.Logf("replica %d: %v", i, err)
			},
		})
		s := redis.New(breaker, redis.Options{Prefix: "test:", OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) {
			t.Errorf("%d occurrences were not reported", d.Total)
		}})
		running.Go(func() { s.Run(ctx) })
		running.Go(func() { breaker.Run(ctx, s.Probe) })
		o := fallback.Defaults()
		o.Available = breaker.Closed
		o.OnFallback = func(context.Context, store.FailureMode) { local[i].Add(1) }
		replicas, decides = append(replicas, s), append(decides, fallback.New(s, s, o))
	}
	var moved atomic.Bool
	var n atomic.Int64
	for c := range callers {
		writing.Go(func() {
			for after := 0; after < 100; {
				i := int(n.Add(1))
				object := fmt.Sprint("pod-", i%objects)
				d, err := decides[c%2].Decide(ctx, time.Now(), eventWrite(object, fmt.Sprint(i%7), i), l)
				if err != nil {
					t.Errorf("Decide: %v", err)
				}
				count.add(object, d, err)
				if moved.Load() {
					after++
				}
				<-time.After(time.Millisecond)
			}
		})
	}
	for n.Load() < 5*objects {
		<-time.After(time.Millisecond)
	}
	moveSlot(t, cluster.Addrs(), replicas[0].IndexKey(), func() { <-time.After(100 * time.Millisecond) })
	moved.Store(true)
	writing.Wait()
	for _, s := range replicas {
		for began := time.Now(); s.Waiting() > 0 && time.Since(began) < longTimeout; {
			<-time.After(10 * time.Millisecond)
		}
	}
	stop()
	running.Wait()
	for i := range opened {
		if opened[i].Load() > 1 || closed[i].Load() != opened[i].Load() {
			t.Errorf("replica %d: the breaker opened %d times and closed %d times, want at most once each", i, opened[i].Load(), closed[i].Load())
		}
		if local[i].Load() == 0 {
			t.Errorf("replica %d made no local decision while the slot was moved", i)
		}
		if n := replicas[i].Waiting(); n != 0 {
			t.Errorf("replica %d: %d registers have a backlog, want none", i, n)
		}
	}
	admitted := int64(0)
	for _, n := range count.admitted {
		admitted += n
	}
	if most := int64(len(replicas) * burst); admitted > most {
		t.Errorf("%d Events admitted, want at most %d, which independent replicas would admit", admitted, most)
	}
	count.check(t, redis.New(connect(t, cluster.Addrs()...), redis.Options{Prefix: "test:", StepTimeout: longTimeout}))
}
