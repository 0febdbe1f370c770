package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// eventWrite returns the CREATE of the n-th Event with a message about an object. Its count is 1.
func eventWrite(object, message string, n int) store.Write {
	return store.Write{
		GroupKey: store.KeyOf("group", object), ObjectKey: store.KeyOf("object", object),
		ExactKey: store.KeyOf("exact", object, message), SimilarKey: store.KeyOf("similar", object), MessageKey: store.KeyOf(message),
		Namespace: "default", Name: fmt.Sprint(object, ".", n), Count: 1, FirstSeen: time.Now(), LastSeen: time.Now(), Text: message, Reason: "BackOff",
		InvolvedObject: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: object, UID: object + "-uid"},
		Source:         store.Source{Component: "kubelet", Host: "node"},
	}
}

// limits returns limits like those of the default policy, but no token refills during a test.
func limits(burst int) store.Limits {
	return store.Limits{
		Merge: true, SimilarThreshold: 100, Window: 10 * time.Minute, IdenticalWindow: time.Hour,
		WriteInterval: 10 * time.Second, MaxWriteInterval: 5 * time.Minute, KeepMessages: 5,
		SpamFilter: store.Bucket{Name: "spam filter", Key: store.KeyOf("spam"), Limit: store.Limit{Burst: burst, Every: 100 * time.Hour}},
	}
}

// quota returns a quota that all writes share.
func quota(burst int) store.Bucket {
	return store.Bucket{
		Name: "quota", Key: store.KeyOf("quota"), Limit: store.Limit{Burst: burst, Every: 100 * time.Hour},
		NoticeObject: store.Object{Kind: "ClusterEventQuota", Name: "quota"},
	}
}

// tallies count the verdicts of calls, by object.
type tallies struct {
	mu          sync.Mutex
	calls       int64
	admitted    map[string]int64
	unconfirmed int
}

func newTallies() *tallies { return &tallies{admitted: map[string]int64{}} }

func (c *tallies) add(object string, d store.Decision, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if d.Verdict.Admits() {
		c.admitted[object]++
	}
	if errors.Is(err, store.ErrUnconfirmed) {
		c.unconfirmed++
	}
}

// check compares the pending writes with the decisions: each call counts once.
func (c *tallies) check(t *testing.T, s store.Queue) {
	t.Helper()
	reported := int64(0)
	for _, admitted := range c.admitted {
		reported += admitted
	}
	for _, p := range claimAll(t, s) {
		reported += p.Total - p.Written
	}
	if reported != c.calls {
		t.Errorf("%d of %d occurrences reported", reported, c.calls)
	}
}

// TestLostAnswersCountOnce loses many answers of Redis. Each decision stands and counts once, whether its answer arrived
// or not.
func TestLostAnswersCountOnce(t *testing.T) {
	const wanted, most, objects, messages, burst = 1000, 50_000, 100, 6, 4
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.StartProxy(t, server.Addr())
	replicas := []*redis.Store{
		redis.New(connect(t, proxy.Addr().String()), redis.Options{Prefix: "test:", StepTimeout: longTimeout}),
		redis.New(connect(t, proxy.Addr().String()), redis.Options{Prefix: "test:", StepTimeout: longTimeout}),
	}
	l, count := limits(burst), newTallies()
	made := 0
	for count.unconfirmed < wanted && made < most {
		proxy.DropAnswers("EVALSHA")
		if made%4000 == 0 {
			proxy.DropAnswers("") // now and then all answers arrive
		}
		storetest.AtOnce(1000, func(i int) {
			object := fmt.Sprint("pod-", i%objects)
			w := eventWrite(object, fmt.Sprint(i%messages), made+i)
			ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
			defer cancel()
			d, err := replicas[i%2].Decide(ctx, time.Now(), w, l)
			if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
				t.Errorf("Decide: %v", err)
			}
			count.add(object, d, err)
		})
		made += 1000
	}
	proxy.DropAnswers("")
	if count.unconfirmed < wanted {
		t.Fatalf("%d answers of %d lost on %d connections, want %d", count.unconfirmed, made, proxy.Dropped.Load(), wanted)
	}
	for _, s := range replicas {
		s.Flush(t.Context())
	}
	t.Logf("%d calls, %d unconfirmed, %d connections", made, count.unconfirmed, proxy.Dropped.Load())
	count.check(t, replicas[0])
	for object, admitted := range count.admitted {
		key := eventWrite(object, "", 0).GroupKey
		state, err := replicas[0].Peek(t.Context(), []store.Key{key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		left := state.Groups[key].SpamState(l.SpamFilter.Key).Tokens(l.SpamFilter.Limit, state.At)
		if admitted > burst || left != burst-int(admitted) {
			t.Errorf("%s: %d admitted and %d tokens left of %d", object, admitted, left, burst)
		}
	}
}

// hookedCaller makes each call through the next of its hooks, if there is one.
type hookedCaller struct {
	redisclient.Caller

	hooks chan func(call func() error) error
}

// Call implements redisclient.Caller.
func (c hookedCaller) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	call := func() error { return c.Caller.Call(ctx, cmds...) }
	select {
	case hook := <-c.hooks:
		return hook(call)
	default:
		return call()
	}
}

// TestWaitBehindUnansweredAttemptFails has a call wait behind an attempt that Redis does not answer. Its error is a
// failure of Redis, not store.ErrBusy.
func TestWaitBehindUnansweredAttemptFails(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	client := hookedCaller{connect(t, server.Addr()), make(chan func(func() error) error, 1)}
	s, l := newStore(t, client), limits(100)
	decide(t, s, eventWrite("pod", "m", 0), l)
	sent := make(chan struct{})
	client.hooks <- func(call func() error) error {
		close(sent)
		return call()
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	first := make(chan error)
	go func() {
		_, err := s.Decide(t.Context(), time.Now(), eventWrite("pod", "first", 1), l)
		first <- err
	}()
	<-sent
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Decide(ctx, time.Now(), eventWrite("pod", "second", 2), l)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrBusy) {
		t.Errorf("%v, want DeadlineExceeded without ErrBusy", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestBacklogIsEmptyOnceAttemptIsResolved loses the answer of an attempt, and then fails a flush. The next flush shows
// the outcome, and the backlog is empty.
func TestBacklogIsEmptyOnceAttemptIsResolved(t *testing.T) {
	client := hookedCaller{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 2)}
	s, l := newStore(t, client), limits(100)
	decide(t, s, eventWrite("pod", "m", 0), l)
	client.hooks <- func(call func() error) error { return errors.Join(call(), errors.New("the answer is lost")) }
	if _, err := s.Decide(t.Context(), time.Now(), eventWrite("pod", "first", 1), l); !errors.Is(err, store.ErrUnconfirmed) {
		t.Fatalf("Decide: %v, want ErrUnconfirmed", err)
	}
	client.hooks <- func(func() error) error { return errors.New("Redis is unavailable") }
	s.Flush(t.Context())
	s.Flush(t.Context())
	if n := s.Waiting(); n != 0 {
		t.Errorf("%d registers have a backlog, want none", n)
	}
}

// TestLocalDecisionsIncludeUncertainAttempts decides locally while an attempt is under way and after its answer. Local
// decisions take that attempt, its answer and the replica's backlog into account.
func TestLocalDecisionsIncludeUncertainAttempts(t *testing.T) {
	const burst = 4
	for name, test := range map[string]struct{ ahead, meanwhile, admitted int }{
		"no conflict":            {0, burst, burst},
		"others take the tokens": {burst - 1, 1, burst + 2}, // two by decisions before the answer of Redis
	} {
		t.Run(name, func(t *testing.T) {
			address := redistest.Start(t, redistest.Options{}).Addr()
			client := hookedCaller{connect(t, address), make(chan func(func() error) error, 1)}
			s, other, l := newStore(t, client), newStore(t, connect(t, address)), limits(burst)
			l.Merge = false
			admitted, n := 0, 0
			count := func(d store.Decision) {
				n++
				if d.Verdict.Admits() {
					admitted++
				}
			}
			count(decide(t, s, eventWrite("pod", "m", n), l))
			sent, answer := make(chan struct{}), make(chan struct{})
			client.hooks <- func(call func() error) error {
				close(sent)
				<-answer
				return call()
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-sent
				cancel()
			}()
			d, err := s.Decide(ctx, time.Now(), eventWrite("pod", "under proxy", n), l)
			if !errors.Is(err, store.ErrUnconfirmed) {
				t.Fatalf("Decide: %v, want ErrUnconfirmed", err)
			}
			count(d)
			for range test.ahead {
				count(decide(t, other, eventWrite("pod", "other", n), l))
			}
			locally := func() { count(s.DecideLocally(eventWrite("pod", "local", n), l)) }
			for range test.meanwhile {
				locally()
			}
			close(answer)
			for !s.Idle() {
				<-time.After(time.Millisecond)
			}
			for range burst {
				locally()
			}
			if admitted != test.admitted {
				t.Errorf("%d Events admitted, want %d", admitted, test.admitted)
			}
		})
	}
}

// TestUncertainCompleteIsRetried completes a write in an attempt that conflicts, and whose caller leaves. The next flush
// carries it out.
func TestUncertainCompleteIsRetried(t *testing.T) {
	address := redistest.Start(t, redistest.Options{}).Addr()
	client := hookedCaller{connect(t, address), make(chan func(func() error) error, 1)}
	s, other, l := newStore(t, client), newStore(t, connect(t, address)), limits(4)
	decide(t, s, eventWrite("pod", "m", 0), l)
	decide(t, s, eventWrite("pod", "m", 1), l)
	writes := claimAll(t, s)
	if len(writes) != 1 {
		t.Fatalf("%d writes pending, want 1", len(writes))
	}
	ctx, cancel := context.WithCancel(t.Context())
	client.hooks <- func(call func() error) error {
		cancel()
		decide(t, other, eventWrite("pod", "other", 2), l)
		return call()
	}
	if err := s.Complete(ctx, time.Now(), writes[0], store.Outcome{Result: store.Written}); err != nil {
		t.Fatalf("Complete: %v", err)
	}
	for !s.Idle() {
		<-time.After(time.Millisecond)
	}
	s.Flush(t.Context())
	for _, p := range claimAll(t, s) {
		if p.Total > p.Written && p.Name == writes[0].Name {
			t.Errorf("%d occurrences of %s are still pending", p.Total-p.Written, p.Name)
		}
	}
}

// TestLastFlushIncludesAttemptInFlight stops a replica during an attempt that will conflict. The last flush includes its
// decision.
func TestLastFlushIncludesAttemptInFlight(t *testing.T) {
	const burst = 4
	address := redistest.Start(t, redistest.Options{}).Addr()
	client := hookedCaller{connect(t, address), make(chan func(func() error) error, 1)}
	s, other, l := newStore(t, client), newStore(t, connect(t, address)), limits(burst)
	decide(t, s, eventWrite("pod", "m", 0), l)
	ctx, cancel := context.WithCancel(t.Context())
	answer, ended := make(chan struct{}), make(chan struct{})
	client.hooks <- func(call func() error) error {
		cancel()
		<-answer
		return call()
	}
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	if _, err := s.Decide(ctx, time.Now(), eventWrite("pod", "under proxy", 1), l); !errors.Is(err, store.ErrUnconfirmed) {
		t.Fatalf("Decide: %v, want ErrUnconfirmed", err)
	}
	decide(t, other, eventWrite("pod", "other", 2), l)
	select {
	case <-ended: // too early
	case <-time.After(50 * time.Millisecond):
	}
	close(answer)
	<-ended
	key := eventWrite("pod", "", 0).GroupKey
	state, err := other.Peek(t.Context(), []store.Key{key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if left := state.Groups[key].SpamState(l.SpamFilter.Key).Tokens(l.SpamFilter.Limit, state.At); left != burst-3 {
		t.Errorf("%d of %d tokens left, want %d", left, burst, burst-3)
	}
}
