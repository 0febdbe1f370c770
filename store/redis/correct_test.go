package redis_test

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestRedisClockSteppedBackDelaysNothing corrects a clock of Redis that was a day ahead. Another replica then claims the
// pending writes soon, although no new Events come, many writes are due later, and another program has overwritten one
// register.
func TestRedisClockSteppedBackDelaysNothing(t *testing.T) {
	const objects = 150
	epoch, now := time.Now().Truncate(time.Second), new(clock)
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	replica := func() *redis.Store {
		return redis.New(newClocked(t, client, now), redis.Options{Prefix: "test:", Now: now.now, StepTimeout: longTimeout})
	}
	s, l := replica(), limits(10)
	now.set(epoch.Add(24 * time.Hour))
	for n := range objects {
		for i := range 2 {
			decide(t, s, eventWrite(fmt.Sprint("pod-", n), "m", i), l)
		}
	}
	junk := eventWrite("pod-1", "m", 0).GroupKey
	if err := client.Call(t.Context(), goredis.NewStatusCmd(t.Context(), "set", s.GroupKey(junk), "junk")); err != nil {
		t.Fatal(err)
	}
	now.set(epoch)
	s = replica()
	got := map[store.Key]bool{}
	for range 10 {
		now.set(now.now().Add(10 * time.Second))
		writes, err := s.Claim(t.Context(), now.now(), 0, objects, func(string, store.Key) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range writes {
			got[p.Ref.Group] = true
		}
	}
	if len(got) != objects-1 {
		t.Errorf("%d of %d Events are due within a hundred seconds", len(got), objects-1)
	}
}
