package sink

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func recordOf1KiB(namespace string) *record { return recordOfSize(namespace, 1<<10) }

// recordOfSize is a record that takes so many bytes in a queue.
func recordOfSize(namespace string, bytes int) *record {
	return &record{namespace: namespace, encoded: make([]byte, bytes-recordOverheadBytes), occurrences: 1}
}

// TestQueueStaysWithinLimit lets namespaces push and take in every order. It never holds more than it may, loses and invents
// nothing, and takes nothing from a namespace for one that holds as much.
func TestQueueStaysWithinLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		q := newQueue(64 << 10)
		pushed, lost, taken := 0, 0, 0
		var away []*record
		held := func(namespace string) (n int64) {
			if h := q.namespaces[namespace]; h != nil {
				n = h.bytes
			}
			return n
		}
		for range 2000 {
			switch random.IntN(6) {
			default:
				namespace := name(min(random.IntN(4), random.IntN(12)))
				r := recordOfSize(namespace, recordOverheadBytes+random.IntN(6<<10))
				before := held(namespace)
				takes := q.accepts(namespace, r.queuedBytes())
				pushed++
				out := q.push(r)
				lost += len(out)
				if len(out) == 1 && out[0] == r && takes {
					t.Fatalf("seed %d: a record for which there was a place was not taken in", seed)
				}
				since := map[string]int64{} // what a namespace has lost from a moment on
				for _, gone := range slices.Backward(out) {
					if since[gone.namespace] += gone.queuedBytes(); gone != r && held(gone.namespace)+since[gone.namespace] < before+r.queuedBytes() {
						t.Fatalf("seed %d: %s, with %d bytes, has lost a record to %s with %d", seed, gone.namespace, held(gone.namespace)+since[gone.namespace], namespace, before)
					}
				}
			case 4:
				away = q.dequeue(1+random.IntN(20), 16<<10)
				taken += len(away)
				q.release(away)
			case 5:
				away = q.dequeue(3, 8<<10)
				taken += len(away)
				if q.heldBytes() > q.limit {
					t.Fatalf("seed %d: it holds %d with what is away, may %d", seed, q.heldBytes(), q.limit)
				}
				q.release(away)
			}
			if q.heldBytes() > q.limit {
				t.Fatalf("seed %d: it holds %d bytes, may hold %d", seed, q.heldBytes(), q.limit)
			}
		}
		if pushed != lost+taken+q.pending() {
			t.Errorf("seed %d: %d pushed, %d lost, %d taken, %d wait", seed, pushed, lost, taken, q.pending())
		}
		for batch := q.dequeue(10, 1<<20); len(batch) > 0; batch = q.dequeue(10, 1<<20) {
			q.release(batch)
		}
		if q.heldBytes() != 0 || len(q.namespaces) != 0 || len(q.order) != 0 || q.turns.Len() != 0 {
			t.Errorf("seed %d: an empty queue holds %d bytes of %d namespaces", seed, q.heldBytes(), len(q.namespaces))
		}
	}
}

// TestFloodDoesNotEvictOtherNamespaces floods from one namespace and from many, before and while a quiet one sends.
func TestFloodDoesNotEvictOtherNamespaces(t *testing.T) {
	t.Parallel()
	for _, flooding := range []int{1, 2, 9, 50} {
		q := newQueue(1 << 20)
		lost := map[string]int{}
		push := func(namespace string) {
			for _, r := range q.push(recordOf1KiB(namespace)) {
				lost[r.namespace]++
			}
		}
		flood := func(n int) {
			for i := range n {
				push(name(i % flooding))
			}
		}
		flood(5000)
		share := 1024/(flooding+1) - 1
		for range share {
			push("quiet")
			flood(flooding)
		}
		flood(5000)
		if lost["quiet"] != 0 {
			t.Errorf("with %d that flood, a quiet namespace has lost %d of %d records", flooding, lost["quiet"], share)
		}
		least, most := 1<<30, 0
		for i := range flooding {
			n := len(q.namespaces[name(i)].records)
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 {
			t.Errorf("with %d that flood, they hold from %d to %d records, want all the same", flooding, least, most)
		}
	}
}

// TestNamespacesTakeTurns checks that the first batch has records of each namespace.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	for range 100 {
		q.push(recordOf1KiB("flood"))
	}
	q.push(recordOf1KiB("a"))
	q.push(recordOf1KiB("b"))
	of := map[string]int{}
	for _, r := range q.dequeue(10, 1<<20) {
		of[r.namespace]++
	}
	if of["a"] != 1 || of["b"] != 1 || of["flood"] != 8 {
		t.Errorf("a batch of 10 has %v, want one of a and of b", of)
	}
}

// TestBatchSizeLimit holds that, but for a record that is larger itself.
func TestBatchSizeLimit(t *testing.T) {
	t.Parallel()
	q := newQueue(8 << 20)
	q.push(recordOfSize("a", 3<<20))
	for range 100 {
		q.push(recordOfSize("a", 100<<10))
	}
	if n := len(q.dequeue(512, 1<<20)); n != 1 {
		t.Errorf("a batch with a record that is too large has %d, want it alone", n)
	}
	if n := len(q.dequeue(512, 1<<20)); n != 10 {
		t.Errorf("a batch of 100 KiB each has %d, want 10", n)
	}
}

// TestClosedQueueAcceptsNothing holds that.
func TestClosedQueueAcceptsNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	q.push(recordOf1KiB("a"))
	q.close()
	q.close()
	if lost := q.push(recordOf1KiB("a")); len(lost) != 1 || q.accepts("a", 1) || q.refusalReason() != Stopped || q.pending() != 1 {
		t.Errorf("%d lost, takes %t, %s, %d wait", len(lost), q.accepts("a", 1), q.refusalReason(), q.pending())
	}
}
