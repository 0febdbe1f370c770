package admission_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// stuck is a store that does not answer before its caller gives up.
type stuck struct {
	mu       sync.Mutex
	patience []time.Duration // how long each caller waited
	unread   bool            // some Event's content was not
}

func (s *stuck) wait(ctx context.Context) (store.Decision, error) {
	since := time.Now()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience = append(s.patience, time.Since(since))
	return store.Decision{}, ctx.Err()
}

func (s *stuck) Decide(ctx context.Context, _ time.Time, _ store.Write, l store.Limits) (store.Decision, error) {
	s.mu.Lock()
	s.unread = s.unread || !l.Merge
	s.mu.Unlock()
	return s.wait(ctx)
}

func TestTheDeadlineIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query               string
		deadline, max, want time.Duration
	}{
		{"", 0, 0, 200 * time.Millisecond},
		{"?timeout=1s", 0, 0, 200 * time.Millisecond},
		{"?timeout=200ms", 0, 0, 180 * time.Millisecond},
		{"?timeout=10ms", 0, 0, 9 * time.Millisecond},
		{"?timeout=1s", 50 * time.Millisecond, 0, 50 * time.Millisecond},
		{"?timeout=2s", time.Minute, 0, 1800 * time.Millisecond},
		{"", time.Minute, 0, 9 * time.Second},
		{"?timeout=9000h", time.Minute, 0, 9 * time.Second},
		{"?timeout=9000h", time.Minute, 3 * time.Second, 2700 * time.Millisecond},
		{"", time.Minute, 3 * time.Second, 2700 * time.Millisecond},
		{"?timeout=2s", time.Minute, 3 * time.Second, 1800 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("a call with %q may take %v by a deadline of %v and at most %v", test.query, test.want, test.deadline, test.max), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{}
				h := serve(s)
				for _, p := range []*admission.Handler{h.mutate, h.validate} {
					p.Deadline, p.MaxTimeout = test.deadline, test.max
				}
				body := reviewOf(t, newRequest(time.Now(), "a", nil))
				if r := answered(t, post(t, h.mutate, body, test.query)); !r.Allowed {
					t.Errorf("refused: %v", r.Result)
				}
				if r := answered(t, post(t, h.validate, body, test.query)); !r.Allowed {
					t.Errorf("refused: %v", r.Result)
				}
				if got := fmt.Sprint(s.patience); got != fmt.Sprint([]time.Duration{test.want, test.want}) {
					t.Errorf("the store was given %s, want %v twice", got, test.want)
				}
			})
		})
	}
}

// TestTheBoundOfReviewsInFlight fills the only place with a review that the store never decides.
func TestTheBoundOfReviewsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{}
		h := serve(s)
		h.mutate.Deadline = 0
		calls := []string{
			"allowed false after 200ms", // has the place
			"allowed true after 0s",     // the local limit has two tokens
			"allowed true after 0s",
			"allowed false after 0s",
		}
		began := time.Now()
		answers := make([]*httptest.ResponseRecorder, len(calls))
		times := make([]time.Duration, len(calls))
		var posts sync.WaitGroup
		for i := range calls {
			posts.Go(func() {
				answers[i] = post(t, h.mutate, reviewOf(t, newRequest(began, "a", nil)), "?timeout=1s")
				times[i] = time.Since(began)
			})
			synctest.Wait()
		}
		posts.Wait()
		for i, want := range calls {
			if got := fmt.Sprintf("allowed %t after %v", answered(t, answers[i]).Allowed, times[i]); got != want {
				t.Errorf("call %d: %s, want %s", i, got, want)
			}
		}
		if len(s.patience) != 1 {
			t.Errorf("%d reviews reached the store, want 1", len(s.patience))
		}
		undecided, overloaded := admission.Undecided, admission.Overloaded
		if got, want := fmt.Sprint(h.counted), fmt.Sprint([]admission.Outcome{undecided, undecided, overloaded, overloaded}); got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
	})
}

func TestAPlaceInFlightIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{}
		h := serve(s)
		h.mutate.Deadline = 0
		body := reviewOf(t, newRequest(time.Now(), "a", nil))
		for range 2 {
			post(t, h.mutate, body, "?timeout=1s")
		}
		if got, want := fmt.Sprint(s.patience), "[200ms 200ms]"; got != want {
			t.Errorf("the store was given %s, want %s", got, want)
		}
		for _, bad := range []string{"", "{}"} {
			post(t, h.mutate, []byte(bad), "")
		}
		if !h.mutate.InFlight.AllFree() {
			t.Error("a place is not given back")
		}
	})
}

func TestAFaultOfTheStoreIsAnswered(t *testing.T) {
	t.Parallel()
	for says, fault := range map[string]faulty{
		"fails":  func() error { return store.ErrFull },
		"panics": func() error { panic("bug") },
	} {
		t.Run("when the store "+says+" Events are admitted under the local limit", func(t *testing.T) {
			t.Parallel()
			h := serve(fault)
			body := reviewOf(t, newRequest(time.Now(), "a", nil))
			for i, want := range []bool{true, true, false} {
				if r := answered(t, post(t, h.validate, body, unhurried)); r.Allowed != want || r.UID != requestUID {
					t.Errorf("review %d: allowed %t, want %t", i+1, r.Allowed, want)
				}
			}
		})
	}
}
