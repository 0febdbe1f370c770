package redis_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/leaks"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

var seeds = storetest.SeedFlags(5, 400)

// longTimeout bounds calls in tests that are not about time.
const longTimeout = time.Minute

// connect returns a client of Redis, in a Cluster if there are several addresses.
func connect(t testing.TB, addresses ...string) *redisclient.Client {
	t.Helper()
	o := redisclient.DefaultOptions()
	o.Addresses, o.Cluster = addresses, len(addresses) > 1
	o.Timeout = longTimeout
	c, err := redisclient.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// clock is a clock that tests set.
type clock struct{ at atomic.Int64 }

func (c *clock) set(now time.Time) { c.at.Store(now.UnixMicro()) }

func (c *clock) now() time.Time { return time.UnixMicro(c.at.Load()).UTC() }

// clocked is a client of Redis whose script reads a clock of the test instead of TIME. Keys do not expire, as they would by
// the clock of Redis.
type clocked struct {
	redisclient.Caller
	*clock
	source, sha string
}

func newClocked(t testing.TB, client redisclient.Caller, c *clock) clocked {
	t.Helper()
	source := redis.Source()
	for old, changed := range map[string]string{
		"redis.call('TIME')": "{0, table.remove(ARGV)}",
		", 'PX', expiry)":    ")",
		", 'PX', life)":      ")",
	} {
		if strings.Count(source, old) != 1 {
			t.Fatalf("the script must have %q exactly once", old)
		}
		source = strings.Replace(source, old, changed, 1)
	}
	return clocked{client, c, source, goredis.NewScript(source).Hash()}
}

// Call implements redisclient.Caller.
func (c clocked) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	sent := make([]goredis.Cmder, len(cmds))
	for i, cmd := range cmds {
		sent[i] = cmd
		args := cmd.Args()
		switch args[0] {
		case "evalsha":
			sent[i] = c.scripted(ctx, "evalsha", c.sha, args)
		case "eval":
			sent[i] = c.scripted(ctx, "eval", c.source, args)
		}
	}
	err := c.Caller.Call(ctx, sent...)
	for i, cmd := range cmds {
		if cmd, ok := cmd.(*goredis.Cmd); ok && sent[i] != goredis.Cmder(cmd) {
			cmd.SetVal(sent[i].(*goredis.Cmd).Val())
			cmd.SetErr(sent[i].Err())
		}
	}
	return err
}

func (c clocked) scripted(ctx context.Context, name, script string, args []any) *goredis.Cmd {
	all := append([]any{name, script}, args[2:]...)
	return goredis.NewCmd(ctx, append(all, c.at.Load())...)
}

// flushedStore is a replica with a clock that its callers set. It flushes after each decision.
type flushedStore struct {
	*redis.Store
	*clock
}

// Decide implements store.Store.
func (s flushedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, longTimeout)
	defer cancel()
	s.set(now)
	d, err := s.Store.Decide(ctx, now, w, l)
	s.Flush(ctx)
	return d, err
}

// Claim implements store.Queue.
func (s flushedStore) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	s.set(now)
	return s.Store.Claim(ctx, now, ahead, n, claimed)
}

// Complete implements store.Queue.
func (s flushedStore) Complete(ctx context.Context, now time.Time, w store.PendingWrite, o store.Outcome) error {
	s.set(now)
	return s.Store.Complete(ctx, now, w, o)
}

// stores makes independent stores in one Redis.
type stores struct {
	client *redisclient.Client
	serial atomic.Int64
}

func (s *stores) prefix() string { return fmt.Sprint("test-", s.serial.Add(1), ":") }

func (s *stores) fresh(t *testing.T) storetest.Subject {
	t.Helper()
	return s.bounded(t, store.Bounds{})
}

func (s *stores) bounded(t *testing.T, b store.Bounds) storetest.Subject {
	t.Helper()
	c := &clock{}
	o := redis.Options{Prefix: s.prefix(), Now: c.now, StepTimeout: longTimeout, Bounds: b}
	return flushedStore{redis.New(newClocked(t, s.client, c), o), c}
}

// standalone starts one Redis server.
func standalone(t testing.TB) *stores {
	t.Helper()
	return &stores{client: connect(t, redistest.Start(t, redistest.Options{}).Addr())}
}

// claimAll claims all pending writes.
func claimAll(t *testing.T, s store.Queue) []store.PendingWrite {
	t.Helper()
	writes, err := s.Claim(t.Context(), time.Now(), math.MaxInt64, math.MaxInt, noneClaimed)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return writes
}

func noneClaimed(string, store.Key) bool { return false }

// replica is a store whose Run runs until stop.
type replica struct {
	*redis.Store
	stop func()
}

func newReplica(t *testing.T, address string) *replica {
	t.Helper()
	lost := func(_ time.Time, _ string, _ store.Key, d *engine.Drops) {
		t.Errorf("%d occurrences were not reported", d.Total)
	}
	s := redis.New(connect(t, address), redis.Options{Prefix: "test:", OnUnreported: lost})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	r := &replica{Store: s, stop: func() {
		cancel()
		running.Wait()
	}}
	t.Cleanup(r.stop)
	return r
}
