package redisclient_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/eventquota/eventquota/store/redisclient"
)

const (
	// patience is a call's deadline: longer than a store's, as the tests share
	// their processors with others.
	patience = 250 * time.Millisecond
	// healWithin is how long calls may fail after the servers are well again.
	healWithin = 5 * time.Second
	// healed is how many calls in a row must be answered.
	healed = 50
)

// TestMain runs tests side by side, as they mostly wait for servers, and holds that no goroutine is left when all
// have ended.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// It sleeps for a second before it sees that its pool is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// ways are the two ways that a call goes: alone, and beside so many others that
// they share a connection.
type ways map[string]func(ctx context.Context, cmd redis.Cmder) error

func waysOf(t *testing.T, o redisclient.Options) ways {
	t.Helper()
	lone, busy := newClient(t, &o), newClient(t, &o)
	redisclient.Alone(lone)
	redisclient.Crowd(busy)
	call := func(c *redisclient.Client) func(context.Context, redis.Cmder) error {
		return func(ctx context.Context, cmd redis.Cmder) error { return c.Call(ctx, cmd) }
	}
	return ways{"pooled": call(lone), "shared": call(busy)}
}

// write is one call of a script that writes.
func write(ctx context.Context, key string, way func(context.Context, redis.Cmder) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return way(ctx, redis.NewCmd(ctx, "EVAL", "return redis.call('INCR', KEYS[1])", 1, key))
}

// awaitHealed writes in every way until calls are answered, and says how long
// that took and what the errors were.
func (w ways) awaitHealed(t *testing.T, keys ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for name, way := range w {
		wg.Go(func() {
			start, answered := time.Now(), 0
			errs := map[string]int{}
			var slowest time.Duration
			for i := 0; answered < healed*len(keys); i++ {
				before := time.Now()
				err := write(t.Context(), keys[i%len(keys)], way)
				slowest = max(slowest, time.Since(before))
				if err == nil {
					answered++
					continue
				}
				answered = 0
				errs[fmt.Sprintf("%.100s", err)]++
				if time.Since(start) > healWithin {
					t.Errorf("%s: calls still fail after %s: %v", name, healWithin, errs)
					return
				}
			}
			t.Logf("%s: healed %s after the servers; slowest call %s; errors %v", name, time.Since(start).Round(time.Millisecond), slowest.Round(time.Millisecond), errs)
		})
	}
	wg.Wait()
}

// load is clients that are called all the time.
type load struct {
	ways

	mu   sync.Mutex
	seen map[string]map[string]int // errors by way
}

// underLoad calls in both ways, from two goroutines each, until the test ends.
func underLoad(t *testing.T, o redisclient.Options, keys ...string) *load {
	t.Helper()
	l := &load{ways: waysOf(t, o), seen: map[string]map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for name, way := range l.ways {
		l.seen[name] = map[string]int{}
		l.ways[name] = func(ctx context.Context, cmd redis.Cmder) error {
			err := way(ctx, cmd)
			l.note(name, err)
			return err
		}
	}
	for _, way := range l.ways {
		for i := range 2 {
			wg.Go(func() {
				pace := time.NewTicker(time.Millisecond) // tests that run beside need processors too
				defer pace.Stop()
				for ; ctx.Err() == nil; i++ {
					_ = write(ctx, keys[i%len(keys)], way) // noted
					<-pace.C
				}
			})
		}
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	l.awaitHealed(t, keys...)
	return l
}

func (l *load) note(way string, err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, _, _ := strings.Cut(err.Error(), " ")
	l.seen[way][first]++
}

// awaitSeen waits until calls of both ways met the error that the test is about.
func (l *load) awaitSeen(t *testing.T, prefix string) {
	t.Helper()
	eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen["pooled"][prefix] > 0 && l.seen["shared"][prefix] > 0
	})
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 30s")
		}
	}
}

func newClient(t *testing.T, o *redisclient.Options) *redisclient.Client {
	t.Helper()
	c, err := redisclient.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func at(addrs ...string) redisclient.Options {
	o := *redisclient.DefaultOptions()
	o.Addresses = addrs
	return o
}
