package store

import (
	"fmt"
	"testing"
	"time"
)

// bench makes a store and the writes of n Events about each of several pods,
// and says how long a call takes that does something with one of them.
func bench(b *testing.B, pods, n int, call func(m *Memory, w Write, t Terms) error) {
	b.Helper()
	m, err := NewMemory(DefaultBytes)
	if err != nil {
		b.Fatal(err)
	}
	writes := make([]Write, pods*n)
	for i := range writes {
		pod, name := fmt.Sprint("pod-", i%pods), fmt.Sprint("pod.", i)
		writes[i] = Write{
			Group: KeyOf(pod), Exact: KeyOf("Failed", "m"), Similar: KeyOf("Failed"), Message: KeyOf("m"),
			Namespace: "default", Name: name, Reason: "Failed", Text: "m", Count: 1, At: epoch(),
			Subject: Subject{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: pod},
		}
	}
	t := Terms{
		MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour, FlushInterval: 10 * time.Second, KeepMessages: 5, ReservePerReason: 1,
		Spam:   Bucket{Key: KeyOf("spam"), Limit: Limit{Burst: 25, Every: 5 * time.Minute}},
		Quotas: []Bucket{{Key: KeyOf("namespace"), Limit: Limit{Burst: 200, Every: 20 * time.Millisecond}}},
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := call(m, writes[i], t); err != nil {
			b.Fatal(err)
		}
		i = (i + 1) % len(writes)
	}
}

func BenchmarkMemory(b *testing.B) {
	now := epoch()
	merge := func(m *Memory, w Write, t Terms) error {
		_, err := m.Merge(b.Context(), now, w, t)
		return err
	}
	take := func(m *Memory, w Write, t Terms) error {
		now = now.Add(time.Millisecond)
		_, err := m.Take(b.Context(), now, w, t)
		return err
	}
	update := func(m *Memory, w Write, t Terms) error {
		w.Update = &Update{Recorder: true, OldCount: 1}
		return take(m, w, t)
	}
	b.Run("first", func(b *testing.B) { bench(b, 100_000, 1, merge) })
	b.Run("repeat", func(b *testing.B) { bench(b, 1000, 10, merge) })
	b.Run("repeat under many names", func(b *testing.B) { bench(b, 10, 1000, merge) })
	b.Run("take or drop", func(b *testing.B) { bench(b, 1000, 10, take) })
	b.Run("take or drop one", func(b *testing.B) { bench(b, 1, 1000, take) })
	b.Run("update", func(b *testing.B) { bench(b, 1000, 1, update) })
}
