package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// caller is a redisclient.Caller made from a function.
type caller func(ctx context.Context, cmds ...goredis.Cmder) error

// Call implements redisclient.Caller.
func (c caller) Call(ctx context.Context, cmds ...goredis.Cmder) error { return c(ctx, cmds...) }

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// loseAnswer makes a call and loses its answer.
func loseAnswer(call func() error) error { return errors.Join(call(), io.ErrUnexpectedEOF) }

// TestLostAnswerOfLastFlushCountsOnce loses the answer of the last flush. The replica repeats the attempt, which counts once.
func TestLostAnswerOfLastFlushCountsOnce(t *testing.T) {
	client := hookedCaller{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 1)}
	var unreported int64
	s := redis.New(client, redis.Options{
		Prefix: "test:", StepTimeout: longTimeout,
		OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) { unreported += d.Total },
	})
	l := limits(10)
	decide(t, s, eventWrite("pod", "m", 0), l)
	s.DecideLocally(eventWrite("pod", "m", 1), l)
	client.hooks <- loseAnswer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if pending := pendingTotal(t, newStore(t, client)); pending != 1 || unreported != 0 {
		t.Errorf("%d occurrences are pending and %d handed over, want 1 and 0", pending, unreported)
	}
}

// TestLastFlushBypassesBreaker flushes while the breaker is open. The last flush reaches Redis, as no later call could
// close the breaker.
func TestLastFlushBypassesBreaker(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	breaker := redisclient.NewBreaker(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if len(cmds) == 0 {
			return errRefused
		}
		return client.Call(ctx, cmds...)
	}), redisclient.BreakerOptions{Deadline: longTimeout})
	for breaker.Closed() {
		_ = breaker.Call(t.Context())
	}
	var unreported int64
	s := redis.New(breaker, redis.Options{
		Prefix: "test:", StepTimeout: time.Second,
		OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) { unreported += d.Total },
	})
	for n := range 2 {
		s.DecideLocally(eventWrite("pod", "m", n), limits(10))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if pending := pendingTotal(t, newStore(t, client)); pending != 1 || unreported != 0 {
		t.Errorf("%d occurrences are pending and %d handed over, want 1 and 0", pending, unreported)
	}
}

// TestDeferredTokenIsTakenOnce reports a token of a local decision with the next attempt. It was the last token, so the
// attempt drops its own Event, and is not repeated until the caller leaves.
func TestDeferredTokenIsTakenOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	calls := 0
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		calls++
		return client.Call(ctx, cmds...)
	}), redis.Options{Prefix: "test:", StepTimeout: longTimeout})
	l := withQuota(limits(10), quota(1))
	if d := s.DecideLocally(eventWrite("pod", "a", 0), l); d.Verdict != store.Admit {
		t.Fatalf("%v without Redis, want Admit with the only token", d.Verdict)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	d, err := s.Decide(ctx, time.Now(), eventWrite("pod", "b", 0), l)
	if err != nil || d.Verdict != store.Drop || calls > 3 {
		t.Errorf("%v (%v) in %d calls, want a drop in at most 3", d.Verdict, err, calls)
	}
}

// TestBacklogKeepsDecisionOrder fails an attempt after which the replica has decided locally. The decisions of the attempt are
// recorded before the local ones.
func TestBacklogKeepsDecisionOrder(t *testing.T) {
	for name, end := range map[string]func(other func(), call func() error) error{
		"conflict": func(other func(), call func() error) error { other(); return call() },
		"lost":     func(_ func(), _ func() error) error { return io.ErrUnexpectedEOF },
		"refused":  func(_ func(), _ func() error) error { return errRefused },
	} {
		t.Run(name, func(t *testing.T) {
			address := redistest.Start(t, redistest.Options{}).Addr()
			client := hookedCaller{connect(t, address), make(chan func(func() error) error, 1)}
			s, other, l := newStore(t, client), newStore(t, connect(t, address)), limits(10)
			decide(t, s, eventWrite("pod", "m", 0), l)
			write := func(count int64) store.Write {
				w := eventWrite("pod", "m", 1)
				w.Count = count
				return w
			}
			sent, answer := make(chan struct{}), make(chan struct{})
			client.hooks <- func(call func() error) error {
				close(sent)
				<-answer
				return end(func() { decide(t, other, eventWrite("pod", "other", 5), l) }, call)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-sent
				cancel()
			}()
			if _, err := s.Decide(ctx, time.Now(), write(1), l); !errors.Is(err, store.ErrUnconfirmed) {
				t.Fatalf("Decide: %v, want ErrUnconfirmed", err)
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

// TestAttemptSentTwiceAppliesOnce sends each attempt twice. The script carries it out once.
func TestAttemptSentTwiceAppliesOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if args := cmds[0].Args(); args[0] == "evalsha" {
			_ = client.Call(ctx, goredis.NewCmd(ctx, args...))
		}
		return client.Call(ctx, cmds...)
	}))
	l := withQuota(limits(10), quota(10))
	for n := range 3 {
		if d := decide(t, s, eventWrite("pod", fmt.Sprint("m", n), n), l); d.Verdict != store.Admit {
			t.Errorf("%v, want Admit", d.Verdict)
		}
	}
	checkTokens(t, s, l, 7, 7)
}

// TestAttemptResentLateAppliesOnce sends an attempt again after another replica has changed the register. It counts once.
func TestAttemptResentLateAppliesOnce(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	other, l := newStore(t, client), withQuota(limits(10), quota(10))
	var twice atomic.Bool
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if twice.CompareAndSwap(true, false) {
			_ = client.Call(ctx, goredis.NewCmd(ctx, cmds[0].Args()...))
			decide(t, other, eventWrite("pod", "other", 7), l)
		}
		return client.Call(ctx, cmds...)
	}))
	decide(t, s, eventWrite("pod", "first", 0), l)
	twice.Store(true)
	if d := decide(t, s, eventWrite("pod", "second", 1), l); d.Verdict != store.Admit {
		t.Errorf("%v, want Admit", d.Verdict)
	}
	checkTokens(t, s, l, 7, 7)
}

// checkTokens checks the tokens left in the spam filter and the quota of the pod.
func checkTokens(t *testing.T, s *redis.Store, l store.Limits, spam, quotas int) {
	t.Helper()
	group, key := eventWrite("pod", "", 0).GroupKey, l.Quotas[0].Key
	state, err := s.Peek(t.Context(), []store.Key{group}, []store.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	if left := state.Buckets[key].Tokens(l.Quotas[0].Limit, state.At); left != quotas {
		t.Errorf("%d tokens left in the quota, want %d", left, quotas)
	}
	if left := state.Groups[group].SpamState(l.SpamFilter.Key).Tokens(l.SpamFilter.Limit, state.At); left != spam {
		t.Errorf("%d tokens left in the spam filter, want %d", left, spam)
	}
}

// TestReturnedDecisionTakesTokensOnce checks that a decision takes its tokens once, whether its attempt was carried out,
// was lost or was never sent.
func TestReturnedDecisionTakesTokensOnce(t *testing.T) {
	for name, hook := range map[string]func(call func() error) error{
		"carried out, answer lost":            loseAnswer,
		"lost before Redis got it":            func(func() error) error { return io.ErrUnexpectedEOF },
		"decided locally, connection refused": func(func() error) error { return errRefused },
	} {
		t.Run(name, func(t *testing.T) {
			client := hookedCaller{connect(t, redistest.Start(t, redistest.Options{}).Addr()), make(chan func(func() error) error, 1)}
			s, l := newStore(t, client), withQuota(limits(10), quota(10))
			decide(t, s, eventWrite("pod", "first", 0), l)
			client.hooks <- hook
			w := eventWrite("pod", "second", 1)
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

// TestAttemptAppliedLateCountsOnce carries a lost attempt out late, after a second attempt with the same decision has
// failed too. The decision counts once.
func TestAttemptAppliedLateCountsOnce(t *testing.T) {
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
	decide(t, s, eventWrite("pod", "first", 0), l)
	lost.Store(true)
	for n := 1; n <= 2; n++ {
		if _, err := s.Decide(t.Context(), time.Now(), eventWrite("pod", fmt.Sprint("m", n), n), l); !errors.Is(err, store.ErrUnconfirmed) {
			t.Fatalf("Decide: %v, want ErrUnconfirmed", err)
		}
	}
	lost.Store(false)
	s.Flush(t.Context())
	checkTokens(t, s, l, 7, 7)
}
