package tally_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/tally"
)

func BenchmarkCount(b *testing.B) {
	subjects := make([]tally.Subject, 1<<12)
	for i := range subjects {
		subjects[i] = subject(fmt.Sprint("web-6d4b75cb6d-", i))
	}
	for _, bench := range []struct {
		says    string
		verdict store.Verdict
		objects int
	}{
		{"admitted", store.Admit, 1},
		{"one object", store.Drop, 1},
		{"64 objects", store.Drop, 64},
		{"4096 objects", store.Drop, 4096},
	} {
		b.Run(bench.says, func(b *testing.B) {
			b.ReportAllocs()
			c := tally.NewCounter(tally.NewMemory())
			for i := 0; b.Loop(); i++ {
				c.Count(id1, bench.verdict, &subjects[i%bench.objects])
			}
		})
	}
	b.Run("one object, from all processors", func(b *testing.B) {
		b.ReportAllocs()
		c := tally.NewCounter(tally.NewMemory())
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Count(id1, store.Drop, &subjects[0])
			}
		})
	})
}

// BenchmarkBook adds what a replica counted of 100 policies: of each, refusals of
// so many objects.
func BenchmarkBook(b *testing.B) {
	for _, objects := range []int{0, 4, 64} {
		for kind, book := range map[string]tally.Book{"Memory": tally.NewMemory(), "Redis": tally.NewRedis(standalone(b), "test:")} {
			b.Run(fmt.Sprintf("%s/%d objects", kind, objects), func(b *testing.B) {
				batch := tally.Batch{Replica: fmt.Sprint(b.N, objects)}
				for b.Loop() {
					batch.Seq++
					batch.Entries = nil
					for n := range 100 {
						e := tally.Entry{ID: id(n), Counts: one()}
						for o := range objects {
							e.Offenders = append(e.Offenders, tally.Offender{Subject: subject(fmt.Sprint(int(batch.Seq)*objects/2 + o)), Dropped: 1})
						}
						batch.Entries = append(batch.Entries, e)
					}
					if err := book.Add(b.Context(), time.Now(), batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "us/policy")
			})
		}
	}
}
