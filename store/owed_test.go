package store_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// TestOwedCountsWhatTheAPIServerIsToBeTold holds it for each store, and that a
// claimed debt says since when it is due.
func TestOwedCountsWhatTheAPIServerIsToBeTold(t *testing.T) {
	t.Parallel()
	memory, err := store.NewMemory(store.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]interface {
		store.Store
		store.Settling
		Owed(ctx context.Context) (int64, error)
	}{
		"Memory": memory,
		"Redis":  store.NewPunctual(store.NewRedis(standalone(t).client, store.RedisOptions{Prefix: "owed:"})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owes := func(when string, want int64) {
				t.Helper()
				if owed, err := s.Owed(t.Context()); err != nil || owed != want {
					t.Errorf("%s %d is owed, %v, want %d", when, owed, err, want)
				}
			}
			now := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
			terms := store.Terms{
				MaxEvents: 10, Window: time.Hour, RepeatWindow: time.Hour, FlushInterval: 10 * time.Second,
				Spam: store.Bucket{Key: store.KeyOf("spam"), Limit: store.Limit{Burst: 25, Every: time.Minute}},
			}
			write := func(pod, name string) {
				t.Helper()
				w := store.Write{
					Group: store.KeyOf(pod), Exact: store.KeyOf("exact"), Similar: store.KeyOf("similar"), Message: store.KeyOf("m"),
					Namespace: "default", Name: name, Reason: "BackOff", Text: "m", Count: 1, At: now,
				}
				d, err := s.Merge(t.Context(), now, w, terms)
				if err == nil && d.Verdict == store.Admit {
					_, err = s.Take(t.Context(), now, w, terms)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			owes("at first", 0)
			write("a", "a.1")
			write("b", "b.1")
			owes("after two that were stored", 0)
			write("a", "a.2")
			write("a", "a.3")
			write("b", "b.2")
			owes("after repeats of both", 2)
			later := now.Add(time.Minute)
			debts, err := s.Due(t.Context(), later, math.MaxInt64, 10)
			if err != nil || len(debts) != 2 {
				t.Fatalf("%d debts, %v, want 2", len(debts), err)
			}
			owes("once claimed", 2)
			for _, d := range debts {
				if want := now.Add(terms.FlushInterval); !d.Due.Equal(want) {
					t.Errorf("due at %s, want %s: a flush interval after it was stored", d.Due, want)
				}
				if err := s.Settle(t.Context(), later, d, store.Told); err != nil {
					t.Fatal(err)
				}
			}
			owes("once settled", 0)
		})
	}
}
