package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

func TestMetricsAreForWhoHasATokenAndTheRight(t *testing.T) {
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
			r := &rights{}
			answer := ask(t, newGuard([lanes]reviewer{r, r, r}), test.method, test.authorization)
			if answer.Code != test.status || r.asked != test.reviews {
				t.Errorf("it is answered %d after %d reviews, want %d after %d", answer.Code, r.asked, test.status, test.reviews)
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

func TestAnswersAreKeptForTheirTimeAndNoLonger(t *testing.T) {
	t.Parallel()
	for token, kept := range map[string]time.Duration{"reader": keepAllowed, "somebody": keepRefused, "nobody": keepRefused, "failing": 0} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			r, c := &rights{}, &clock{time.Unix(0, 0)}
			g := newGuard([lanes]reviewer{r, r, r})
			g.answers = cache.NewLRUExpireCacheWithClock(guardAnswers, c)
			want := 0
			for _, step := range []struct {
				after  time.Duration
				review bool
			}{{0, true}, {0, kept == 0}, {kept, kept == 0}, {1, true}} {
				c.now = c.now.Add(step.after)
				first := ask(t, g, http.MethodGet, "Bearer "+token).Code
				if step.review {
					want++
				}
				if r.asked != want {
					t.Errorf("answered %d: %d reviews after %s more, want %d", first, r.asked, step.after, want)
				}
			}
		})
	}
}

func TestAnswersOfOnePathAreNoneOfAnother(t *testing.T) {
	t.Parallel()
	if answerKey("a", "bc") == answerKey("ab", "c") {
		t.Error("two requests have one key")
	}
	r := &rights{}
	g := newGuard([lanes]reviewer{r, r, r})
	handler := g.Before(http.NotFoundHandler())
	for path, want := range map[string]int{"/metrics": http.StatusNotFound, "/other": http.StatusForbidden} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		request.Header.Set("Authorization", "Bearer reader")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != want {
			t.Errorf("%s is answered %d, want %d", path, answer.Code, want)
		}
	}
}

// TestAFloodOfTokensKeepsOutNobodyWhoWasLetIn holds that the reviews at a time are bounded, for tokens that were never
// let in apart from those that were, and from addresses of those.
func TestAFloodOfTokensKeepsOutNobodyWhoWasLetIn(t *testing.T) {
	t.Parallel()
	r := &rights{began: make(chan struct{}), release: make(chan struct{})}
	g := newGuard([lanes]reviewer{r, r, r})
	from := func(address, token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		request.RemoteAddr = address + ":1234"
		request.Header.Set("Authorization", "Bearer "+token)
		g.answers = cache.NewLRUExpireCache(guardAnswers) // as after their time
		return g.status(request)
	}
	want := func(what, address, token string, want int) {
		t.Helper()
		if got := from(address, token); got != want {
			t.Errorf("%s is answered %d, want %d", what, got, want)
		}
	}
	want("a token", "10.0.0.1", "reader", http.StatusOK)
	ended := make(chan int)
	flood := func(address string) {
		for i := range guardPlaces {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
			request.RemoteAddr = address + ":1234"
			request.Header.Set("Authorization", "Bearer slow-"+address+strconv.Itoa(i))
			go func() { ended <- g.status(request) }()
			select {
			case <-r.began:
			case got := <-ended:
				t.Fatalf("one of no more than there are places for is answered %d at once", got)
			}
		}
	}
	flood("10.0.0.2")
	want("one more than there are places for", "10.0.0.2", "another", http.StatusServiceUnavailable)
	want("a token that was let in", "10.0.0.3", "reader", http.StatusOK)
	want("a new token of an address from which one was let in", "10.0.0.1", "reader-renewed", http.StatusOK)
	flood("10.0.0.1")
	want("a token that was let in, from an address that floods", "10.0.0.1", "reader", http.StatusOK)
	close(r.release)
	for range 2 * guardPlaces {
		if got := <-ended; got != http.StatusUnauthorized {
			t.Errorf("one that has a place is answered %d, want 401", got)
		}
	}
	want("once there are places again, another", "10.0.0.2", "another", http.StatusUnauthorized)
}

// ask asks for what is behind a guard.
func ask(t *testing.T, g *Guard, method, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, "/metrics", http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	g.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("secret"))
	})).ServeHTTP(answer, request)
	return answer
}

// rights know two tokens: reader, which may get /metrics, and somebody, which may do
// nothing. A review of a slow one begins, and ends when it is released.
type rights struct {
	asked          int
	began, release chan struct{}
}

func (r *rights) review(_ context.Context, token, verb, path string) (int, error) {
	switch {
	case token == "failing":
		r.asked++
		return 0, errors.New("unavailable")
	case len(token) > 5 && token[:5] == "slow-":
		r.began <- struct{}{}
		<-r.release
		return http.StatusUnauthorized, nil
	case (token == "reader" || token == "reader-renewed") && verb == "get" && path == "/metrics":
		r.asked++
		return http.StatusOK, nil
	case token == "reader" || token == "somebody":
		r.asked++
		return http.StatusForbidden, nil
	}
	r.asked++
	return http.StatusUnauthorized, nil
}

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }
