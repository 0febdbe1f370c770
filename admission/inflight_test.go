package admission_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// stuckStore is a store that blocks until its caller gives up.
type stuckStore struct {
	mu     sync.Mutex
	waited []time.Duration // how long each caller waited
}

func (s *stuckStore) Decide(ctx context.Context, _ time.Time, _ store.Write, _ store.Limits) (store.Decision, error) {
	since := time.Now()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = append(s.waited, time.Since(since))
	return store.Decision{}, ctx.Err()
}

func TestDeadlineReachesTheStore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query          string
		deadline, want time.Duration
	}{
		{"", 200 * time.Millisecond, 200 * time.Millisecond},
		{"?timeout=1s", 200 * time.Millisecond, 200 * time.Millisecond},
		{"?timeout=200ms", 200 * time.Millisecond, 180 * time.Millisecond},
		{"?timeout=2s", time.Minute, 1800 * time.Millisecond},
		{"", time.Minute, 9 * time.Second},
		{"?timeout=9000h", time.Minute, 9 * time.Second},
	} {
		t.Run(fmt.Sprintf("a call with %q may take %v by a deadline of %v", test.query, test.want, test.deadline), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stuckStore{}
				h := newTestHandlers(s)
				body := marshalReview(t, newRequest(time.Now(), "a", nil))
				for _, phase := range []*admission.Handler{h.mutate, h.validate} {
					phase.Deadline = test.deadline
					if r := reviewResponse(t, post(t, phase, body, test.query)); !r.Allowed {
						t.Errorf("refused: %v", r.Result)
					}
				}
				if want := []time.Duration{test.want, test.want}; !slices.Equal(s.waited, want) {
					t.Errorf("the store was given %v, want %v", s.waited, want)
				}
			})
		})
	}
}

// TestInFlightLimit fills the only slot with a review that the store never decides.
func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stuckStore{}
		h := newTestHandlers(s)
		h.mutate.Deadline = 200 * time.Millisecond
		want := []string{
			"allowed false after 200ms", // has the slot
			"allowed true after 0s",     // the local limit has two tokens
			"allowed true after 0s",
			"allowed false after 0s",
		}
		began := time.Now()
		got := make([]string, len(want))
		var posts sync.WaitGroup
		for i := range want {
			posts.Go(func() {
				answer := reviewResponse(t, post(t, h.mutate, marshalReview(t, newRequest(began, "a", nil)), "?timeout=1s"))
				got[i] = fmt.Sprintf("allowed %t after %v", answer.Allowed, time.Since(began))
			})
			synctest.Wait()
		}
		posts.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if len(s.waited) != 1 {
			t.Errorf("%d reviews reached the store, want 1", len(s.waited))
		}
		if want := []admission.Outcome{admission.Undecided, admission.Undecided, admission.Overloaded, admission.Overloaded}; !slices.Equal(h.outcomes, want) {
			t.Errorf("counted %s, want %s", h.outcomes, want)
		}
	})
}

// TestNamespacesShareInFlightLimit uses a store that blocks until the deadline, so a review keeps its slot until then.
func TestNamespacesShareInFlightLimit(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		places int
		held   []string // the namespaces of earlier reviews that are in flight
		want   time.Duration
	}{
		"one that finds a place waits for the store": {3, []string{"default", "b"}, 200 * time.Millisecond},
		"one that finds none is answered at once":    {2, []string{"default", "b"}, 0},
		"a namespace may have as many as are free":   {5, []string{"b", "default", "default"}, 200 * time.Millisecond},
		"and no more": {5, []string{"b", "default", "default", "default"}, 0},
		"those that one may not have, another still has": {3, []string{"b", "b", "b", "b"}, 200 * time.Millisecond},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newTestHandlersWithLimit(&stuckStore{}, tt.places)
				h.mutate.Deadline = 200 * time.Millisecond
				send := func(namespace string) {
					reviewResponse(t, post(t, h.mutate, marshalReview(t, newRequest(time.Now(), "a", details{inNamespace(namespace)})), ""))
				}
				var before sync.WaitGroup
				for _, namespace := range tt.held {
					before.Go(func() { send(namespace) })
					synctest.Wait()
				}
				began := time.Now()
				send("default")
				if took := time.Since(began); took != tt.want {
					t.Errorf("answered after %v, want %v", took, tt.want)
				}
				before.Wait()
				if !h.mutate.InFlight.Idle() {
					t.Error("the slot of the semaphore is not released")
				}
			})
		})
	}
}
