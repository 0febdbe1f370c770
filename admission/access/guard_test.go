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

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/cache"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGuardRequiresTokenAndPermission(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		method, authorization string
		status, reviews       int
	}{
		"a token that may get the path is let in":        {http.MethodGet, "Bearer reader", http.StatusOK, 1},
		"the scheme may be written in any case":          {http.MethodGet, "bearer reader", http.StatusOK, 1},
		"a token that may not is forbidden":              {http.MethodGet, "Bearer somebody", http.StatusForbidden, 1},
		"the right is that of the verb":                  {http.MethodPost, "Bearer reader", http.StatusForbidden, 1},
		"a token of nobody is unauthorized":              {http.MethodGet, "Bearer nobody", http.StatusUnauthorized, 1},
		"no token is unauthorized, and nobody is asked":  {http.MethodGet, "", http.StatusUnauthorized, 0},
		"so is an empty one":                             {http.MethodGet, "Bearer ", http.StatusUnauthorized, 0},
		"so is a password":                               {http.MethodGet, "Basic cmVhZGVy", http.StatusUnauthorized, 0},
		"when nobody can tell, nobody is let in":         {http.MethodGet, "Bearer failing", http.StatusServiceUnavailable, 1},
		"two tokens are not taken for one of both parts": {http.MethodGet, "Bearer reader reader", http.StatusUnauthorized, 1},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := &fakeReviews{}
			answer := request(t, newGuard(r.review), test.method, test.authorization)
			if answer.Code != test.status || r.calls != test.reviews {
				t.Errorf("it is answered %d after %d reviews, want %d after %d", answer.Code, r.calls, test.status, test.reviews)
			}
			if got := answer.Body.String() == "secret"; got != (test.status == http.StatusOK) {
				t.Errorf("it is answered %q", answer.Body)
			}
			if got := answer.Header().Get("WWW-Authenticate"); (got == "Bearer") != (test.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is %q", got)
			}
		})
	}
}

func TestAnswersExpire(t *testing.T) {
	t.Parallel()
	for token, kept := range map[string]time.Duration{"reader": allowedTTL, "somebody": refusedTTL, "nobody": refusedTTL, "failing": 0} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			r, c := &fakeReviews{}, &fakeClock{time.Unix(0, 0)}
			g := newGuard(r.review)
			g.answers = cache.NewLRUExpireCacheWithClock(maxCachedAnswers, c)
			want := 0
			for _, step := range []struct {
				after  time.Duration
				review bool
			}{{0, true}, {0, kept == 0}, {kept, kept == 0}, {1, true}} {
				c.now = c.now.Add(step.after)
				first := request(t, g, http.MethodGet, "Bearer "+token).Code
				if step.review {
					want++
				}
				if r.calls != want {
					t.Errorf("answered %d: %d reviews after %s more, want %d", first, r.calls, step.after, want)
				}
			}
		})
	}
}

// TestTokenFloodIsBounded holds that the reviews at a time are, and that strangers are not in the way of
// anyone who was allowed before.
func TestTokenFloodIsBounded(t *testing.T) {
	t.Parallel()
	const flood = 500
	if answerKey("a", "bc") == answerKey("ab", "c") {
		t.Error("two requests have one key")
	}
	r, c := &fakeReviews{started: make(chan struct{}), release: make(chan struct{})}, &fakeClock{time.Unix(0, 0)}
	g := newGuard(r.review)
	g.answers, g.known = cache.NewLRUExpireCacheWithClock(maxCachedAnswers, c), cache.NewLRUExpireCacheWithClock(maxCachedAnswers, c)
	from := func(address, token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		request.RemoteAddr = address
		return send(g, request, "Bearer "+token).Code
	}
	const prometheus, moved, stranger = "10.0.0.1:1111", "10.0.0.2:1111", "10.0.0.3:1111"
	if got := from(prometheus, "reader"); got != http.StatusOK {
		t.Fatalf("it is answered %d, want 200", got)
	}
	other := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/other", http.NoBody)
	if got := send(g, other, "Bearer reader").Code; got != http.StatusForbidden {
		t.Errorf("another path is answered %d, want 403", got)
	}
	c.now = c.now.Add(knownTTL) // its answer is kept no longer

	ended := make(chan int)
	for i := range flood {
		go func() { ended <- from(stranger, "slow-"+strconv.Itoa(i)) }()
	}
	for range maxConcurrentReviews {
		<-r.started
	}
	for range flood - maxConcurrentReviews {
		if got := <-ended; got != http.StatusServiceUnavailable {
			t.Errorf("one more than there are places for is answered %d, want 503", got)
		}
	}
	g.unknownLimiter.rate.SetBurst(0) // their rate is used up too
	for says, test := range map[string]struct {
		address, token string
		status         int
	}{
		"a token that was allowed before":            {moved, "reader", http.StatusOK},
		"a new token from where one was allowed":     {prometheus, "reader-2", http.StatusOK},
		"a new token from where another was unknown": {stranger, "reader-3", http.StatusServiceUnavailable},
	} {
		if got := from(test.address, test.token); got != test.status {
			t.Errorf("%s is answered %d meanwhile, want %d", says, got, test.status)
		}
	}
	close(r.release)
	for range maxConcurrentReviews {
		if got := <-ended; got != http.StatusUnauthorized {
			t.Errorf("one that has a place is answered %d, want 401", got)
		}
	}
	g.unknownLimiter.rate.SetBurst(reviewsPerSecond)
	if got := from(stranger, "reader-3"); got != http.StatusOK {
		t.Errorf("once there are places again, it is answered %d, want 200", got)
	}
}

// request asks for what is behind a guard.
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

// fakeReviews know the tokens reader and reader-*, which may get /metrics, and somebody, which may do nothing. A review
// of a slow one begins, and ends when it is released.
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
		return 0, errors.New("away")
	case reader && verb == "get" && path == "/metrics":
		return http.StatusOK, nil
	case reader, token == "somebody":
		return http.StatusForbidden, nil
	}
	return http.StatusUnauthorized, nil
}

type fakeClock struct{ now time.Time }

func (c *fakeClock) Now() time.Time { return c.now }
