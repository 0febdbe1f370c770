package luaredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/interleave/luaredis"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// extraTTL is added to each expiry on the real server, in milliseconds, as its clock is not the test's.
const extraTTL = 100_000_000

// comparingCaller sends each command to a real server and to the in-process one, and compares the answers. The scripts of
// the real server read the time of the in-process one.
type comparingCaller struct {
	t         *testing.T
	inProcess *luaredis.Server
	real      *goredis.Client

	mu   sync.Mutex
	now  time.Time
	sums map[string]string // sources for the real server, by the hash of the original script
	sent int
}

func newComparingCaller(t *testing.T) *comparingCaller {
	t.Helper()
	c := &comparingCaller{t: t, now: time.Unix(1_700_000_000, 0), sums: map[string]string{}}
	c.real = goredis.NewClient(&goredis.Options{Protocol: 2, Addr: redistest.Start(t, redistest.Options{}).Addr()})
	t.Cleanup(func() { _ = c.real.Close() })
	c.inProcess = luaredis.NewServer(luaredis.NewEngine(), func() time.Time { return c.now })
	return c
}

var (
	clock  = regexp.MustCompile(`redis\.call\('TIME'\)`)
	expiry = regexp.MustCompile(`'PX', `)
)

// Call implements redisclient.Caller.
func (c *comparingCaller) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.inProcess.Call(ctx, cmds...)
	for _, cmd := range cmds {
		if goredis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			continue // the next command has the source
		}
		c.compare(ctx, cmd)
	}
	return err
}

func (c *comparingCaller) compare(ctx context.Context, cmd goredis.Cmder) {
	args := cmd.Args()
	if name := args[0]; name == "eval" || name == "evalsha" {
		sum := fmt.Sprint(args[1])
		if name == "eval" {
			source := sum
			sum = goredis.NewScript(source).Hash()
			source = clock.ReplaceAllString(source, `{ARGV[#ARGV - 1], ARGV[#ARGV]}`)
			c.sums[sum] = expiry.ReplaceAllString(source, fmt.Sprintf("'PX', %d + ", extraTTL))
		}
		us := c.now.UnixMicro()
		args = append(append([]any{"eval", c.sums[sum]}, args[2:]...), us/1e6, us%1e6)
	}
	want := goredis.NewCmd(ctx, args...)
	_ = c.real.Process(ctx, want)
	got := answerOf(cmd)
	if !reflect.DeepEqual(got, want.Val()) || errorWord(cmd.Err()) != errorWord(want.Err()) {
		c.t.Errorf("%.300q: got answer %q and error %v, but a real server returns %q and error %v", args, got, cmd.Err(), want.Val(), want.Err())
	}
	c.sent++
}

// answerOf returns the answer of a command.
func answerOf(cmd goredis.Cmder) any {
	if cmd.Err() != nil {
		return nil
	}
	switch cmd := cmd.(type) {
	case *goredis.Cmd:
		return cmd.Val()
	case *goredis.StringCmd:
		return cmd.Val()
	case *goredis.IntCmd:
		return cmd.Val()
	}
	return fmt.Sprintf("%T", cmd)
}

// errorWord returns the first word of an error.
func errorWord(err error) string {
	if err == nil {
		return ""
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}

// advanceTo sets the clock of the test, and deletes expired keys on the real server.
func (c *comparingCaller) advanceTo(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := append(c.inProcess.Keys(false), c.inProcess.Keys(true)...)
	c.now = to
	for _, key := range before {
		if !c.inProcess.Has([]string{key}) {
			c.real.Del(context.Background(), key)
		}
	}
}

// subject is a store that sends its commands to both servers.
type subject struct {
	*redis.Store
	*comparingCaller
}

// Decide implements store.Store.
func (s subject) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	s.advanceTo(now)
	d, err := s.Store.Decide(ctx, now, w, l)
	s.Flush(ctx)
	return d, err
}

// Claim implements store.Queue.
func (s subject) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	s.advanceTo(now)
	return s.Store.Claim(ctx, now, ahead, n, claimed)
}

// Complete implements store.Queue.
func (s subject) Complete(ctx context.Context, now time.Time, w store.PendingWrite, o store.Outcome) error {
	s.advanceTo(now)
	return s.Store.Complete(ctx, now, w, o)
}

var _ redisclient.Caller = (*comparingCaller)(nil)

// TestStoreCommandsMatchRedis compares the answers to a store's commands with those of a real server.
func TestStoreCommandsMatchRedis(t *testing.T) {
	c, stores := newComparingCaller(t), 0
	fresh := func(*testing.T) storetest.Subject {
		stores++
		o := redis.Options{Prefix: fmt.Sprint("test-", stores, ":"), StepTimeout: time.Minute, Now: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.now
		}}
		return subject{redis.New(c, o), c}
	}
	storetest.Simulate(t, storetest.Faults{Deletions: true}, storetest.Seeds{First: 1, Runs: 13, Steps: 150}, fresh)
	if c.sent < 1000 {
		t.Errorf("%d commands were compared, want at least 1000", c.sent)
	}
}

// TestRandomCommandsMatchRedis compares the answers to random commands, and the expiries after them, with those of a real
// server. Most of the commands are valid.
func TestRandomCommandsMatchRedis(t *testing.T) {
	c, rng := newComparingCaller(t), rand.New(rand.NewPCG(1, 1))
	pick := func(of ...string) any { return of[rng.IntN(len(of))] }
	for range 5000 {
		key, n := pick("a", "b", "c"), rng.IntN(5)
		commands := [][]any{
			{"set", key, n}, {"set", key, "x", "px", 1_000_000 + n}, {"set", key, "y", "keepttl"}, {"set", key, "z", pick("nx", "xx")},
			{"get", key}, {"del", key}, {"exists", key, "a"}, {"strlen", key}, {"getrange", key, n - 3, n - 1}, {"mget", key, "d"},
			{"zadd", key, rng.IntN(9), pick("p", "q", "r")}, {"zadd", key, 1.5, "p", 1 << 51, "q"}, {"zrem", key, "p", "r"},
			{"zscore", key, pick("p", "s")}, {"zcard", key}, {"zcount", key, n, "(7"},
			{"zrangebyscore", key, "-inf", "+inf", "withscores"}, {"zrangebyscore", key, fmt.Sprint("(", n), 6, "limit", 1, n - 1},
			{"zadd", key, "x", "p"}, {"get"}, {"pexpire", key, 1_000_000 + n}, {"set", key, "x", "px", 0}, {"set", key, "x", "what"},
			{"eval", "return {1, 'a', false, true, 2.9, {3, nil, 4}, redis.status_reply('fine')}", 0},
			{"eval", "return redis.call('SET', KEYS[1], 2^52 + 1)", 1, key}, {"eval", "return redis.error_reply('BAD luck')", 0},
			{"eval", "return redis.pcall('ZADD', KEYS[1], 'x', 'y')['err'] ~= nil", 1, key}, {"eval", "x = 1", 0},
			{"eval", "return string.format('%.0f %016.0f', 2^53, 7)", 0}, {"eval", "return {KEYS[1], ARGV[2], #ARGV}", 1, key, "m", n},
		}
		cmd := goredis.NewCmd(t.Context(), commands[rng.IntN(len(commands))]...)
		if err := c.inProcess.Call(t.Context(), cmd); err != nil && !errors.Is(err, goredis.Nil) && errorWord(err) == "redis:" {
			t.Fatal(err)
		}
		want := goredis.NewCmd(t.Context(), cmd.Args()...)
		_ = c.real.Process(t.Context(), want)
		if !reflect.DeepEqual(answerOf(cmd), want.Val()) || errorWord(cmd.Err()) != errorWord(want.Err()) {
			t.Fatalf("%q: got answer %v and error %v, but a real server returns %v and error %v", cmd.Args(), answerOf(cmd), cmd.Err(), want.Val(), want.Err())
		}
		inProcess, err := c.inProcess.Do("pttl", key)
		left, realErr := c.real.Do(t.Context(), "pttl", key).Int64()
		if err != nil || realErr != nil || (inProcess == int64(-1)) != (left == -1) || (inProcess == int64(-2)) != (left == -2) {
			t.Fatalf("after %q: got PTTL %v of %v and error %v, but a real server returns %v and error %v", cmd.Args(), inProcess, key, err, left, realErr)
		}
	}
}

// TestSlotsMatchRedisCluster checks slots that are documented on redis.io, or that CLUSTER KEYSLOT of a real server has returned.
func TestSlotsMatchRedisCluster(t *testing.T) {
	for key, want := range map[string]int{"123456789": 12739, "foo": 12182, "a{foo}b": 12182, "bar": 5061, "{bar}{foo}": 5061, "somekey": 11058} {
		if slot := luaredis.Slot(key); slot != want {
			t.Errorf("key %q: got slot %d, want %d", key, slot, want)
		}
	}
	if luaredis.Slot("foo{}{bar}") == luaredis.Slot("bar") {
		t.Error("a key with an empty hash tag is not hashed as a whole")
	}
}
