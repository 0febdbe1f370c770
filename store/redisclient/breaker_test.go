package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
)

// failureThreshold is how many failures in a row open the breaker.
const failureThreshold = 5

// callerFunc is a Caller made from a function.
type callerFunc func(ctx context.Context) error

// Call implements redisclient.Caller.
func (a callerFunc) Call(ctx context.Context, _ ...redis.Cmder) error { return a(ctx) }

// redisError is an error that Redis returned.
type redisError string

func (s redisError) Error() string { return string(s) }

// RedisError implements redis.Error.
func (s redisError) RedisError() {}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err   error
		opens bool
	}{
		"no error":                          {nil, false},
		"no such key":                       {redis.Nil, false},
		"connection refused":                {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"connection closed":                 {io.EOF, true},
		"no answer":                         {context.DeadlineExceeded, true},
		"the caller has left":               {fmt.Errorf("call: %w", context.Canceled), false},
		"an unknown script":                 {redisError("NOSCRIPT No matching script."), false},
		"a key with another type of value":  {redisError("WRONGTYPE Operation against a key holding the wrong kind of value script: f, on @user_script:2."), false},
		"a script that cannot use a value":  {redisError("ERR user_script:20: attempt to compare nil with number script: f, on @user_script:20."), false},
		"a slot that is moving":             {redisError("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		"a slot that has moved":             {redisError("MOVED 1 127.0.0.1:7000"), true},
		"a slot without a server":           {redisError("CLUSTERDOWN Hash slot not served"), true},
		"a replica":                         {redisError("READONLY You can't write against a read only replica. script: f, on @user_script:7."), true},
		"no memory":                         {redisError("OOM command not allowed when used memory > 'maxmemory'. script: f, on @user_script:7."), true},
		"a server that is loading its data": {redisError("LOADING Redis is loading the dataset in memory"), true},
		"a user without rights":             {redisError("NOPERM this user has no permissions to run the 'evalsha' command"), true},
		"too many clients":                  {redisError("ERR max number of clients reached"), true},
		"an open breaker inside":            {redisclient.ErrOpen, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened []error
			b := redisclient.NewBreaker(callerFunc(func(context.Context) error { return tt.err }), redisclient.BreakerOptions{
				Deadline: time.Minute, OnChange: func(_ bool, err error) { opened = append(opened, err) },
			})
			for range failureThreshold {
				if err := b.Call(t.Context()); !errors.Is(err, tt.err) {
					t.Errorf("Call: %v, want %v", err, tt.err)
				}
			}
			if b.Closed() == tt.opens || len(opened) == 1 != tt.opens || tt.opens && !errors.Is(opened[0], tt.err) {
				t.Errorf("closed %t, opened with %v, want open %t", b.Closed(), opened, tt.opens)
			}
			if err := b.Call(redisclient.BypassBreaker(t.Context())); !errors.Is(err, tt.err) || b.Closed() == tt.opens {
				t.Errorf("a call that bypasses the breaker: %v, closed %t after it", err, b.Closed())
			}
			if err := b.Call(t.Context()); errors.Is(err, redisclient.ErrOpen) != tt.opens || tt.opens && !redisclient.NotRun(err) {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestBreakerCountsCalls checks that a call counts as failed at the breaker's deadline, before it ends. A call whose
// caller has an earlier deadline does not count, and one that panics does.
func TestBreakerCountsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reason error
		hang := callerFunc(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		o := redisclient.BreakerOptions{Deadline: 50 * time.Millisecond, OnChange: func(_ bool, err error) { reason = err }}
		call := func(b *redisclient.Breaker, within time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_ = b.Call(ctx)
		}
		b := redisclient.NewBreaker(hang, o)
		for range 2 * failureThreshold {
			call(b, 10*time.Millisecond)
		}
		if !b.Closed() {
			t.Errorf("early deadlines of callers opened the breaker: %v", reason)
		}
		for range failureThreshold {
			go call(b, time.Second)
		}
		<-time.After(o.Deadline)
		synctest.Wait()
		if b.Closed() || reason == nil {
			t.Errorf("closed %t, reason %v, want it open at the deadline", b.Closed(), reason)
		}
		<-time.After(time.Second)
		reason = nil
		b = redisclient.NewBreaker(callerFunc(func(context.Context) error { panic("broken") }), o)
		for range failureThreshold {
			func() {
				defer func() { _ = recover() }()
				call(b, time.Second)
			}()
		}
		if b.Closed() || reason == nil {
			t.Errorf("closed %t, reason %v, want it open by panics", b.Closed(), reason)
		}
	})
}

func TestBreakerClosesWithoutCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		var changes []bool
		b := redisclient.NewBreaker(callerFunc(func(context.Context) error {
			if down.Load() {
				return io.EOF
			}
			return nil
		}), redisclient.BreakerOptions{Deadline: time.Second, OnChange: func(open bool, _ error) { changes = append(changes, open) }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Run(ctx, func(ctx context.Context) error { return b.Call(ctx) })
		}()
		for range failureThreshold {
			_ = b.Call(t.Context())
		}
		<-time.After(time.Minute)
		if b.Closed() || len(changes) != 1 {
			t.Errorf("closed %t after changes %v while Redis is unavailable", b.Closed(), changes)
		}
		down.Store(false)
		<-time.After(10 * time.Second)
		if !b.Closed() || len(changes) != 2 {
			t.Errorf("closed %t after changes %v, want it closed once", b.Closed(), changes)
		}
		stop()
		<-done
	})
}
