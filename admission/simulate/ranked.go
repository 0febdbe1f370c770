package simulate

import (
	"github.com/eventquota/eventquota/admission/busiest"
)

// rankedWrites is how many writes are counted together, and rankedBatches how many batches there are: two wait, one is filled and one
// is counted.
const rankedWrites, rankedBatches = 128, 4

// ranked counts writes by what made most of them, in their order, in a goroutine of its own, which end ends. It is for one goroutine at
// a time.
type ranked struct {
	rankings   busiest.RankingCounter
	next       []busiest.Write
	full, free chan []busiest.Write
	done       chan struct{}
}

func newRanked() *ranked {
	r := &ranked{
		rankings: busiest.NewRankingCounter(maxTracked),
		full:     make(chan []busiest.Write, rankedBatches-2), free: make(chan []busiest.Write, rankedBatches), done: make(chan struct{}),
	}
	for range rankedBatches {
		r.free <- make([]busiest.Write, 0, rankedWrites)
	}
	r.next = <-r.free
	go r.count()
	return r
}

func (r *ranked) count() {
	defer close(r.done)
	for batch := range r.full {
		for i := range batch {
			r.rankings.Count(&batch[i])
		}
		clear(batch)
		r.free <- batch[:0]
	}
}

// add counts a write soon.
func (r *ranked) add(w busiest.Write) {
	if r.next = append(r.next, w); len(r.next) == rankedWrites {
		r.full <- r.next
		r.next = <-r.free
	}
}

// end returns the rankings once all are counted. It is called once, and add not after it.
func (r *ranked) end() map[busiest.Dimension]busiest.Ranking {
	r.full <- r.next
	close(r.full)
	<-r.done
	return busiest.NewSum([]busiest.Snapshot{{Rankings: r.rankings.All()}}).Rankings
}
