package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// migrating is a Redis Cluster whose slot is on its way to another server, key by key. A script that names keys at both
// places is answered TRYAGAIN. It carries out nothing.
type migrating struct {
	mu    sync.Mutex
	moved map[string]bool
	all   bool // at the new server
}

type tryAgain struct{}

func (tryAgain) Error() string { return "TRYAGAIN Multiple keys request during rehashing of slot" }

// RedisError marks it as an answer of Redis.
func (tryAgain) RedisError() {}

// Call implements redisclient.Caller.
func (m *migrating) Call(_ context.Context, cmds ...goredis.Cmder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cmd, args := cmds[0].(*goredis.Cmd), cmds[0].Args()
	n := args[2].(int)
	moved := 0
	for _, key := range args[3 : 3+n] {
		if m.moved[key.(string)] {
			moved++
		}
	}
	if !m.all && moved > 0 && moved < n {
		cmd.SetErr(tryAgain{})
		return tryAgain{}
	}
	now := time.Now().UnixMicro()
	switch args[3+n] {
	case "step":
		cmd.SetVal([]any{now, int64(1), int64(0), ""})
	default:
		cmd.SetVal([]any{now, int64(0)})
	}
	return nil
}

// While a slot of a Cluster is on its way to another server the breaker stays open, although scripts that name its keys at
// one place are answered, and it closes once all are there.
func TestTheBreakerDoesNotFlapWhileASlotIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 40
		m := &migrating{moved: map[string]bool{}}
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
		running.Go(func() { breaker.Run(ctx, s.Reach) })
		l := limits(1 << 20)
		write := func(n int) {
			w := event(fmt.Sprint("pod-", n%objects), fmt.Sprint(n), n)
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
		m.moved[s.IndexKey()] = true
		m.mu.Unlock()
		for i := range objects { // a second each
			for range 10 {
				write(n)
				n++
				<-time.After(100 * time.Millisecond)
			}
			m.mu.Lock()
			m.moved[s.GroupKey(event(fmt.Sprint("pod-", i), "", 0).Group)] = true
			m.mu.Unlock()
		}
		m.mu.Lock()
		m.all = true
		m.mu.Unlock()
		<-time.After(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(changes) != "[true false]" {
			t.Errorf("the breaker changed %v, want it to open once and to close once", changes)
		}
		stop()
		running.Wait()
		if left := s.Waiting(); left != 0 {
			t.Errorf("something waits for %d registers, want none", left)
		}
	})
}
