package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// caller is a redisclient.Caller that does what a test says.
type caller func(ctx context.Context, cmds ...goredis.Cmder) error

// Call implements redisclient.Caller.
func (c caller) Call(ctx context.Context, cmds ...goredis.Cmder) error { return c(ctx, cmds...) }

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// lose makes a call whose answer is lost.
func lose(call func() error) error { return errors.Join(call(), io.ErrUnexpectedEOF) }

// pendingTotal is how many occurrences are pending.
func pendingTotal(t *testing.T, s *redis.Store) (n int64) {
	t.Helper()
	for _, p := range claimAll(t, s) {
		n += p.Unreported()
	}
	return n
}

// What becomes pending while a claim is under way is in the index, although the claim has found the register without
// anything due.
func TestAClaimHidesNothingThatBecomesPending(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	other, l, n := newStore(t, client), limits(10), 0
	merge := func() {
		n++
		decide(t, other, event("pod", "m", n), l)
	}
	merge()
	settling := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		merge()
		err := client.Call(ctx, cmds...)
		merge()
		return err
	}))
	for range 3 {
		for _, p := range claimAll(t, other) { // so that nothing is pending, but that the index has it
			if err := other.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
				t.Fatal(err)
			}
		}
		group := event("pod", "m", 0).Group
		stale := goredis.Z{Score: 1, Member: string(group[:]) + "default"}
		if err := client.ZAdd(t.Context(), other.IndexKey(), stale).Err(); err != nil {
			t.Fatal(err)
		}
		claimAll(t, settling)
		if pending, err := other.Pending(t.Context()); pending != 1 || err != nil {
			t.Fatalf("%d registers are in the index (%v), want the one that has something pending", pending, err)
		}
	}
}

// An index entry without a register, or of one without anything due, goes with the next claim. One that was lost comes back
// with the next step.
func TestTheIndexFollowsTheRegisters(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	decide(t, s, event("settled", "m", 0), l)
	for _, object := range []string{"settled", "missing"} {
		group := event(object, "m", 0).Group
		if err := client.ZAdd(t.Context(), s.IndexKey(), goredis.Z{Score: 1, Member: string(group[:]) + "default"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	claimAll(t, s)
	if n, err := s.Pending(t.Context()); n != 0 || err != nil {
		t.Errorf("%d pending (%v), want none", n, err)
	}
	decide(t, s, event("settled", "m", 1), l)
	for _, p := range claimAll(t, s) {
		if err := s.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Pending(t.Context()); n != 0 || err != nil {
		t.Errorf("%d pending (%v) once all is settled, want none", n, err)
	}
	decide(t, s, event("settled", "m", 2), l)
	if err := client.Del(t.Context(), s.IndexKey()).Err(); err != nil {
		t.Fatal(err)
	}
	decide(t, s, event("settled", "m", 3), l)
	if n := pendingTotal(t, s); n != 2 {
		t.Errorf("%d occurrences are pending, want 2", n)
	}
}

// A register that is reserved is changed by the writer that it is reserved for only, until that time, and its value is kept.
func TestAReservationKeepsTheValue(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	decide(t, s, event("pod", "m", 0), l)
	key := s.GroupKey(event("pod", "m", 0).Group)
	before := client.Get(t.Context(), key).Val()
	// attempt sends an attempt of a writer, with how long to reserve the register, and returns the outcome and whether it is held.
	attempt := func(writer, expected string, reserve time.Duration) (outcome, held any) {
		now := client.Time(t.Context()).Val().UnixMicro()
		answer, err := client.Eval(t.Context(), redis.Source(), []string{s.IndexKey(), key, "registers", "buckets"}, "step", expected, writer,
			writer+"00000001"+before[16:], now, time.Minute.Microseconds(), 60000, "member", reserve.Microseconds(), 0, 0, 0).Slice()
		if err != nil {
			t.Fatal(err)
		}
		return answer[1], answer[2]
	}
	const first, second = "writer-1", "writer-2"
	for range 2 { // a reservation that is over is replaced
		attempt(first, "", time.Microsecond)
	}
	if value := client.Get(t.Context(), key).Val(); len(value) != len(before)+24 || value[:32]+"-"+value[57:] != before {
		t.Errorf("the value is %q, want %q with a reservation", value, before)
	}
	attempt(first, "", time.Minute)
	if outcome, held := attempt(second, before[:16], 0); outcome != int64(0) || held != int64(1) {
		t.Errorf("another is answered %v, %v, want that it is held", outcome, held)
	}
	attempt(second, "", time.Minute) // which takes no reservation over
	if outcome, _ := attempt(first, before[:16], 0); outcome != int64(1) {
		t.Errorf("it is answered %v, want that its attempt is carried out", outcome)
	}
}

// What a quota refuses takes no token of another, and no trip once it is known.
func TestARefusedEventCostsNothing(t *testing.T) {
	const refused, shared = 500, 10
	server := redistest.Start(t, redistest.Options{})
	var calls atomic.Int64
	client := connect(t, server.Addr())
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		calls.Add(1)
		return client.Call(ctx, cmds...)
	}))
	other := newStore(t, client)
	own := quota(1)
	own.Name, own.Key = "own", store.KeyOf("own")
	l := withQuota(withQuota(limits(100), quota(shared)), own)
	decide(t, other, event("first", "m", 0), l)
	for n := range refused {
		if d := decide(t, s, event(fmt.Sprint("pod", n), "m", 0), l); d.Verdict != store.Drop || d.Empty.Name != "own" {
			t.Fatalf("%v, want a drop by the tenant's own quota", d.Verdict)
		}
	}
	if n := calls.Load(); n > 3 { // one that Redis refuses, in which it may learn the script
		t.Errorf("%d trips for %d Events, want 1", n, refused)
	}
	state, err := s.Peek(t.Context(), nil, []store.Key{store.KeyOf("quota")})
	if left := state.Levels[store.KeyOf("quota")].Tokens(quota(shared).Limit, state.At); left != shared-1 || err != nil {
		t.Errorf("%d tokens are left of the shared quota (%v), want %d", left, err, shared-1)
	}
}

// An admitted Event under two quotas makes one trip.
func TestAnAdmittedEventMakesOneTrip(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var calls atomic.Int64
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		calls.Add(1)
		return client.Call(ctx, cmds...)
	}))
	other := quota(100)
	other.Key = store.KeyOf("other")
	l := withQuota(withQuota(limits(100), quota(100)), other)
	decide(t, s, event("first", "m", 0), l) // Redis may learn the script
	for n := range 10 {
		calls.Store(0)
		if d := decide(t, s, event(fmt.Sprint("pod", n), "m", 0), l); d.Verdict != store.Admit || calls.Load() != 1 {
			t.Errorf("%v after %d trips, want it admitted after 1", d.Verdict, calls.Load())
		}
	}
}

// A register that cannot be read is decided without Redis, which is said once. All others are decided by Redis: the breaker
// stays closed, and what waits for others is reported.
func TestARegisterThatCannotBeReadIsItsOwnProblem(t *testing.T) {
	valid := func(t *testing.T, client *redisclient.Client) string {
		t.Helper()
		s := newStore(t, client)
		decide(t, s, event("pod", "m", 0), limits(10))
		return client.Get(t.Context(), s.GroupKey(event("pod", "m", 0).Group)).Val()
	}
	for says, spoil := range map[string]func(value string) any{
		"of a newer format": func(value string) any { return value[:33] + "\x7f" + value[34:] },
		"of 32 KiB":         func(value string) any { return value[:34] + strings.Repeat("x", 32<<10) },
		"that is junk":      func(string) any { return "junk" },
		"that is long junk": func(string) any { return strings.Repeat("junk", 100) },
		"that is a list":    nil,
	} {
		t.Run(says, func(t *testing.T) {
			client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
			key := newStore(t, client).GroupKey(event("pod", "m", 0).Group)
			value := valid(t, client)
			var err error
			if spoil == nil {
				err = errors.Join(client.Del(t.Context(), key).Err(), client.RPush(t.Context(), key, "a").Err())
			} else {
				err = client.Set(t.Context(), key, spoil(value), 0).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			before := client.Dump(t.Context(), key).Val()
			var problems []error
			breaker := redisclient.NewBreaker(client, redisclient.BreakerOptions{Deadline: patient})
			s := redis.New(breaker, redis.Options{
				Prefix: "test:", StepTimeout: patient, Problem: func(err error) { problems = append(problems, err) },
			})
			l := limits(10)
			for n := range 10 {
				if _, err := s.Decide(t.Context(), time.Now(), event("pod", "m", n), l); err == nil || errors.Is(err, store.ErrUnconfirmed) {
					t.Fatalf("Decide: %v, want that it is not decided", err)
				}
				s.DecideLocally(event("pod", "m", n), l)
			}
			for n := range 500 {
				s.DecideLocally(event(fmt.Sprint("other", n), "m", 0), l)
			}
			s.Flush(t.Context())
			if d := decide(t, s, event("other", "m", 0), l); d.Verdict != store.Admit || !breaker.Closed() {
				t.Errorf("%v, breaker closed %t; want others decided by Redis", d.Verdict, breaker.Closed())
			}
			if n := s.Waiting(); n != 1 {
				t.Errorf("something waits for %d registers, want the one that cannot be read", n)
			}
			if spoil != nil && len(problems) != 1 {
				t.Errorf("said %v, want it said once", problems)
			}
			if writes, _ := s.Claim(t.Context(), time.Now(), time.Hour, 10, nobody); len(writes) != 0 {
				t.Errorf("claimed %v", writes)
			}
			if after := client.Dump(t.Context(), key).Val(); after != before {
				t.Error("the value was overwritten")
			}
		})
	}
}

// A replica that stops while Redis is silent waits for what is under way, which it then hands over: nothing vanishes.
func TestWhatIsUnderWayWhenAReplicaStopsIsHandedOver(t *testing.T) {
	const merged = 5
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var silent atomic.Bool
	var unreported int64
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if silent.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{Prefix: "test:", Unreported: func(_ time.Time, _ string, _ store.Key, d *rules.Drops) { unreported += d.Total }})
	l := limits(10)
	decide(t, s, event("pod", "m", 0), l)
	silent.Store(true)
	for n := range merged {
		s.DecideLocally(event("pod", "m", 1+n), l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if unreported != merged || !s.Idle() || s.Waiting() != 0 {
		t.Errorf("%d occurrences are handed over, idle %t, %d wait; want %d", unreported, s.Idle(), s.Waiting(), merged)
	}
}

// The last flush of a replica repeats an attempt whose answer was lost: it is counted once.
func TestALostAnswerOfTheLastFlushIsCountedOnce(t *testing.T) {
	client := hooked{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 1)}
	var unreported int64
	s := redis.New(client, redis.Options{
		Prefix: "test:", StepTimeout: patient,
		Unreported: func(_ time.Time, _ string, _ store.Key, d *rules.Drops) { unreported += d.Total },
	})
	l := limits(10)
	decide(t, s, event("pod", "m", 0), l)
	s.DecideLocally(event("pod", "m", 1), l)
	client.hooks <- lose
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if pending := pendingTotal(t, newStore(t, client)); pending != 1 || unreported != 0 {
		t.Errorf("%d occurrences are pending and %d handed over, want 1 and 0", pending, unreported)
	}
}

// What an attempt carried that others got ahead of is recorded before what was decided on top of it.
func TestDecisionsAreRecordedInTheirOrder(t *testing.T) {
	for says, end := range map[string]func(other func(), call func() error) error{
		"overtaken": func(other func(), call func() error) error { other(); return call() },
		"lost":      func(_ func(), _ func() error) error { return io.ErrUnexpectedEOF },
		"refused":   func(_ func(), _ func() error) error { return errRefused },
	} {
		t.Run(says, func(t *testing.T) {
			address := redistest.Start(t, redistest.Options{}).Addr()
			client := hooked{connect(t, address), make(chan func(func() error) error, 1)}
			s, other, l := newStore(t, client), newStore(t, connect(t, address)), limits(10)
			decide(t, s, event("pod", "m", 0), l)
			write := func(count int64) store.Write {
				w := event("pod", "m", 1)
				w.Count = count
				return w
			}
			sent, answer := make(chan struct{}), make(chan struct{})
			client.hooks <- func(call func() error) error {
				close(sent)
				<-answer
				return end(func() { decide(t, other, event("pod", "other", 5), l) }, call)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-sent
				cancel()
			}()
			if _, err := s.Decide(ctx, time.Now(), write(1), l); !errors.Is(err, store.ErrUnconfirmed) {
				t.Fatalf("Decide: %v, want it unconfirmed", err)
			}
			s.DecideLocally(write(3), l)
			close(answer)
			for !s.Idle() {
				<-time.After(time.Millisecond)
			}
			s.Flush(t.Context())
			if n := pendingTotal(t, other); n != 3 {
				t.Errorf("%d occurrences are pending, want 3", n)
			}
		})
	}
}

// A register lives longer than an attempt is repeated that has written it, also once all is settled.
func TestARegisterOutlivesADoubt(t *testing.T) {
	const doubt = 10 * time.Minute
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	l.Window, l.RepeatWindow, l.Spam.Limit = time.Second, time.Second, store.Limit{Burst: 10, Every: time.Second}
	decide(t, s, event("pod", "m", 0), l)
	decide(t, s, event("pod", "m", 1), l)
	for _, p := range claimAll(t, s) {
		if err := s.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if left := client.PTTL(t.Context(), s.GroupKey(event("pod", "m", 0).Group)).Val(); left <= doubt {
		t.Errorf("the register expires after %v, want more than %v", left, doubt)
	}
}

// What is decided without Redis stays within the bound, however long the texts are, and none of it is lost.
func TestDecisionsWithoutRedisAreBoundedInBytes(t *testing.T) {
	const objects, each, long, most = 64, 256, 128 << 10, 160 << 20
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var away atomic.Bool
	var unreported int64
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if away.Load() {
			return errRefused
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{
		Prefix: "test:", StepTimeout: patient,
		Unreported: func(_ time.Time, _ string, _ store.Key, d *rules.Drops) { unreported += d.Total },
	})
	text := strings.Repeat("x", long)
	l, wanted := limits(1<<20), int64(0)
	l.MaxEvents = 1 << 20
	away.Store(true)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range objects * each {
		w := event(fmt.Sprint("pod-", n%objects), fmt.Sprint(n/objects/64), n)
		w.Text, w.Reason, w.About.UID = text, text, text
		if n%2 == 1 { // which no other joins
			w.Name, w.Count = w.Name+text[:200], 2
		}
		if d := s.DecideLocally(w, l); !d.Verdict.Admits() {
			wanted += d.Occurrences
		}
		if n%1000 == 0 {
			s.SpillExcess()
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > most {
		t.Errorf("%d MiB are used, want %d at most", used>>20, most>>20)
	}
	away.Store(false)
	for s.Waiting() > 0 {
		s.Flush(t.Context())
	}
	got := unreported
	for _, p := range claimAll(t, s) {
		got += p.Unreported()
	}
	t.Logf("%d MiB used, %d occurrences, of which %d were handed over", (after.HeapAlloc-before.HeapAlloc)>>20, wanted, unreported)
	if got < wanted || unreported > 0 {
		t.Errorf("%d occurrences are reported of %d, of which %d were handed over as they did not fit", got, wanted, unreported)
	}
}

// What does not fit into the backlog is handed over, of the namespace that has most.
func TestABacklogThatIsFullIsHandedOver(t *testing.T) {
	const bytes, decisions = 256 << 10, 2000
	handed := map[string]int64{}
	s := redis.New(caller(func(context.Context, ...goredis.Cmder) error { return errRefused }), redis.Options{
		Prefix:     "test:",
		Unreported: func(_ time.Time, namespace string, _ store.Key, d *rules.Drops) { handed[namespace] += d.Total },
	}).Small(64<<20, bytes)
	l := limits(0)
	for n := range decisions {
		w := event(fmt.Sprint("pod-", n), "m", n)
		if w.Namespace = "busy"; n%100 == 0 {
			w.Namespace = "quiet"
		}
		s.DecideLocally(w, l)
	}
	s.SpillExcess()
	if waiting := s.Waiting(); handed["busy"]+int64(waiting) != decisions || handed["quiet"] > 0 || waiting == 0 || waiting > bytes/1024 {
		t.Errorf("%v were handed over and %d wait of %d", handed, waiting, decisions)
	}
}

// A panic ends the call in whose attempt it is with an error, and the process goes on.
func TestAPanicEndsACallOnly(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var broken atomic.Bool
	var problems []error
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if broken.Load() {
			panic("broken")
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{Prefix: "test:", StepTimeout: patient, Problem: func(err error) { problems = append(problems, err) }})
	l := limits(10)
	decide(t, s, event("pod", "m", 0), l)
	broken.Store(true)
	for n := range 3 {
		if _, err := s.Decide(t.Context(), time.Now(), event("pod", "m", 1+n), l); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("Decide: %v, want the panic", err)
		}
		s.DecideLocally(event("pod", "m", 1+n), l)
		s.Flush(t.Context())
	}
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "attempt.go") {
		t.Errorf("said %v, want one stack", problems)
	}
	broken.Store(false)
	s.Flush(t.Context())
	if n := pendingTotal(t, s); n != 3 || s.Waiting() != 0 {
		t.Errorf("%d occurrences are pending and %d registers wait, want 3 and 0", n, s.Waiting())
	}
}

// The script carries an attempt out once, however often it is sent.
func TestAnAttemptThatIsSentTwiceIsCarriedOutOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if args := cmds[0].Args(); args[0] == "evalsha" {
			_ = client.Call(ctx, goredis.NewCmd(ctx, args...))
		}
		return client.Call(ctx, cmds...)
	}))
	l := withQuota(limits(10), quota(10))
	for n := range 3 {
		if d := decide(t, s, event("pod", fmt.Sprint("m", n), n), l); d.Verdict != store.Admit {
			t.Errorf("%v, want it admitted", d.Verdict)
		}
	}
	checkTokens(t, s, l, 7, 7)
}

// An attempt that is sent again after others have changed what it wrote was carried out, too.
func TestAnAttemptThatIsSentAgainLateIsCarriedOutOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	other, l := newStore(t, client), withQuota(limits(10), quota(10))
	var twice atomic.Bool
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if twice.CompareAndSwap(true, false) {
			_ = client.Call(ctx, goredis.NewCmd(ctx, cmds[0].Args()...))
			decide(t, other, event("pod", "other", 7), l)
		}
		return client.Call(ctx, cmds...)
	}))
	decide(t, s, event("pod", "first", 0), l)
	twice.Store(true)
	if d := decide(t, s, event("pod", "second", 1), l); d.Verdict != store.Admit {
		t.Errorf("%v, want it admitted", d.Verdict)
	}
	checkTokens(t, s, l, 7, 7)
}

// checkTokens holds the spam filter and the quota of the pod to the tokens that they must have.
func checkTokens(t *testing.T, s *redis.Store, l store.Limits, spam, quotas int) {
	t.Helper()
	group, key := event("pod", "", 0).Group, l.Quotas[0].Key
	state, err := s.Peek(t.Context(), []store.Key{group}, []store.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	if left := state.Levels[key].Tokens(l.Quotas[0].Limit, state.At); left != quotas {
		t.Errorf("%d tokens are left of the quota, want %d", left, quotas)
	}
	if left := state.Groups[group].Spam(l.Spam.Key).Tokens(l.Spam.Limit, state.At); left != spam {
		t.Errorf("%d tokens are left of the spam filter, want %d", left, spam)
	}
}

// What was answered takes its tokens once, whether the attempt that carried it was carried out or not, or was never sent.
func TestWhatWasAnsweredTakesItsTokensOnce(t *testing.T) {
	for says, hook := range map[string]func(call func() error) error{
		"carried out, and the answer lost":     lose,
		"not carried out, which nobody knows":  func(func() error) error { return io.ErrUnexpectedEOF },
		"decided locally, as Redis is refused": func(func() error) error { return errRefused },
	} {
		t.Run(says, func(t *testing.T) {
			client := hooked{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 1)}
			s, l := newStore(t, client), withQuota(limits(10), quota(10))
			decide(t, s, event("pod", "first", 0), l)
			client.hooks <- hook
			w := event("pod", "second", 1)
			_, err := s.Decide(t.Context(), time.Now(), w, l)
			switch {
			case errors.Is(err, errRefused):
				s.DecideLocally(w, l)
			case !errors.Is(err, store.ErrUnconfirmed):
				t.Fatalf("Decide: %v", err)
			}
			s.Flush(t.Context())
			checkTokens(t, s, l, 8, 8)
		})
	}
}

// A write that changes no register takes its tokens only. Where the answer is lost it stands, and they are spent.
func TestATokenWithoutARegister(t *testing.T) {
	client := hooked{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 1)}
	s, other := newStore(t, client), newStore(t, client)
	l := store.Limits{Window: time.Minute, RepeatWindow: time.Minute, Quotas: []store.Bucket{quota(3)}}
	if d := decide(t, s, event("first", "m", 0), l); d.Verdict != store.Admit {
		t.Errorf("%v, want the first admitted", d.Verdict)
	}
	client.hooks <- lose
	if d, err := s.Decide(t.Context(), time.Now(), event("second", "m", 0), l); d.Verdict != store.Admit || !errors.Is(err, store.ErrUnconfirmed) {
		t.Errorf("%v, %v, want the second admitted, unconfirmed", d.Verdict, err)
	}
	client.hooks <- func(func() error) error { return errRefused }
	if _, err := s.Decide(t.Context(), time.Now(), event("third", "m", 0), l); !errors.Is(err, errRefused) || errors.Is(err, store.ErrUnconfirmed) {
		t.Errorf("%v, want that Redis was not asked", err)
	}
	decide(t, other, event("third", "m", 0), l)
	if d := decide(t, s, event("fourth", "m", 0), l); d.Verdict != store.Drop || d.Unasked {
		t.Errorf("%v, want the fourth dropped by what Redis says", d.Verdict)
	}
	keys, err := client.Caller.(*redisclient.Client).Keys(t.Context(), "*g:*").Result()
	if len(keys) != 0 || err != nil {
		t.Errorf("registers %v (%v), want none", keys, err)
	}
}

// The first attempt of a process whose clock is wrong is made again by the clock of Redis: nothing is due hours late, or early.
func TestTheFirstAttemptGoesByTheClockOfRedis(t *testing.T) {
	for _, by := range []time.Duration{-7 * time.Hour, 7 * time.Hour, time.Minute} {
		client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
		s := redis.New(client, redis.Options{
			Prefix: "test:", StepTimeout: patient, Now: func() time.Time { return time.Now().Add(by) },
		})
		if d := decide(t, s, event("pod", "m", 0), limits(0)); d.Verdict != store.Drop {
			t.Fatalf("%v, want a drop", d.Verdict)
		}
		for _, p := range claimAll(t, s) {
			if off := time.Until(p.Due) - limits(0).WriteInterval; off.Abs() > 5*time.Second {
				t.Errorf("by a clock that is %v wrong it is due %v off", by, off)
			}
		}
	}
}

// An attempt that was given up is carried out late, after another one that carried the same was given up too.
func TestAnAttemptThatIsCarriedOutLateCountsOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var lost atomic.Bool
	var late *goredis.Cmd
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		switch {
		case !lost.Load():
			return client.Call(ctx, cmds...)
		case late == nil:
			late = goredis.NewCmd(t.Context(), cmds[0].Args()...)
			return io.ErrUnexpectedEOF
		}
		return errors.Join(client.Call(t.Context(), late), io.ErrUnexpectedEOF)
	}))
	l := withQuota(limits(10), quota(10))
	decide(t, s, event("pod", "first", 0), l)
	lost.Store(true)
	for n := 1; n <= 2; n++ {
		if _, err := s.Decide(t.Context(), time.Now(), event("pod", fmt.Sprint("m", n), n), l); !errors.Is(err, store.ErrUnconfirmed) {
			t.Fatalf("Decide: %v, want it unconfirmed", err)
		}
	}
	lost.Store(false)
	s.Flush(t.Context())
	checkTokens(t, s, l, 7, 7)
}

// A level that Redis has not confirmed for long is asked about again, and counts for what is decided without Redis.
func TestAnOldLevelIsAskedAboutAndCountsLocally(t *testing.T) {
	now := &clock{}
	now.set(time.Now())
	client := newClocked(t, connect(t, redistest.Start(t, redistest.Options{}).Addr()), now)
	s := redis.New(client, redis.Options{Prefix: "test:", StepTimeout: patient, Now: now.now})
	l := withQuota(limits(10), quota(1))
	decide(t, s, event("one", "m", 0), l)
	now.set(now.now().Add(time.Minute))
	if d := s.DecideLocally(event("two", "m", 0), l); d.Verdict != store.Drop {
		t.Errorf("%v locally, want a drop", d.Verdict)
	}
	if d := decide(t, s, event("three", "m", 0), l); d.Verdict != store.Drop || d.Unasked {
		t.Errorf("%v, unasked %t, want a drop by what Redis says", d.Verdict, d.Unasked)
	}
	if d := decide(t, s, event("four", "m", 0), l); d.Verdict != store.Drop || !d.Unasked {
		t.Errorf("%v, unasked %t, want a drop without a trip", d.Verdict, d.Unasked)
	}
}

// What an attempt has written is what the next decision goes by: the first one without a token makes no trip.
func TestAnEmptySpamFilterIsKnownAtOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	for n := range 100 {
		s, l := newStore(t, client), limits(1)
		object := fmt.Sprint("pod-", n)
		decide(t, s, event(object, "first", 0), l)
		if d := decide(t, s, event(object, "second", 1), l); d.Verdict != store.Drop || !d.Unasked {
			t.Fatalf("%v, unasked %t, want a drop without a trip", d.Verdict, d.Unasked)
		}
	}
}
