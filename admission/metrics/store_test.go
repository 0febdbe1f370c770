package metrics

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/prom"
)

func TestStoreMetrics(t *testing.T) {
	t.Parallel()
	m := New("devel")
	s := &failingStore{}
	calls, queue := m.Store.Observe("memory", s), m.Store.ObserveQueue("memory", s)
	for _, s.err = range []error{
		nil, fmt.Errorf("decide: %w", store.ErrFull), fmt.Errorf("too slow: %w", context.DeadlineExceeded),
		fmt.Errorf("%w: %w", store.ErrUnconfirmed, context.DeadlineExceeded),
		errors.New("no connection"), fmt.Errorf("caller no longer waits: %w", context.Canceled),
	} {
		_, decided := calls.Decide(t.Context(), time.Now(), store.Write{}, store.Limits{})
		_, claimed := queue.Claim(t.Context(), time.Now(), 0, 1, nil)
		completed := queue.Complete(t.Context(), time.Now(), store.PendingWrite{}, store.Outcome{})
		for _, err := range []error{decided, claimed, completed} {
			if !errors.Is(err, s.err) {
				t.Errorf("error %v, want %v", err, s.err)
			}
		}
	}
	var took, failed []string
	for _, step := range []string{"decide", "claim", "complete"} {
		took = append(took, fmt.Sprintf(`{step=%q,store="memory"} 6`, step))
		for _, reason := range []string{"full", "other", "timeout", "unconfirmed"} {
			failed = append(failed, fmt.Sprintf(`{reason=%q,step=%q,store="memory"} 1`, reason, step))
		}
	}
	prom.Want(t, m.Gatherer, "eventquota_store_duration_seconds", took...)
	prom.Want(t, m.Gatherer, "eventquota_store_errors_total", failed...)
}

// failingStore is a store whose calls all end alike.
type failingStore struct{ err error }

func (f *failingStore) Decide(context.Context, time.Time, store.Write, store.Limits) (store.Decision, error) {
	return store.Decision{}, f.err
}

func (f *failingStore) Claim(context.Context, time.Time, time.Duration, int, func(string, store.Key) bool) ([]store.PendingWrite, error) {
	return nil, f.err
}

func (f *failingStore) Complete(context.Context, time.Time, store.PendingWrite, store.Outcome) error {
	return f.err
}

func (f *failingStore) Pending(context.Context) (int64, error) { return 0, f.err }

func TestOverflowMetrics(t *testing.T) {
	t.Parallel()
	m := New("devel")
	d := decided("shop", "own", "Normal", store.Drop)
	m.ObserveDecision(d)
	prom.Want(t, m.Gatherer, "eventquota_store_overflow_decisions_total", `{kind="bucket"} 0`, `{kind="register"} 0`)
	d.OverflowQuota = d.Rule
	m.ObserveDecision(d)
	d.OverflowPolicy = d.Rule
	m.ObserveDecision(d)
	d.Audited = true // nothing has become of it
	m.ObserveDecision(d)
	prom.Want(t, m.Gatherer, "eventquota_store_overflow_decisions_total", `{kind="bucket"} 2`, `{kind="register"} 1`)
}
