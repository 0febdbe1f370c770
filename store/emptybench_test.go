package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkRefuse is a write that is refused without asking Redis, by 128
// callers at a time.
func BenchmarkRefuse(b *testing.B) {
	tests := []struct {
		says        string
		pods, names int
	}{
		{"one object, one name", 1, 1},
		{"one object, new names", 1, 100_000},
		{"1000 objects, one name each", 1000, 1000},
		{"1000 objects, new names", 1000, 100_000},
	}
	for _, test := range tests {
		b.Run(test.says, func(b *testing.B) {
			r, terms := newRefuser(nil, quiet), spamTerms(25, 1, 5*time.Minute)
			writes := make([]Write, test.names)
			for i := range writes {
				writes[i] = refusedWrite(fmt.Sprint("pod-", i%test.pods), fmt.Sprint("pod.17c8f0a1b2c3d", i), "Failed", 1)
				r.learn(time.Now(), writes[i], terms, forever, time.Time{})
			}
			var handing sync.WaitGroup
			ctx, stop := context.WithCancel(b.Context())
			handing.Go(func() { r.run(ctx) })
			var callers, missed atomic.Int64
			b.SetParallelism(64)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := int(callers.Add(1)) * 7919
				for pb.Next() {
					i++
					if _, ok := r.refuse(time.Now(), writes[i%len(writes)], terms); !ok {
						missed.Add(1)
					}
				}
			})
			b.StopTimer()
			stop()
			handing.Wait()
			if missed.Load() > 0 {
				b.Errorf("%d of %d were not refused", missed.Load(), b.N)
			}
		})
	}
}
