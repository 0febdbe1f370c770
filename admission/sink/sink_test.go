package sink

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// behaviour is the way in which a collector answers for a while.
type behaviour int

const (
	accepting       behaviour = iota
	acceptingSlowly           // takes, after seconds
	acceptingPartly           // takes some of a batch
	refusing                  // for ever
	askingToRetry             // asks to try again
	unreachable               // nobody is there
	notAnswering              // takes, or does not, and does not answer
	behaviours
)

// TestCountsAreExactForAnyCollector changes the behaviour of a collector at random while namespaces flood. The records
// that it received and those counted as not delivered must add up to those sent. Unanswered ones may be in both.
func TestCountsAreExactForAnyCollector(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { checkRandomBehaviour(t, seed) })
	}
}

func checkRandomBehaviour(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	now, known := accepting, behaviours
	if seed%2 == 0 {
		known = notAnswering // never: then all is exact
	}
	c := &fakeCollector{answer: func(ctx context.Context, batch [][]byte) (SendResult, int) {
		mu.Lock()
		is, chance, n := now, random.IntN(5000), len(batch)
		mu.Unlock()
		switch is {
		case accepting, behaviours:
		case acceptingSlowly:
			select {
			case <-time.After(time.Duration(chance) * time.Millisecond):
			case <-ctx.Done():
				return SendResult{Err: ctx.Err(), Retry: true}, 0
			}
		case acceptingPartly:
			rejected := chance % (n + 1)
			return SendResult{Rejected: rejected}, n - rejected
		case refusing:
			return SendResult{Err: errUnavailable}, 0
		case askingToRetry:
			return SendResult{Err: errUnavailable, Retry: true, RetryAfter: time.Duration(chance%20) * time.Second}, 0
		case unreachable:
			return SendResult{Err: errUnavailable, Retry: true}, 0
		case notAnswering:
			return SendResult{Err: errUnavailable, Retry: true, Unknown: true}, chance % (n + 1)
		}
		return SendResult{}, n
	}}
	counted, noted := newCounts(), int64(0)
	s, stop := startSink(t, c, Options{
		Counts: counted, Bytes: MinBytes,
		Report: func(_ time.Time, _ string, _ store.Key, m engine.SinkLoss) { noted += m.Occurrences },
	})
	sent := 0
	for range 30 {
		mu.Lock()
		now = behaviour(random.IntN(int(known)))
		n, pause := random.IntN(300), time.Duration(random.IntN(20_000))*time.Millisecond
		mu.Unlock()
		for range n {
			s.CopyDecided(dropDecision(name(random.IntN(3))))
			sent++
		}
		time.Sleep(pause) //nolint:forbidigo // in a bubble
	}
	stop()
	for range 5 {
		s.CopyDecided(dropDecision("late"))
		sent++
	}
	delivered, lost, occurrences := counted.read()
	has, inCollector := c.total()
	unanswered := counted.lost[Unanswered]
	if delivered+lost != sent {
		t.Errorf("seed %d: %d sent, %d delivered and %d not", seed, sent, delivered, lost)
	}
	if has < delivered || has > delivered+unanswered {
		t.Errorf("seed %d: the collector has %d records, %d are said to be delivered and %d unanswered", seed, has, delivered, unanswered)
	}
	if seed%2 == 0 && (inCollector+occurrences != int64(sent) || unanswered > 0) {
		t.Errorf("seed %d: %d in the collector and %d not delivered, of them %d unanswered, of %d", seed, inCollector, occurrences, unanswered, sent)
	}
	if noted != occurrences-5 { // those that came late are in metrics only
		t.Errorf("seed %d: notices say that %d are missing, metrics say %d", seed, noted, occurrences)
	}
	if held := s.HeldBytes(); held != 0 {
		t.Errorf("seed %d: %d bytes are held in the end", seed, held)
	}
}

// TestHangingCollectorDelaysNoCall checks that no call waits: the time of a synctest bubble advances only when all
// goroutines wait, and here it must not. The queue is bounded, and each record that it drops is counted.
func TestHangingCollectorDelaysNoCall(t *testing.T) {
	const bytes, records = 4 << 20, 300_000
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 1)
		c := &fakeCollector{answer: func(ctx context.Context, _ [][]byte) (SendResult, int) {
			asked <- struct{}{}
			<-ctx.Done()
			return SendResult{Err: ctx.Err(), Retry: true, Unknown: true}, 0
		}}
		counted := newCounts()
		s, stop := startSink(t, c, Options{Counts: counted, Bytes: bytes})
		one := dropDecision("shop")
		s.CopyDecided(one)
		<-asked
		before, began := heapBytes(), time.Now()
		for range records {
			s.CopyDecided(one)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("calls have waited for %s", took)
		}
		if grown := heapBytes() - before; grown > bytes*5/4 {
			t.Errorf("%d records take %d bytes of memory, want %d and a quarter at most", records, grown, bytes)
		}
		if held := s.HeldBytes(); held > bytes {
			t.Errorf("it holds %d bytes, may hold %d", held, bytes)
		}
		_, lost, _ := counted.read()
		if waiting := s.outputs[0].queue.pending(); waiting+lost != records || waiting == 0 {
			t.Errorf("%d wait and %d are lost, of %d", waiting, lost, records)
		}
		stop()
		delivered, lost, occurrences := counted.read()
		if delivered != 0 || lost != records+1 || occurrences != records+1 {
			t.Errorf("%d delivered, %d not, %d occurrences, want 0 and %d", delivered, lost, occurrences, records+1)
		}
	})
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSinkAllocations bounds allocations: of a copy, and of one for which there is no place.
func TestSinkAllocations(t *testing.T) {
	full := New(Options{Default: policy.SinkAll, Bytes: 0})
	full.Add(map[string]Output{"test": &fakeCollector{}})
	wide := New(Options{Default: policy.SinkAll, Bytes: 1 << 30})
	wide.Add(map[string]Output{"test": &fakeCollector{}})
	d := dropDecision("shop")
	for says, test := range map[string]struct {
		sink *Sink
		most float64
	}{"a copy": {wide, 6}, "none": {full, 2}} {
		if got := testing.AllocsPerRun(1000, func() { test.sink.CopyDecided(d) }); got > test.most {
			t.Errorf("%s costs a call %.0f allocations, want at most %.0f", says, got, test.most)
		}
	}
}

// TestRecordsDoNotAliasRequests holds that a record is memory of its own: requests are used again.
func TestRecordsDoNotAliasRequests(t *testing.T) {
	t.Parallel()
	s := New(Options{Default: policy.SinkAll, Bytes: MinBytes})
	s.Add(map[string]Output{"test": &fakeCollector{}})
	s.CopyDecided(dropDecision("shop"))
	other := dropDecision("other", func(d *admission.FullDecision) { d.Request.Object.Message = "another message that is as long as this" })
	s.CopyDecided(other)
	for _, r := range s.outputs[0].queue.dequeue(2, MinBytes) {
		if got, _ := decoded(t, r.encoded); got.GetBody().GetStringValue() == other.Request.Object.Message != (r.namespace == "other") {
			t.Errorf("the record of %s says %q", r.namespace, got.GetBody().GetStringValue())
		}
		if cap(r.encoded) != len(r.encoded) {
			t.Errorf("a record of %d bytes keeps %d", len(r.encoded), cap(r.encoded))
		}
	}
}

// TestUndecidedEventsAreSentWhenRefused holds what no rule has decided.
func TestUndecidedEventsAreSentWhenRefused(t *testing.T) {
	t.Parallel()
	for _, admitted := range []bool{false, true} {
		s := New(Options{Default: policy.SinkAll, Bytes: MinBytes, Admitted: admitted})
		s.Add(map[string]Output{"test": &fakeCollector{}})
		r := dropDecision("shop").Request
		s.CopyUndecided(r, admission.Overloaded)
		s.CopyUndecided(r, admission.Undecided)
		unread := *r
		unread.Object = nil
		s.CopyUndecided(&unread, admission.Denied)
		var got []string
		for _, r := range s.outputs[0].queue.dequeue(9, MinBytes) {
			_, has := decoded(t, r.encoded)
			got = append(got, has[attrVerdict].(string))
			if has[attrOccurrences] != int64(1) || has[attrRule] != nil {
				t.Errorf("%v", has)
			}
		}
		want := 2
		if admitted {
			want = 3
		}
		if len(got) != want {
			t.Errorf("admitted %t: records of %v, want %d", admitted, got, want)
		}
	}
}

// TestEachOutputGetsAllRecords holds that, and that a notice says once what one of them lacks.
func TestEachOutputGetsAllRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := &fakeCollector{}
		refuse := func(context.Context, [][]byte) (SendResult, int) { return SendResult{Err: errUnavailable}, 0 }
		noted, counted := int64(0), newCounts()
		s := New(Options{
			Default: policy.SinkAll, Bytes: 4 << 20, DrainTimeout: time.Second, Counts: counted,
			Report: func(_ time.Time, _ string, _ store.Key, m engine.SinkLoss) { noted += m.Occurrences },
		})
		s.Add(map[string]Output{"good": good, "bad": &fakeCollector{answer: refuse}, "worse": &fakeCollector{answer: refuse}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		for range 100 {
			s.CopyDecided(dropDecision("shop"))
		}
		cancel()
		<-ended
		if n, _ := good.total(); n != 100 || counted.undelivered["shop"] != 200 || noted != 100 {
			t.Errorf("%d in the good one, %d counted, %d noted, want 100, 200 and 100", n, counted.undelivered["shop"], noted)
		}
	})
}

// TestBlockedOutputDelaysStopBriefly has one that does not even end with its context.
func TestBlockedOutputDelaysStopBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := &fakeCollector{answer: func(_ context.Context, batch [][]byte) (SendResult, int) { <-release; return SendResult{}, len(batch) }}
		counted := newCounts()
		s, stop := startSink(t, c, Options{Counts: counted, DrainTimeout: 2 * time.Second})
		for range 600 {
			s.CopyDecided(dropDecision("shop"))
		}
		synctest.Wait()
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		began := time.Now()
		stop()
		if took := time.Since(began); took > 2*time.Second+stopGrace {
			t.Errorf("the end took %s", took)
		}
		if _, lost, _ := counted.read(); lost != 600 || counted.lost[Unanswered] == 0 || counted.lost[Stopped] == 0 {
			t.Errorf("%v, want 600", counted.lost)
		}
		close(release)
		synctest.Wait()
		if delivered, lost, _ := counted.read(); delivered != 0 || lost != 600 {
			t.Errorf("%d delivered and %d lost after the end, want what was counted at the end", delivered, lost)
		}
	})
}
