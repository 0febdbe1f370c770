package simulate

import (
	"github.com/eventquota/eventquota/admission/busiest"
)

// rankedWrites is the number of writes per batch. Of the rankedBatches batches, two are queued, one is being filled, and one is
// being counted.
const rankedWrites, rankedBatches = 128, 4

// ranked ranks the busiest sources and objects. It counts the writes in order, in its own goroutine, which end stops. Only one
// goroutine at a time may use it.
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

// add queues a write for counting.
func (r *ranked) add(w busiest.Write) {
	if r.next = append(r.next, w); len(r.next) == rankedWrites {
		r.full <- r.next
		r.next = <-r.free
	}
}

// end waits until all writes are counted and returns the rankings. Do not call end or add afterwards.
func (r *ranked) end() map[busiest.Dimension]busiest.Ranking {
	r.full <- r.next
	close(r.full)
	<-r.done
	return busiest.NewSum([]busiest.Snapshot{{Rankings: r.rankings.All()}}).Rankings
}
