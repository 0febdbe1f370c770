// Package redis is the store that many replicas share. Redis keeps the state; store/engine decides, on copies.
//
// Everything about one user's Events from one source about one object is one register under one key: a version and a
// group of store/engine. The level of a quota's token bucket is two numbers under another key, and one sorted set, the index,
// has the registers in which something is due. All keys of a store share a hash tag, so one script can change them together.
//
// A replica decides a write on its copies of the register and of the levels, and sends one attempt: the register as it is
// to be, the version that it was made from, and the tokens that it takes. Redis carries it out if the version still
// matches and every bucket has its tokens; then it writes register, index and levels. Otherwise it writes nothing and
// answers with the current register and levels, on which the replica decides again. So an Event that is refused costs no
// bucket anything, and one that a bucket refuses which is known to be empty makes no attempt: others only take tokens. Where it
// repeats what another replica may have counted, and nothing is known of its register here, the register is read first.
//
// Calls that come for a register while an attempt is under way go together in the next one. What Redis does not surely
// know waits in the backlog of its register, in the order in which it was decided: decisions made while Redis was away, and
// those of an attempt whose answer was lost. They go first in the next attempt. A register remembers the number of the
// last attempt of each process, so the answer to that says whether the lost one was carried out; it is then struck.
// A register lives longer than such an attempt is repeated.
//
// A settler reads the index page by page, picks registers, and reads them in a script that corrects the index.
//
// The store is as durable as Redis: what Redis acknowledged but had not written to disk or to a replica when its
// server died is lost.
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

var script = redisclient.NewScript(source) //nolint:gochecknoglobals // as good as a constant

// DefaultPrefix is a Prefix for a Redis that is shared with nobody.
const DefaultPrefix = "eventquota:"

// Options are the settings of a Store.
type Options struct {
	// Prefix begins the name of each key.
	Prefix string
	// NoSettler says that nobody settles what is stored, so that nothing is kept pending.
	NoSettler bool
	// OnUnreported takes what this replica could not report to Redis before it stopped, within the longest
	// wait, or because the namespace has too many reports. Nil drops it.
	OnUnreported func(now time.Time, namespace string, register store.Key, d *engine.Drops)
	// OnDeferred is called for each decision that becomes a report, and Waiting with the number
	// of registers of which something was decided that Redis does not surely know. They must not block, and may be nil.
	OnDeferred func()
	OnBacklog  func(n int)
	// OnError is called with each error that is not of Redis: once for a register that cannot be read, which is decided
	// without Redis, and for a panic with its stack. It must not block, and may be nil.
	OnError func(err error)
	// StepTimeout is how long Redis may take to answer, and a call whose caller sets no deadline. Less is 200 ms.
	StepTimeout time.Duration
	// Bounds are those of each namespace.
	Bounds store.Bounds
	// Now is the clock of this process. Nil for the real one.
	Now func() time.Time
}

// Store is a store.Store and store.Queue in Redis. Make one with New and call Run once.
type Store struct {
	client  redisclient.Caller
	opts    Options
	steps   *store.StepIDs
	prefix  string // of all keys, with their hash tag
	index   string
	process string // of its attempts, see store.StepIDs

	clock       clock
	claimOffset atomic.Int64 // where in the index the next claim begins
	// correctOffset is where in the part of the index that is due later the next correction begins.
	correctOffset atomic.Int64
	turns         engine.RoundRobin
	cache         *registerCache
	buckets       *bucketCache
	overBounds    *overBounds
	backlog       *backlog
	serving       sync.WaitGroup // of goroutines that serve a line
	stopping      atomic.Bool    // attempts are made whatever a circuit breaker says
	stopped       atomic.Bool    // no attempt is begun any more
	panicOnce     sync.Once      // of a panic
	buffers       sync.Pool      // of *[]byte, in which messages are made
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New makes a store that keeps its state in the Redis of client.
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
	s := &Store{client: client, opts: o, steps: store.NewStepIDs()}
	tag := store.KeyOf("hash tag", o.Prefix)
	s.buffers.New = func() any { return new([]byte) }
	s.prefix = o.Prefix + "{" + hex.EncodeToString(tag[:3]) + "}:"
	s.index, s.process = s.prefix+"due", string(s.steps.Process[:])
	s.cache = newRegisterCache(registerCacheBytes)
	s.buckets, s.overBounds = newBucketCache(o.Bounds), newOverBounds()
	s.backlog = newBacklog(backlogBytes)
	return s
}

// Kinds of the keys of registers and buckets.
const groupPrefix, quotaPrefix = "g:", "q:"

func (s *Store) groupKey(group store.Key) string { return s.key(groupPrefix, &group) }

func (s *Store) quotaKey(quota store.Key) string { return s.key(quotaPrefix, &quota) }

func (s *Store) key(kind string, of *store.Key) string {
	var text [128]byte // prefixes are short, and then the key is all that is allocated
	return string(s.appendKey(text[:0], kind, of))
}

func (s *Store) appendKey(b []byte, kind string, of *store.Key) []byte {
	return base64.RawURLEncoding.AppendEncode(append(append(b, s.prefix...), kind...), of[:])
}

// run runs the script, and takes the time of its answer.
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

// bounded is ctx, with StepTimeout as its deadline if it has none.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.opts.StepTimeout)
}

// clock is that of Redis: the TIME in its last answer and what has passed since by the monotonic clock of this process.
// It lags by the time that the answer took to come. Before the first answer it is the clock of this process,
// which a step that is too early or too late corrects.
type clock struct {
	mu         sync.Mutex
	at         int64     // microseconds of Unix time
	answeredAt time.Time // when that answer came; zero for none yet
}

// now is the time at Redis, given the time of this process.
func (c *clock) now(here time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answeredAt.IsZero() {
		return here.Truncate(time.Microsecond)
	}
	return time.UnixMicro(c.at).Add(here.Sub(c.answeredAt)).Truncate(time.Microsecond).UTC()
}

// set takes the time of an answer.
func (c *clock) set(at int64, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.answeredAt = at, here
}
