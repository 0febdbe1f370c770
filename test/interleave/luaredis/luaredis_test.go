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

// longer is added to each expiry on the real server, whose clock is not that of the test, in milliseconds.
const longer = 100_000_000

// comparingCaller sends each command to the real server and to the one in process, and holds the answers to each other. The real server
// gets scripts that read the time that the other has.
type comparingCaller struct {
	t    *testing.T
	mine *luaredis.Server
	real *goredis.Client

	mu   sync.Mutex
	now  time.Time
	sums map[string]string // sources as the real server gets them, by the hash of the script
	sent int
}

func newComparingCaller(t *testing.T) *comparingCaller {
	t.Helper()
	b := &comparingCaller{t: t, now: time.Unix(1_700_000_000, 0), sums: map[string]string{}}
	b.real = goredis.NewClient(&goredis.Options{Protocol: 2, Addr: redistest.Start(t, redistest.Options{}).Addr()})
	t.Cleanup(func() { _ = b.real.Close() })
	b.mine = luaredis.NewServer(luaredis.NewEngine(), func() time.Time { return b.now })
	return b
}

var (
	clock  = regexp.MustCompile(`redis\.call\('TIME'\)`)
	expiry = regexp.MustCompile(`'PX', `)
)

// Call implements redisclient.Caller.
func (b *comparingCaller) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.mine.Call(ctx, cmds...)
	for _, cmd := range cmds {
		if goredis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			continue // the next one brings the source
		}
		b.compare(ctx, cmd)
	}
	return err
}

func (b *comparingCaller) compare(ctx context.Context, cmd goredis.Cmder) {
	args := cmd.Args()
	if name := args[0]; name == "eval" || name == "evalsha" {
		sum := fmt.Sprint(args[1])
		if name == "eval" {
			source := sum
			sum = goredis.NewScript(source).Hash()
			source = clock.ReplaceAllString(source, `{ARGV[#ARGV - 1], ARGV[#ARGV]}`)
			b.sums[sum] = expiry.ReplaceAllString(source, fmt.Sprintf("'PX', %d + ", longer))
		}
		us := b.now.UnixMicro()
		args = append(append([]any{"eval", b.sums[sum]}, args[2:]...), us/1e6, us%1e6)
	}
	want := goredis.NewCmd(ctx, args...)
	_ = b.real.Process(ctx, want)
	got := answerOf(cmd)
	if !reflect.DeepEqual(got, want.Val()) || said(cmd.Err()) != said(want.Err()) {
		b.t.Errorf("%.300q answers %q, %v; a real server %q, %v", args, got, cmd.Err(), want.Val(), want.Err())
	}
	b.sent++
}

// answerOf is the answer that a command has got.
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

// said is the first word of an error.
func said(err error) string {
	if err == nil {
		return ""
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}

// pass lets time pass. What expires on the clock of the test is deleted on the real server.
func (b *comparingCaller) pass(to time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := append(b.mine.Keys(false), b.mine.Keys(true)...)
	b.now = to
	for _, key := range before {
		if !b.mine.Has([]string{key}) {
			b.real.Del(context.Background(), key)
		}
	}
}

// subject is a store whose commands go to both.
type subject struct {
	*redis.Store
	*comparingCaller
}

// Decide implements store.Store.
func (s subject) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	s.pass(now)
	d, err := s.Store.Decide(ctx, now, w, l)
	s.Flush(ctx)
	return d, err
}

// Claim implements store.Queue.
func (s subject) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	s.pass(now)
	return s.Store.Claim(ctx, now, ahead, n, claimed)
}

// Complete implements store.Queue.
func (s subject) Complete(ctx context.Context, now time.Time, w store.PendingWrite, o store.Outcome) error {
	s.pass(now)
	return s.Store.Complete(ctx, now, w, o)
}

var _ redisclient.Caller = (*comparingCaller)(nil)

// What the store sends, the one in process answers as a real server does, at the same time.
func TestStoreCommandsMatchRedis(t *testing.T) {
	b, stores := newComparingCaller(t), 0
	fresh := func(*testing.T) storetest.Subject {
		stores++
		o := redis.Options{Prefix: fmt.Sprint("test-", stores, ":"), StepTimeout: time.Minute, Now: func() time.Time {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.now
		}}
		return subject{redis.New(b, o), b}
	}
	storetest.Simulate(t, storetest.Faults{Deletions: true}, storetest.Seeds{First: 1, Runs: 13, Steps: 150}, fresh)
	if b.sent < 1000 {
		t.Errorf("%d commands were compared, want 1000 at least", b.sent)
	}
}

// Random commands, most of them sensible, are answered as by a real server, and leave the same expiries.
func TestRandomCommandsMatchRedis(t *testing.T) {
	b, rng := newComparingCaller(t), rand.New(rand.NewPCG(1, 1))
	one := func(of ...string) any { return of[rng.IntN(len(of))] }
	for range 5000 {
		key, n := one("a", "b", "c"), rng.IntN(5)
		commands := [][]any{
			{"set", key, n}, {"set", key, "x", "px", 1_000_000 + n}, {"set", key, "y", "keepttl"}, {"set", key, "z", one("nx", "xx")},
			{"get", key}, {"del", key}, {"exists", key, "a"}, {"strlen", key}, {"getrange", key, n - 3, n - 1}, {"mget", key, "d"},
			{"zadd", key, rng.IntN(9), one("p", "q", "r")}, {"zadd", key, 1.5, "p", 1 << 51, "q"}, {"zrem", key, "p", "r"},
			{"zscore", key, one("p", "s")}, {"zcard", key}, {"zcount", key, n, "(7"},
			{"zrangebyscore", key, "-inf", "+inf", "withscores"}, {"zrangebyscore", key, fmt.Sprint("(", n), 6, "limit", 1, n - 1},
			{"zadd", key, "x", "p"}, {"get"}, {"pexpire", key, 1_000_000 + n}, {"set", key, "x", "px", 0}, {"set", key, "x", "what"},
			{"eval", "return {1, 'a', false, true, 2.9, {3, nil, 4}, redis.status_reply('fine')}", 0},
			{"eval", "return redis.call('SET', KEYS[1], 2^52 + 1)", 1, key}, {"eval", "return redis.error_reply('BAD luck')", 0},
			{"eval", "return redis.pcall('ZADD', KEYS[1], 'x', 'y')['err'] ~= nil", 1, key}, {"eval", "x = 1", 0},
			{"eval", "return string.format('%.0f %016.0f', 2^53, 7)", 0}, {"eval", "return {KEYS[1], ARGV[2], #ARGV}", 1, key, "m", n},
		}
		cmd := goredis.NewCmd(t.Context(), commands[rng.IntN(len(commands))]...)
		if err := b.mine.Call(t.Context(), cmd); err != nil && !errors.Is(err, goredis.Nil) && said(err) == "redis:" {
			t.Fatal(err)
		}
		want := goredis.NewCmd(t.Context(), cmd.Args()...)
		_ = b.real.Process(t.Context(), want)
		if !reflect.DeepEqual(answerOf(cmd), want.Val()) || said(cmd.Err()) != said(want.Err()) {
			t.Fatalf("%q answers %v, %v; a real server %v, %v", cmd.Args(), answerOf(cmd), cmd.Err(), want.Val(), want.Err())
		}
		mine, err := b.mine.Do("pttl", key)
		left, realErr := b.real.Do(t.Context(), "pttl", key).Int64()
		if err != nil || realErr != nil || (mine == int64(-1)) != (left == -1) || (mine == int64(-2)) != (left == -2) {
			t.Fatalf("after %q %v is left of %v, %v; of a real server %v, %v", cmd.Args(), mine, key, err, left, realErr)
		}
	}
}

// The slots are those that redis.io gives for these keys, and that CLUSTER KEYSLOT of a real server does.
func TestSlotsMatchRedisCluster(t *testing.T) {
	for key, want := range map[string]int{"123456789": 12739, "foo": 12182, "a{foo}b": 12182, "bar": 5061, "{bar}{foo}": 5061, "somekey": 11058} {
		if slot := luaredis.Slot(key); slot != want {
			t.Errorf("%q is in slot %d, want %d", key, slot, want)
		}
	}
	if luaredis.Slot("foo{}{bar}") == luaredis.Slot("bar") {
		t.Error("an empty tag counts")
	}
}
