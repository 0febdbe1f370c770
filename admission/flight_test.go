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
}

func (s *stuck) wait(ctx context.Context) (store.Decision, error) {
	since := time.Now()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience = append(s.patience, time.Since(since))
	return store.Decision{}, ctx.Err()
}

func (s *stuck) Merge(ctx context.Context, _ time.Time, _ store.Write, _ store.Terms) (store.Decision, error) {
	return s.wait(ctx)
}

func (s *stuck) Take(ctx context.Context, _ time.Time, _ store.Write, _ store.Terms) (store.Decision, error) {
	return s.wait(ctx)
}

func TestTheDeadlineIsHandedOn(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		"":              9 * time.Second,
		"?timeout=2s":   1800 * time.Millisecond,
		"?timeout=30s":  27 * time.Second,
		"?timeout=10ms": 9 * time.Millisecond,
	} {
		t.Run(fmt.Sprintf("a call with %q may take %v", query, want), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{}
				h := serve(s)
				body := reviewOf(t, newRequest(time.Now(), "a", nil))
				if r := answered(t, post(t, h.mutate, body, query)); !r.Allowed {
					t.Errorf("refused: %v", r.Result)
				}
				if r := answered(t, post(t, h.validate, body, query)); !r.Allowed {
					t.Errorf("refused: %v", r.Result)
				}
				if got := fmt.Sprint(s.patience); got != fmt.Sprint([]time.Duration{want, want}) {
					t.Errorf("the store was given %s, want %v twice", got, want)
				}
			})
		})
	}
}

// TestTheBoundOfReviewsInFlight fills the only place with a review that the
// store never decides.
func TestTheBoundOfReviewsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{}
		h := serve(s)
		calls := []struct {
			query string
			says  string
		}{
			{"?timeout=30s", "allowed false after 27s"}, // has the place
			{"?timeout=2s", "allowed true after 1s"},    // waits for half its time, and the local limit has two tokens
			{"?timeout=4s", "allowed true after 2s"},
			{"?timeout=6s", "allowed false after 3s"},
		}
		began := time.Now()
		answers := make([]*httptest.ResponseRecorder, len(calls))
		times := make([]time.Duration, len(calls))
		var posts sync.WaitGroup
		for i, c := range calls {
			posts.Go(func() {
				answers[i] = post(t, h.mutate, reviewOf(t, newRequest(began, "a", nil)), c.query)
				times[i] = time.Since(began)
			})
			synctest.Wait()
		}
		posts.Wait()
		for i, c := range calls {
			if says := fmt.Sprintf("allowed %t after %v", answered(t, answers[i]).Allowed, times[i]); says != c.says {
				t.Errorf("call with %s: %s, want %s", c.query, says, c.says)
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
		body := reviewOf(t, newRequest(time.Now(), "a", nil))
		var posts sync.WaitGroup
		posts.Go(func() { post(t, h.mutate, body, "?timeout=2s") })
		synctest.Wait()
		// Its turn comes before it has waited for half its time.
		posts.Go(func() { post(t, h.validate, body, "?timeout=10s") })
		posts.Wait()
		if got, want := fmt.Sprint(s.patience), "[1.8s 7.2s]"; got != want {
			t.Errorf("the store was given %s, want %s", got, want)
		}
		for _, bad := range []string{"", "{}"} {
			post(t, h.mutate, []byte(bad), "")
		}
		if !h.mutate.InFlight.AllFree(t.Context()) {
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
				if r := answered(t, post(t, h.validate, body, "")); r.Allowed != want || r.UID != requestUID {
					t.Errorf("review %d: allowed %t, want %t", i+1, r.Allowed, want)
				}
			}
		})
	}
}
