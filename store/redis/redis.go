// Package redis is the store that many replicas share. Redis keeps the state; store/rules decides, on copies.
//
// Everything about one user's Events from one source about one object is one register under one key: a version and a
// group of store/rules. The level of a quota's token bucket is two numbers under another key, and one sorted set, the index,
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
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
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
	// Unsettled says that nobody settles what is stored, so that nothing is kept pending.
	Unsettled bool
	// Unreported takes what this replica could not report to Redis before it stopped, within the longest
	// wait, or because the namespace has too many reports. Nil drops it.
	Unreported func(now time.Time, namespace string, register store.Key, d *rules.Drops)
	// Reported is called for each decision that becomes a report, and Waiting with the number
	// of registers of which something was decided that Redis does not surely know. They must not block, and may be nil.
	Reported func()
	Waiting  func(n int)
	// Problem is called with each error that is not of Redis: once for a register that cannot be read, which is decided
	// without Redis, and for a panic with its stack. It must not block, and may be nil.
	Problem func(err error)
	// StepTimeout is how long Redis may take to answer, and a call whose caller sets no deadline. Less is 200 ms.
	StepTimeout time.Duration
	// Bounds are those of each namespace.
	Bounds store.Bounds
	// Now is the clock of this process. Nil for the real one.
	Now func() time.Time
}

// Store is a store.Store and store.Queue in Redis. Make one with New and call Run once.
type Store struct {
	client redisclient.Caller
	opts   Options
	steps  *store.Steps
	prefix string // of all keys, with their hash tag
	index  string

	clock  clock
	looked atomic.Int64 // where in the index the next claim begins
	// corrected is where in the part of the index that is due later the next correction begins.
	corrected atomic.Int64
	turns     rules.Turns
	lines     *lines
	buckets   *buckets
	over      *over
	backlog   *backlog
	serving   sync.WaitGroup // of goroutines that serve a line
	stopping  atomic.Bool    // attempts are made whatever a circuit breaker says
	stopped   atomic.Bool    // no attempt is begun any more
	once      sync.Once      // of a panic
	buffers   sync.Pool      // of *[]byte, in which registers are encoded
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
	if o.Reported == nil {
		o.Reported = func() {}
	}
	if o.Waiting == nil {
		o.Waiting = func(int) {}
	}
	if o.Problem == nil {
		o.Problem = func(error) {}
	}
	if o.Unreported == nil {
		o.Unreported = func(time.Time, string, store.Key, *rules.Drops) {}
	}
	o.StepTimeout = max(o.StepTimeout, 200*time.Millisecond)
	s := &Store{client: client, opts: o, steps: store.NewSteps()}
	tag := store.KeyOf("hash tag", o.Prefix)
	s.buffers.New = func() any { return new([]byte) }
	s.prefix = o.Prefix + "{" + hex.EncodeToString(tag[:3]) + "}:"
	s.index = s.prefix + "due"
	s.lines = newLines(linesBytes)
	s.buckets, s.over = newBuckets(o.Bounds), newOver()
	s.backlog = newBacklog(backlogBytes)
	return s
}

func (s *Store) groupKey(group store.Key) string { return s.key("g:", &group) }

func (s *Store) quotaKey(quota store.Key) string { return s.key("q:", &quota) }

func (s *Store) key(kind string, of *store.Key) string {
	var text [128]byte // prefixes are short, and then the key is all that is allocated
	b := append(append(text[:0], s.prefix...), kind...)
	return string(base64.RawURLEncoding.AppendEncode(b, of[:]))
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

// Decide implements store.Store. It ignores the caller's time, as the clock is that of Redis. It makes one attempt
// unless others get ahead of it, and none for what it knows to be refused. A decision that comes with
// store.ErrUnconfirmed stands.
func (s *Store) Decide(ctx context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	quotas := l.Quotas
	d, err := s.decide(ctx, &w, &l)
	d.NoPlace = overflown(quotas, l.Quotas)
	if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
		return store.Decision{}, fmt.Errorf("step of a group: %w", err)
	}
	s.reportQuotaDrop(&w, &l, d)
	return d, err
}

// decide decides a write by what is known here if that is certain, and by an attempt if not.
func (s *Store) decide(ctx context.Context, w *store.Write, l *store.Limits) (store.Decision, error) {
	for asked := false; ; asked = true {
		g := s.guess(w, l)
		if g.Verdict == store.Drop && !g.changed && !g.known && w.Count > 1 && !asked {
			// Another replica may have counted what came before, and know an Event into which this is merged.
			under, err := s.look(ctx, w)
			if err != nil {
				return store.Decision{}, err
			}
			if !under {
				continue
			}
			g.changed = true // what the attempt under way finds decides
		}
		switch {
		case g.Verdict == store.Drop && g.known && g.Empty == &l.Spam && !l.ChargeMerged:
			// The group's own bucket can only have become emptier since the copy was made. The decision becomes a report.
			s.report(w, l, g.Decision, g.at)
			g.Unasked = true
			return g.Decision, nil
		case g.Verdict == store.Drop && !g.changed: // by a quota, and there is nothing to write down of it
			g.Unasked = !asked
			return g.Decision, nil
		case !g.Verdict.Admits() || g.changed:
			d, err := s.do(ctx, w.Group, &call{namespace: w.Namespace, Op: rules.Op{Write: *w, Limits: l}})
			if ctx.Err() == nil && errors.Is(err, errNoPlace) {
				continue
			}
			return d, err
		}
		taken, err := s.take(ctx, w.Namespace, l.Quotas)
		switch {
		case err != nil && redisclient.NotRun(err):
			return store.Decision{}, err
		case err != nil:
			return g.Decision, errors.Join(store.ErrUnconfirmed, err) // the tokens are spent
		case taken:
			return g.Decision, nil
		case ctx.Err() != nil:
			return store.Decision{}, fmt.Errorf("%w: %w", store.ErrCrowded, ctx.Err())
		}
	}
}

// look takes over what Redis has of a register of which nothing is known here. Where an attempt is under way, that does so.
func (s *Store) look(ctx context.Context, w *store.Write) (underWay bool, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, values, err := s.peek(ctx, []string{s.groupKey(w.Group)})
	if err != nil {
		return false, err
	}
	r, err := decode(values[0])
	if !r.version.IsZero() {
		s.over.forget(w.Group)
	}
	s.use(w.Namespace, w.Group, func(ln *line) {
		s.unreadable(ln, err)
		underWay = ln.busy
		if err == nil && ln.copy.version.IsZero() && !underWay {
			ln.copy = r
		}
	})
	return underWay, err
}

// guess is what would become of a write, and whether that would change its group.
type guess struct {
	store.Decision
	changed bool
	known   bool // by a copy of the group; as its first if there is none
	at      time.Time
}

// guess decides a write by the copies of its group and of its quotas, which it does not change, under limits that become those
// for which there are places. Where every bucket has a token
// as far as is known, Redis has to say what becomes of it: then the guess is only that it changes the group.
func (s *Store) guess(w *store.Write, l *store.Limits) guess {
	with := s.wallet(w.Namespace)
	r, unrecorded := guess{at: with.now}, s.over.has(w.Group, with.here)
	if unrecorded {
		l.Unrecorded(w)
	}
	s.overflow(w.Namespace, l, with.here)
	grants := with.ask(l.Quotas)
	if unrecorded {
		r.Decision = rules.DecideUnrecorded(w, l, grants)
		return r
	}
	tokens := !slices.ContainsFunc(grants, func(g rules.Grant) bool { return !g.OK })
	s.lines.look(w.Group, func(g *rules.Group) {
		if r.known = g != nil && !g.Expired(r.at); !r.known {
			g = &rules.Group{}
		}
		if r.changed = tokens && (l.Merge || w.Update != nil) && hasToken(g, l, r.at); !r.changed {
			r.Decision, r.changed = g.Clone().Decide(r.at, store.Key{}, *w, l, grants)
		}
	})
	return r
}

// hasToken reports whether the spam filter of a group has a token.
func hasToken(g *rules.Group, l *store.Limits, now time.Time) bool {
	if l.Spam.Key.IsZero() {
		return true
	}
	_, grant := g.Spam(l.Spam.Key).Take(l.Spam.Limit, now)
	return grant.OK
}

// reportQuotaDrop reports what a quota has refused to the notice of that quota.
func (s *Store) reportQuotaDrop(w *store.Write, l *store.Limits, d store.Decision) {
	if d.Verdict != store.Drop || d.Empty == &l.Spam || d.Occurrences <= 0 || d.Empty.Silent {
		return
	}
	now := s.opts.Now()
	drops := rules.Dropped(now, *w, l, d.Empty, d.Occurrences)
	s.backlog.drop(now, w.Namespace, rules.NoticeKey(d.Empty), &drops)
	s.opts.Reported()
}

// DecideLocally decides a write while Redis is unavailable, by what this replica knows of its group and
// quotas. The decision becomes a report.
func (s *Store) DecideLocally(w store.Write, l store.Limits) store.Decision {
	with := s.wallet(w.Namespace)
	with.local = true
	fresh, quotas := s.steps.Next(), l.Quotas
	var d store.Decision
	s.locally(w.Namespace, w.Group, with.now, fresh, func(g *rules.Group) {
		unrecorded := g.Namespace == "" && s.backlog.full(w.Namespace, w.Group, s.opts.Bounds.RegistersOf(w.Namespace))
		if unrecorded {
			l.Unrecorded(&w)
		}
		l.Overflow(w.Namespace, func(b *store.Bucket) bool { return s.buckets.fits(w.Namespace, b.Key, with.now) })
		grants := with.ask(l.Quotas)
		if unrecorded {
			d = rules.DecideUnrecorded(&w, &l, grants)
			return
		}
		var changed bool
		if d, changed = g.Decide(with.now, fresh, w, &l, grants); changed {
			s.report(&w, &l, d, with.now)
		}
	})
	d.NoPlace = overflown(quotas, l.Quotas)
	if pays(d) {
		for i := range l.Quotas {
			s.buckets.force(w.Namespace, &l.Quotas[i], with.now)
		}
	}
	s.reportQuotaDrop(&w, &l, d)
	return d
}

// report makes a decision a report to its group.
func (s *Store) report(w *store.Write, l *store.Limits, d store.Decision, at time.Time) {
	s.backlog.add(s.opts.Now(), w.Namespace, w.Group, decided(&rules.Op{Write: *w, Limits: l, Decision: d, At: at}))
	s.opts.Reported()
}

// clock is that of Redis: the TIME in its last answer and what has passed since by the monotonic clock of this process.
// It lags by the time that the answer took to come. Before the first answer it is the clock of this process,
// which a step that is too early or too late corrects.
type clock struct {
	mu   sync.Mutex
	at   int64     // microseconds of Unix time
	seen time.Time // when that answer came; zero for none yet
}

// now is the time at Redis, given the time of this process.
func (c *clock) now(here time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() {
		return here.Truncate(time.Microsecond)
	}
	return time.UnixMicro(c.at).Add(here.Sub(c.seen)).Truncate(time.Microsecond).UTC()
}

// set takes the time of an answer.
func (c *clock) set(at int64, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.seen = at, here
}
