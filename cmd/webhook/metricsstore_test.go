package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/tally"
	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestWhatStoresDoIsMeasured(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	s := &failing{}
	calls, debts := m.store.observe("memory", s), m.store.observeDebts("memory", s)
	for _, s.err = range []error{
		nil, fmt.Errorf("merge: %w", store.ErrFull), fmt.Errorf("too slow: %w", context.DeadlineExceeded),
		errors.New("no connection"), fmt.Errorf("caller has gone: %w", context.Canceled),
	} {
		_, merged := calls.Merge(t.Context(), time.Now(), store.Write{}, store.Terms{})
		_, took := calls.Take(t.Context(), time.Now(), store.Write{}, store.Terms{})
		_, due := debts.Due(t.Context(), time.Now(), 0, 1)
		settled := debts.Settle(t.Context(), time.Now(), store.Debt{}, store.Told)
		for _, err := range []error{merged, took, due, settled} {
			if !errors.Is(err, s.err) {
				t.Errorf("error %v, want %v", err, s.err)
			}
		}
	}
	var took, failed []string
	for _, step := range []string{"merge", "take", "due", "settle"} {
		took = append(took, fmt.Sprintf(`{step=%q,store="memory"} 5`, step))
		for _, reason := range []string{"full", "other", "timeout"} {
			failed = append(failed, fmt.Sprintf(`{reason=%q,step=%q,store="memory"} 1`, reason, step))
		}
	}
	wantLines(t, m, "eventquota_store_duration_seconds", took...)
	wantLines(t, m, "eventquota_store_errors_total", failed...)
}

// failing is a store whose calls all end alike.
type failing struct{ err error }

func (f *failing) Merge(context.Context, time.Time, store.Write, store.Terms) (store.Decision, error) {
	return store.Decision{}, f.err
}
func (f *failing) Take(context.Context, time.Time, store.Write, store.Terms) (store.Decision, error) {
	return store.Decision{}, f.err
}
func (f *failing) Due(context.Context, time.Time, time.Duration, int) ([]store.Debt, error) {
	return nil, f.err
}
func (f *failing) Settle(context.Context, time.Time, store.Debt, store.Outcome) error { return f.err }

// TestMetricsOfARedisThatGoesAway holds what is told of its calls, of the tokens
// leased from it and of the circuit breaker.
func TestMetricsOfARedisThatGoesAway(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	o := defaultServeOptions()
	o.Redis.Addresses = []string{server.Addr()}
	o.StoreDeadline = time.Second // on a machine that is busy
	m := newMetrics()
	none := func(tally.Book) settling { return together{} }
	s, err := newState(o, &rest.Config{Host: "127.0.0.1:1"}, none, m, nil, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	breaker := func(closed, half, open int) {
		t.Helper()
		wantLines(t, m, "eventquota_store_breaker_state",
			fmt.Sprintf(`{state="closed"} %d`, closed), fmt.Sprintf(`{state="half-open"} %d`, half), fmt.Sprintf(`{state="open"} %d`, open))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.keep(ctx); close(ended) }()
	take := func(name string) store.Decision {
		t.Helper()
		d, err := s.store.Take(t.Context(), time.Now(), store.Write{
			Group: store.KeyOf("group", name), Exact: store.KeyOf(name), Similar: store.KeyOf(name), Message: store.KeyOf(name),
			Namespace: "shop", Name: name, Count: 1, At: time.Now(),
		}, store.Terms{
			MaxEvents: 10, Window: time.Hour, RepeatWindow: time.Hour, FlushInterval: time.Second,
			Spam:   store.Bucket{Key: store.KeyOf("spam"), Limit: store.Limit{Burst: 25, Every: time.Minute}},
			Quotas: []store.Bucket{{Key: store.KeyOf("quota"), Limit: store.Limit{Burst: 1000, Every: time.Hour}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	breaker(1, 0, 0)
	for i := range 5 {
		take(fmt.Sprint("a", i))
	}
	eventually(t, "tokens sent back", func() bool { return sum(t, m, "eventquota_tokens_returned_total") > 0 })
	leased, returned := sum(t, m, "eventquota_tokens_leased_total"), sum(t, m, "eventquota_tokens_returned_total")
	if leased-returned != 5 {
		t.Errorf("%v tokens leased and %v sent back, want 5 used", leased, returned)
	}
	if took := values(t, m, "eventquota_store_duration_seconds"); took[`eventquota_store_duration_seconds{step="take",store="redis"} 5`] != 5 {
		t.Errorf("calls %v, want 5 to take tokens from Redis", took)
	}
	wantLines(t, m, "eventquota_store_errors_total")
	server.Kill()
	for i := range 6 {
		take(fmt.Sprint("b", i))
	}
	breaker(0, 0, 1)
	if failed := sum(t, m, "eventquota_store_errors_total"); failed != 5 {
		t.Errorf("%v calls failed, want the 5 that open the breaker", failed)
	}
	if by := exposed(t, m, "eventquota_decisions_without_store_total"); by != `eventquota_decisions_without_store_total{by="local"} 6` {
		t.Errorf("decided without Redis: %s", by)
	}
	stop()
	<-ended
}
