package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
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

// held is a review that came before.
type held struct {
	length    int
	namespace string
}

// TestPlacesAreForWhatIsThere has a store that decides nothing before a call's time is over, so whoever has places
// keeps them for as long.
func TestPlacesAreForWhatIsThere(t *testing.T) {
	t.Parallel()
	const a, b = "default", "b"
	for says, tt := range map[string]struct {
		places  int
		held    []held
		later   time.Duration
		length  int
		unknown bool // its length
		want    string
	}{
		"a short one takes one":                           {places: 3, held: []held{{0, a}, {0, b}}, want: "200 after 200ms"},
		"a short one that finds none is answered at once": {places: 2, held: []held{{0, a}, {0, b}}, want: "200 after 0s"},
		"a long one takes one more for each 64Ki":         {places: 8, held: []held{{0, b}, {150 << 10, b}}, length: 150 << 10, want: "200 after 200ms"},
		"one that finds too few of these is not read on":  {places: 8, held: []held{{270 << 10, a}}, length: 150 << 10, want: "200 after 200ms, without its content"},
		"one of a length that is not known, too":          {places: 8, held: []held{{270 << 10, a}}, length: 150 << 10, unknown: true, want: "200 after 200ms, without its content"},
		"but not for a length that is not there":          {places: 8, held: []held{{270 << 10, a}}, length: 100 << 10, unknown: true, want: "200 after 200ms"},
		"nor for those of another namespace":              {places: 8, held: []held{{270 << 10, b}}, length: 150 << 10, want: "200 after 200ms"},
		"nor a while later":                               {places: 8, held: []held{{270 << 10, a}}, later: time.Minute, length: 150 << 10, want: "200 after 200ms"},
		"long ones leave all others to short ones":        {places: 4, held: []held{{maxBytes, b}}, want: "200 after 200ms"},
		"short ones leave all others to long ones":        {places: 4, held: []held{{0, a}, {0, b}}, length: maxBytes, want: "200 after 200ms"},
		"the longest takes all, and not more":             {places: 4, length: maxBytes, want: "200 after 200ms"},
		"a namespace may have as many as are free":        {places: 5, held: []held{{0, b}, {0, a}, {0, a}}, want: "200 after 200ms"},
		"and no more": {places: 5, held: []held{{0, b}, {0, a}, {0, a}, {0, a}}, want: "200 after 0s"},
		"nobody's many keep out another namespace": {places: 3, held: []held{{0, b}, {0, b}, {0, b}, {0, b}}, want: "200 after 200ms"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{}
				h := serveIn(s, tt.places)
				h.mutate.Deadline = 0
				review := func(r held) []byte {
					text := reviewOf(t, newRequest(time.Now(), "a", details{in(r.namespace)}))
					return append(text, bytes.Repeat([]byte(" "), max(0, r.length-len(text)))...)
				}
				var before sync.WaitGroup
				for _, one := range tt.held {
					before.Go(func() { post(t, h.mutate, review(one), "?timeout=30s") })
					synctest.Wait()
				}
				<-time.After(tt.later) // on the clock of the bubble
				began := time.Now()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1s", bytes.NewReader(review(held{tt.length, a})))
				if tt.unknown {
					req.ContentLength = -1
				}
				w := postAs(t, h.mutate, req)
				got := fmt.Sprintf("%d after %v", w.Code, time.Since(began))
				if s.unread {
					got += ", without its content"
				}
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if w.Code == http.StatusOK {
					answered(t, w)
				}
				before.Wait()
				if !h.mutate.InFlight.AllFree() {
					t.Error("a place is not given back")
				}
			})
		})
	}
}
