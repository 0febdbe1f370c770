package sink

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func sized1k(namespace string) *record { return sizedOf(namespace, 1<<10) }

// sizedOf is a record that takes so many bytes in a queue.
func sizedOf(namespace string, bytes int) *record {
	return &record{namespace: namespace, encoded: make([]byte, bytes-recordBytes), occurrences: 1}
}

// TestTheQueueKeepsItsBound lets namespaces push and take in every order. It never holds more than it may, loses and invents
// nothing, and takes nothing from a namespace for one that holds as much.
func TestTheQueueKeepsItsBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		q := newQueue(64 << 10)
		pushed, lost, taken := 0, 0, 0
		var away []*record
		held := func(namespace string) (n int64) {
			if h := q.holders[namespace]; h != nil {
				n = h.bytes
			}
			return n
		}
		for range 2000 {
			switch random.IntN(6) {
			default:
				namespace := name(min(random.IntN(4), random.IntN(12)))
				r := sizedOf(namespace, recordBytes+random.IntN(6<<10))
				before := held(namespace)
				takes := q.takes(namespace, r.size())
				pushed++
				out := q.push(r)
				lost += len(out)
				if len(out) == 1 && out[0] == r && takes {
					t.Fatalf("seed %d: a record for which there was a place was not taken in", seed)
				}
				since := map[string]int64{} // what a namespace has lost from a moment on
				for _, gone := range slices.Backward(out) {
					if since[gone.namespace] += gone.size(); gone != r && held(gone.namespace)+since[gone.namespace] < before+r.size() {
						t.Fatalf("seed %d: %s, with %d bytes, has lost a record to %s with %d", seed, gone.namespace, held(gone.namespace)+since[gone.namespace], namespace, before)
					}
				}
			case 4:
				away = q.take(1+random.IntN(20), 16<<10)
				taken += len(away)
				q.release(away)
			case 5:
				away = q.take(3, 8<<10)
				taken += len(away)
				if q.held() > q.most {
					t.Fatalf("seed %d: it holds %d with what is away, may %d", seed, q.held(), q.most)
				}
				q.release(away)
			}
			if q.held() > q.most {
				t.Fatalf("seed %d: it holds %d bytes, may hold %d", seed, q.held(), q.most)
			}
		}
		if pushed != lost+taken+q.waiting() {
			t.Errorf("seed %d: %d pushed, %d lost, %d taken, %d wait", seed, pushed, lost, taken, q.waiting())
		}
		for batch := q.take(10, 1<<20); len(batch) > 0; batch = q.take(10, 1<<20) {
			q.release(batch)
		}
		if q.held() != 0 || len(q.holders) != 0 || len(q.order) != 0 || q.turns.Len() != 0 {
			t.Errorf("seed %d: an empty queue holds %d bytes of %d namespaces", seed, q.held(), len(q.holders))
		}
	}
}

// TestAFloodTakesNothingFromOthers floods from one namespace and from many, before and while a quiet one sends.
func TestAFloodTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	for _, flooding := range []int{1, 2, 9, 50} {
		q := newQueue(1 << 20)
		lost := map[string]int{}
		push := func(namespace string) {
			for _, r := range q.push(sized1k(namespace)) {
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
			n := len(q.holders[name(i)].records)
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 {
			t.Errorf("with %d that flood, they hold from %d to %d records, want all the same", flooding, least, most)
		}
	}
}

// TestNamespacesTakeTurns holds that what is sent first has some of each.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	for range 100 {
		q.push(sized1k("flood"))
	}
	q.push(sized1k("a"))
	q.push(sized1k("b"))
	of := map[string]int{}
	for _, r := range q.take(10, 1<<20) {
		of[r.namespace]++
	}
	if of["a"] != 1 || of["b"] != 1 || of["flood"] != 8 {
		t.Errorf("a batch of 10 has %v, want one of a and of b", of)
	}
}

// TestABatchIsBoundedInBytes holds that, but for a record that is larger itself.
func TestABatchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	q := newQueue(8 << 20)
	q.push(sizedOf("a", 3<<20))
	for range 100 {
		q.push(sizedOf("a", 100<<10))
	}
	if n := len(q.take(512, 1<<20)); n != 1 {
		t.Errorf("a batch with a record that is too large has %d, want it alone", n)
	}
	if n := len(q.take(512, 1<<20)); n != 10 {
		t.Errorf("a batch of 100 KiB each has %d, want 10", n)
	}
}

// TestNothingIsTakenInAfterTheEnd holds that.
func TestNothingIsTakenInAfterTheEnd(t *testing.T) {
	t.Parallel()
	q := newQueue(1 << 20)
	q.push(sized1k("a"))
	q.close()
	q.close()
	if lost := q.push(sized1k("a")); len(lost) != 1 || q.takes("a", 1) || q.why() != Stopped || q.waiting() != 1 {
		t.Errorf("%d lost, takes %t, %s, %d wait", len(lost), q.takes("a", 1), q.why(), q.waiting())
	}
}
