package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// bench decides writes of some Events about each of several pods, one after the other.
func bench(b *testing.B, pods, events int, change func(w *store.Write, l *store.Limits)) {
	b.Helper()
	s := New(Options{Bytes: DefaultBytes})
	l := store.Limits{
		Merge: true, MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour,
		WriteInterval: 10 * time.Second, MaxWriteInterval: time.Minute, KeepMessages: 5, ReservePerReason: 1,
		Spam:   store.Bucket{Key: store.KeyOf("spam"), Name: "spam filter", Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}},
		Quotas: []store.Bucket{{Key: store.KeyOf("namespace"), Limit: store.Limit{Burst: 1 << 20, Every: time.Microsecond}}},
	}
	writes := make([]store.Write, pods*events)
	for i := range writes {
		pod := fmt.Sprint("pod-", i%pods)
		writes[i] = store.Write{
			Group: store.KeyOf(pod), Object: store.KeyOf(pod), Exact: store.KeyOf("Failed", "m"), Similar: store.KeyOf("Failed"), Message: store.KeyOf("m"),
			Namespace: "default", Name: fmt.Sprint("pod.", i), Reason: "Failed", Text: "m", Count: 1, At: epoch(),
			About: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: pod},
		}
		change(&writes[i], &l)
	}
	now := epoch()
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % len(writes) {
		now = now.Add(time.Millisecond)
		if _, err := s.Decide(b.Context(), now, writes[i], l); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	same := func(*store.Write, *store.Limits) {}
	b.Run("first", func(b *testing.B) { bench(b, 100_000, 1, same) })
	b.Run("repeat", func(b *testing.B) { bench(b, 1000, 10, same) })
	b.Run("repeat under many names", func(b *testing.B) { bench(b, 10, 1000, same) })
	b.Run("dropped by the spam filter", func(b *testing.B) {
		bench(b, 1000, 10, func(_ *store.Write, l *store.Limits) { l.Spam.Burst, l.ReservePerReason = 0, 0 })
	})
	b.Run("dropped by a quota", func(b *testing.B) {
		bench(b, 1000, 10, func(_ *store.Write, l *store.Limits) { l.Quotas[0].Burst = 0 })
	})
	b.Run("update", func(b *testing.B) {
		bench(b, 1000, 1, func(w *store.Write, _ *store.Limits) {
			w.Update = &store.Update{Recorder: true, Stored: store.Stored{Count: 1}}
		})
	})
}
