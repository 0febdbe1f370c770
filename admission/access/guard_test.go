package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that the tests leave no goroutine running.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func TestGuardRequiresTokenAndPermission(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		method, authorization string
		status, reviews       int
	}{
		"a token with access is served":              {http.MethodGet, "Bearer reader", http.StatusOK, 1},
		"the scheme may be written in any case":      {http.MethodGet, "bearer reader", http.StatusOK, 1},
		"a token without access is forbidden":        {http.MethodGet, "Bearer somebody", http.StatusForbidden, 1},
		"access depends on the verb":                 {http.MethodPost, "Bearer reader", http.StatusForbidden, 1},
		"an unknown token is unauthorized":           {http.MethodGet, "Bearer nobody", http.StatusUnauthorized, 1},
		"no token is unauthorized, without a review": {http.MethodGet, "", http.StatusUnauthorized, 0},
		"so is an empty one":                         {http.MethodGet, "Bearer ", http.StatusUnauthorized, 0},
		"so is a password":                           {http.MethodGet, "Basic cmVhZGVy", http.StatusUnauthorized, 0},
		"a failed review is unavailable":             {http.MethodGet, "Bearer failing", http.StatusServiceUnavailable, 1},
		"two tokens are not read as one of them":     {http.MethodGet, "Bearer reader reader", http.StatusUnauthorized, 1},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := &fakeReviews{}
			answer := request(t, newGuard(r.review), test.method, test.authorization)
			if answer.Code != test.status || r.calls != test.reviews {
				t.Errorf("got status %d after %d reviews, want %d after %d", answer.Code, r.calls, test.status, test.reviews)
			}
			if got := answer.Body.String() == "secret"; got != (test.status == http.StatusOK) {
				t.Errorf("got body %q with status %d", answer.Body, test.status)
			}
			if got := answer.Header().Get("WWW-Authenticate"); (got == "Bearer") != (test.status == http.StatusUnauthorized) {
				t.Errorf("got WWW-Authenticate %q with status %d", got, test.status)
			}
		})
	}
}

func TestAnswersExpire(t *testing.T) {
	t.Parallel()
	for token, ttl := range map[string]time.Duration{"reader": allowedTTL, "somebody": refusedTTL, "nobody": refusedTTL, "failing": 0} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			r, c := &fakeReviews{}, &fakeClock{time.Unix(0, 0)}
			g := newGuard(r.review)
			g.answers = cache.NewLRUExpireCacheWithClock(maxCachedAnswers, c)
			want := 0
			for _, step := range []struct {
				after  time.Duration
				review bool
			}{{0, true}, {0, ttl == 0}, {ttl, ttl == 0}, {1, true}} {
				c.now = c.now.Add(step.after)
				status := request(t, g, http.MethodGet, "Bearer "+token).Code
				if step.review {
					want++
				}
				if r.calls != want {
					t.Errorf("after %s more: got %d reviews, want %d (status %d)", step.after, r.calls, want, status)
				}
			}
		})
	}
}

// TestTokenFloodIsBounded checks that concurrent reviews are bounded, and that a flood of unknown tokens does not affect
// clients that were allowed before.
func TestTokenFloodIsBounded(t *testing.T) {
	t.Parallel()
	const flood = 500
	if answerKey("a", "bc") == answerKey("ab", "c") {
		t.Error("different parts have the same key")
	}
	r, c := &fakeReviews{started: make(chan struct{}), release: make(chan struct{})}, &fakeClock{time.Unix(0, 0)}
	g := newGuard(r.review)
	g.answers, g.known = cache.NewLRUExpireCacheWithClock(maxCachedAnswers, c), cache.NewLRUExpireCacheWithClock(maxCachedAnswers, c)
	from := func(address, token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		request.RemoteAddr = address
		return send(g, request, "Bearer "+token).Code
	}
	const prometheus, moved, unknown = "10.0.0.1:1111", "10.0.0.2:1111", "10.0.0.3:1111"
	if got := from(prometheus, "reader"); got != http.StatusOK {
		t.Fatalf("got status %d, want 200", got)
	}
	other := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/other", http.NoBody)
	if got := send(g, other, "Bearer reader").Code; got != http.StatusForbidden {
		t.Errorf("got status %d for another path, want 403", got)
	}
	c.now = c.now.Add(knownTTL) // after allowedTTL, so that the result is no longer cached

	ended := make(chan int)
	for i := range flood {
		go func() { ended <- from(unknown, "slow-"+strconv.Itoa(i)) }()
	}
	for range maxConcurrentReviews {
		<-r.started
	}
	for range flood - maxConcurrentReviews {
		if got := <-ended; got != http.StatusServiceUnavailable {
			t.Errorf("got status %d above maxConcurrentReviews, want 503", got)
		}
	}
	g.unknownLimiter.rate.SetBurst(0) // as if the rate were exhausted, too
	for says, test := range map[string]struct {
		address, token string
		status         int
	}{
		"a token that was allowed before":           {moved, "reader", http.StatusOK},
		"a new token from an address that is known": {prometheus, "reader-2", http.StatusOK},
		"a new token from an address that is not":   {unknown, "reader-3", http.StatusServiceUnavailable},
	} {
		if got := from(test.address, test.token); got != test.status {
			t.Errorf("%s: got status %d during the flood, want %d", says, got, test.status)
		}
	}
	close(r.release)
	for range maxConcurrentReviews {
		if got := <-ended; got != http.StatusUnauthorized {
			t.Errorf("got status %d for a reviewed token of the flood, want 401", got)
		}
	}
	g.unknownLimiter.rate.SetBurst(reviewsPerSecond)
	if got := from(unknown, "reader-3"); got != http.StatusOK {
		t.Errorf("got status %d after the flood, want 200", got)
	}
}

// request sends a request for /metrics to a guard.
func request(t *testing.T, g *Guard, method, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	return send(g, httptest.NewRequestWithContext(t.Context(), method, "/metrics", http.NoBody), authorization)
}

func send(g *Guard, request *http.Request, authorization string) *httptest.ResponseRecorder {
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	g.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("secret"))
	})).ServeHTTP(answer, request)
	return answer
}

// fakeReviews knows the tokens reader and reader-*, which may get /metrics, and somebody, which may do nothing. A review of a
// token slow-* blocks until release is closed.
type fakeReviews struct {
	calls            int
	started, release chan struct{}
}

func (r *fakeReviews) review(_ context.Context, q accessQuery) (int, error) {
	token, verb, path := q.token, q.verb, q.path
	if strings.HasPrefix(token, "slow-") {
		r.started <- struct{}{}
		<-r.release
		return http.StatusUnauthorized, nil
	}
	r.calls++
	switch reader := token == "reader" || strings.HasPrefix(token, "reader-"); {
	case token == "failing":
		return 0, errors.New("unavailable")
	case reader && verb == "get" && path == "/metrics":
		return http.StatusOK, nil
	case reader, token == "somebody":
		return http.StatusForbidden, nil
	}
	return http.StatusUnauthorized, nil
}

type fakeClock struct{ now time.Time }

func (c *fakeClock) Now() time.Time { return c.now }
