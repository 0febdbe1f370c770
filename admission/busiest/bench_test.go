package busiest_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

func BenchmarkCount(b *testing.B) {
	for _, objects := range []int{1, busiest.Places, 1 << 14} {
		writes := make([]*admission.Decided, objects)
		for n := range writes {
			writes[n] = write(n).decided(store.Merge)
		}
		b.Run(fmt.Sprintf("%d objects", objects), func(b *testing.B) {
			b.ReportAllocs()
			c := busiest.NewCounter("a", epoch(), busiest.Places)
			for i := 0; b.Loop(); i++ {
				c.Decided(writes[i%objects])
			}
		})
		b.Run(fmt.Sprintf("%d objects, from all processors", objects), func(b *testing.B) {
			b.ReportAllocs()
			c := busiest.NewCounter("a", epoch(), busiest.Places)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					c.Decided(writes[i%objects])
				}
			})
		})
	}
}

// BenchmarkPack is what a replica does every two seconds.
func BenchmarkPack(b *testing.B) {
	c := busiest.NewCounter("eventquota-6d4b75cb6d-x2x7k-abcdef", epoch(), busiest.Places)
	for n := range 1 << 14 {
		w := write(n)
		w.Object.Name = fmt.Sprintf("web-%x-%x", uint64(n)*0x9e3779b97f4a7c15, n)
		w.Source.Host = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", n%300/250, n%250)
		c.Decided(w.decided(store.Merge))
	}
	b.ReportAllocs()
	for b.Loop() {
		packed, err := busiest.Pack(c.Snapshot(epoch()))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(packed)), "bytes")
	}
}
