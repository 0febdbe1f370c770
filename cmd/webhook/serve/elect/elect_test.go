package elect

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestElection holds who settles, and when, as several replicas come and go. The longest that a free lease waits for
// somebody is 2.2 retry periods, which are 2.2 s: client-go spreads its attempts by that.
func TestElection(t *testing.T) {
	t.Parallel()
	const drain = 10 * time.Second
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
				e.within(drain+2200*time.Millisecond, "b leads")
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
				e.within(drain+2200*time.Millisecond, "a leads")
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
				e.within(0, "b leads")
				e.stop("b")
				e.pass(drain)
			},
			[]string{"a leads", "a drained", "a ended", "b leads", "b drained", "b ended"},
		},
		"a settler that fails by itself ends its replica, and frees the lease": {
			func(e *election) {
				e.broken = true
				e.start("a")
				e.within(0, "a failed")
				e.broken = false
				e.start("b")
				e.within(0, "b leads")
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

// settlerOf is a settler that records what it does and has much to drain.
type settlerOf struct {
	*election
	replica string
	abandon <-chan struct{}
}

// Run implements Runner.
func (s *settlerOf) Run(ctx context.Context) error {
	s.tell(s.replica + " leads")
	if s.broken {
		return errBroken
	}
	<-ctx.Done()
	select {
	case <-s.abandon:
		s.tell(s.replica + " abandoned")
	case <-time.After(s.drain):
		s.tell(s.replica + " drained")
		if s.undrained {
			return errBroken
		}
	}
	return nil
}
