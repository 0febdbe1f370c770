package elect

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestElection holds who settles, and when, as several replicas come and go.
func TestElection(t *testing.T) {
	t.Parallel()
	const (
		drain = 10 * time.Second
		// A Lease that is no longer renewed is taken when it has run out, by an attempt that comes up to 2.2 retry
		// periods later: client-go spreads them by that.
		followed = leaseDuration + 2200*time.Millisecond
	)
	for name, tt := range map[string]struct {
		story func(e *election)
		want  []string
	}{
		"one at a time, and another when it is stopped and has drained": {
			func(e *election) {
				e.start("a")
				e.pass(time.Second)
				e.start("b")
				e.pass(time.Minute)
				e.stop("a")
				e.within(drain+followed, "b leads")
				e.stop("b")
				e.pass(drain)
			},
			[]string{"a leads", "a drained", "a ended", "b leads", "b drained", "b ended"},
		},
		"a follower that stops does so at once": {
			func(e *election) {
				e.start("a")
				e.pass(time.Second)
				e.start("b")
				e.pass(time.Second)
				e.stop("b")
				e.within(0, "b ended")
				e.stop("a")
				e.pass(drain)
			},
			[]string{"a leads", "b ended", "a drained", "a ended"},
		},
		"one that is cut off stops before another leads, and follows that one later": {
			func(e *election) {
				e.start("a")
				e.pass(time.Second)
				e.start("b")
				e.pass(time.Minute)
				e.cut("a", true)
				e.within(4*time.Second, "a abandoned")
				e.within(5400*time.Millisecond, "b leads")
				e.cut("a", false)
				e.pass(time.Minute)
				e.stop("b")
				e.within(drain+followed, "a leads")
				e.stop("a")
				e.pass(drain)
			},
			[]string{"a leads", "a abandoned", "b leads", "b drained", "b ended", "a leads", "a drained", "a ended"},
		},
		"a drain is given up with the lease": {
			func(e *election) {
				e.start("a")
				e.pass(time.Second)
				e.start("b")
				e.pass(time.Second)
				e.stop("a")
				e.cut("a", true)
				e.within(4*time.Second, "a ended")
				e.within(5400*time.Millisecond, "b leads")
				e.stop("b")
				e.pass(drain)
			},
			[]string{"a leads", "a abandoned", "a ended", "b leads", "b drained", "b ended"},
		},
		"what a drain leaves is left to the next": {
			func(e *election) {
				e.undrained = true
				e.start("a")
				e.pass(time.Second)
				e.stop("a")
				e.within(drain, "a ended")
				e.start("b")
				e.within(followed, "b leads")
				e.stop("b")
				e.pass(drain)
			},
			[]string{"a leads", "a drained", "a ended", "b leads", "b drained", "b ended"},
		},
		"a settler that fails by itself ends its replica, and another follows": {
			func(e *election) {
				e.broken = true
				e.start("a")
				e.within(0, "a failed")
				e.broken = false
				e.start("b")
				e.within(followed, "b leads")
				e.stop("b")
				e.pass(drain)
			},
			[]string{"a leads", "a failed", "b leads", "b drained", "b ended"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newElection(t, drain)
				tt.story(e)
				if got := e.told(); !slices.Equal(got, tt.want) {
					t.Errorf("got %q,\nwant %q", got, tt.want)
				}
			})
		})
	}
}

var errBroken = errors.New("broken")

// settle is a settler that records what it does and has much to drain.
func (e *election) settle(ctx context.Context, replica string, abandon <-chan struct{}) error {
	e.tell(replica + " leads")
	if e.broken {
		return errBroken
	}
	<-ctx.Done()
	select {
	case <-abandon:
		e.tell(replica + " abandoned")
	case <-time.After(e.drain):
		e.tell(replica + " drained")
		if e.undrained {
			return errBroken
		}
	}
	return nil
}
