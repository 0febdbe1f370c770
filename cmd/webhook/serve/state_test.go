package serve

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestRunAllStopsOnFailure(t *testing.T) {
	broken := errors.New("broken")
	ended := false
	err := runAll(
		func(context.Context) error { return broken },
		func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil },
	)(t.Context())
	if !errors.Is(err, broken) || !ended {
		t.Errorf("the second task ended: %t, want true; error %v, want that of the first", ended, err)
	}
}

// TestOwnCountsGetAllTheTimeOfADrain stops a replica while Redis is down and the API server takes no writes at first. A replica that does
// not lead has all of --drain-timeout for the counts that it could not report to Redis.
func TestOwnCountsGetAllTheTimeOfADrain(t *testing.T) {
	t.Parallel()
	const refusals = 3 // the next try comes more than a third of the time later
	redis := redistest.Start(t, redistest.Options{})
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	api := newAPIServer(t)
	var tries atomic.Int64
	accepts := api.Config.Handler
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") && tries.Add(1) <= refusals {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		accepts.ServeHTTP(w, r)
	})
	s := startServer(t, api, func(o *options) { o.Redis.Addresses, o.DrainTimeout = []string{redis.Addr()}, 9*time.Second })
	s.readyForEvents(t)
	callWebhook(t, s.opts.Port, "mutate", "first", true)
	callWebhook(t, s.opts.Port, "mutate", "second", false)
	s.end(t)
	if n := tries.Load(); n != refusals+1 {
		t.Errorf("%d tries to write the notice, want %d", n, refusals+1)
	}
}

// TestIsCalledAsksAgain has an API server that refuses a request for the webhook configurations. There are none, so no other replica
// writes the pending counts.
func TestIsCalledAsksAgain(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	var refusals atomic.Int64
	answers := api.Config.Handler
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "webhookconfigurations/") && refusals.Add(-1) >= 0 {
			http.Error(w, "", http.StatusInternalServerError)
			return
		}
		answers.ServeHTTP(w, r)
	})
	s := startServer(t, api, func(*options) {})
	s.ready(t)
	refusals.Store(1)
	if s.isCalled(t.Context()) {
		t.Error("the webhook is called without webhook configurations")
	}
	s.end(t)
}
