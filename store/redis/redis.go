// Package redis is the store that replicas share. Redis keeps the state; store/engine decides, on copies.
//
// A register has the state of one user's Events from one source about one object, under one key: a version and a group of
// store/engine. The state of a quota's token bucket is two numbers under another key. One sorted set, the index, has the
// registers with pending writes. All keys of a store share a hash tag, so one script can change them together.
//
// A replica decides a write on its cached copies of the register and the buckets, and sends one attempt. The attempt has
// the new register, the version that it was made from, and the tokens that it takes. If the version still matches and
// every bucket has its tokens, Redis writes register, index and buckets. Otherwise Redis changes nothing and returns the
// current register and buckets, on which the replica decides again. So a refused Event takes no token. A bucket that is
// known to be empty refuses without an attempt, because other replicas only take tokens. If the Event repeats one that
// another replica may have counted, and its register is not cached, the replica reads the register first.
//
// Calls for a register that arrive while an attempt is under way share the next attempt. Decisions that Redis may not have
// wait in the backlog of their register, in order: those made while Redis was unavailable, and those of an attempt whose
// answer was lost. They go first in the next attempt. A register remembers the number of the last attempt of each process.
// So its answer shows whether Redis carried the lost attempt out; if it did, the items leave the backlog. Registers live
// longer than attempts are repeated.
//
// A settler reads the index page by page, picks registers, and reads them by a script that corrects the index.
//
// The store is as durable as Redis. Changes are lost if Redis has acknowledged them and its server dies before it has
// written them to disk or to a replica.
package redis

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redisclient"
)

//go:embed step.lua
var source string

var script = redisclient.NewScript(source) //nolint:gochecknoglobals // it never changes

// DefaultPrefix is a Prefix for a Redis that only one eventquota uses.
const DefaultPrefix = "eventquota:"

// Options are the settings of a Store.
type Options struct {
	// Prefix is the prefix of all keys.
	Prefix string
	// NoSettler turns off pending writes, as no settler would write them.
	NoSettler bool
	// OnUnreported takes the decisions that this replica could not report to Redis: it stopped, they waited too long, or the
	// backlog of their namespace is full. Nil discards them.
	OnUnreported func(now time.Time, namespace string, register store.Key, d *engine.Drops)
	// OnDeferred is called for each decision that goes to the backlog. It must not block, and may be nil.
	OnDeferred func()
	OnBacklog  func(n int)
	// OnError is called for a panic, with its stack, and once for each register that cannot be read, which is decided without
	// Redis. It must not block, and may be nil.
	OnError func(err error)
	// StepTimeout bounds an answer of Redis, and a call whose caller sets no deadline. 0 or less means 200 ms.
	StepTimeout time.Duration
	// Bounds are the bounds of each namespace.
	Bounds store.Bounds
	// Now is the clock of this process; nil for the real clock.
	Now func() time.Time
}

// Store is a store.Store and store.Queue in Redis. Make one with New and call Run once.
type Store struct {
	client  redisclient.Caller
	opts    Options
	steps   *store.StepIDs
	prefix  string // of all keys, with the hash tag
	index   string
	process string // of its attempts, see store.StepIDs

	clock       clock
	claimOffset atomic.Int64 // position in the index at which the next claim begins
	// correctOffset is the position at which the next correction begins, in the part of the index that is due later.
	correctOffset atomic.Int64
	turns         engine.RoundRobin
	cache         *registerCache
	buckets       *bucketCache
	overBounds    *recentKeys // buckets and registers that Redis refused to create, as their namespace had reached its limit
	unreadable    *recentKeys // registers that a claim could not read
	backlog       *backlog
	flushing      chan struct{}  // has an element during a Flush, so that another one waits
	serving       sync.WaitGroup // counts goroutines that serve a cached register
	stopping      atomic.Bool    // attempts ignore the circuit breaker
	stopped       atomic.Bool    // no further attempt begins
	panicOnce     sync.Once      // reports the first panic
	buffers       sync.Pool      // has *[]byte, for messages
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New returns a store that keeps its state in the Redis of client.
func New(client redisclient.Caller, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnDeferred == nil {
		o.OnDeferred = func() {}
	}
	if o.OnBacklog == nil {
		o.OnBacklog = func(int) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.OnUnreported == nil {
		o.OnUnreported = func(time.Time, string, store.Key, *engine.Drops) {}
	}
	o.StepTimeout = max(o.StepTimeout, 200*time.Millisecond)
	s := &Store{client: client, opts: o, steps: store.NewStepIDs(), flushing: make(chan struct{}, 1)}
	tag := store.KeyOf("hash tag", o.Prefix)
	s.buffers.New = func() any { return new([]byte) }
	s.prefix = o.Prefix + "{" + hex.EncodeToString(tag[:3]) + "}:"
	s.index, s.process = s.prefix+"due", string(s.steps.Process[:])
	s.cache = newRegisterCache(registerCacheBytes)
	s.buckets, s.overBounds, s.unreadable = newBucketCache(o.Bounds), newRecentKeys(overBoundsTTL), newRecentKeys(unreadableTTL)
	s.backlog = newBacklog(backlogBytes)
	return s
}

// Prefixes of the keys of registers and buckets.
const groupPrefix, quotaPrefix = "g:", "q:"

func (s *Store) groupKey(group store.Key) string { return s.key(groupPrefix, &group) }

func (s *Store) quotaKey(quota store.Key) string { return s.key(quotaPrefix, &quota) }

func (s *Store) key(kind string, of *store.Key) string {
	var text [128]byte // prefixes are short, so only the key itself is allocated
	return string(s.appendKey(text[:0], kind, of))
}

func (s *Store) appendKey(b []byte, kind string, of *store.Key) []byte {
	return base64.RawURLEncoding.AppendEncode(append(append(b, s.prefix...), kind...), of[:])
}

// run runs the script, and sets the clock by its answer.
func (s *Store) run(ctx context.Context, keys []string, args ...any) ([]any, error) {
	answer, err := script.Run(ctx, s.client, keys, args...)
	if err != nil {
		return nil, err
	}
	var now int64
	if err := scan(answer, &now); err != nil {
		return nil, err
	}
	s.clock.set(now, s.opts.Now())
	return answer, nil
}

// bounded returns ctx, with StepTimeout as its timeout if it has no deadline.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.opts.StepTimeout)
}

// clock is the clock of Redis: the TIME in its last answer plus the time since then by the monotonic clock of this process.
// It lags by the latency of that answer. Before the first answer it is the clock of this process; a step that is
// too early or too late corrects that.
type clock struct {
	mu         sync.Mutex
	at         int64     // microseconds of Unix time
	answeredAt time.Time // when that answer arrived; zero if there was none yet
}

// now returns the time of Redis, given the time of this process.
func (c *clock) now(here time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answeredAt.IsZero() {
		return here.Truncate(time.Microsecond)
	}
	return time.UnixMicro(c.at).Add(here.Sub(c.answeredAt)).Truncate(time.Microsecond).UTC()
}

// set sets the clock by an answer.
func (c *clock) set(at int64, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.answeredAt = at, here
}
