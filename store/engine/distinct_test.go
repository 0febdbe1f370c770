package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// distinctOf is a notice of one Event about each object from i to j.
func distinctOf(from, to int) engine.Distinct {
	var d engine.Distinct
	b, l := quotaBucket(), someLimits()
	for i := from; i < to; i++ {
		w := someWrite(fmt.Sprint(i), epoch())
		w.InvolvedObject = store.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("uid-", i)}
		drops := engine.NewDrops(epoch(), w, &l, &b, 1)
		d.Merge(drops.DistinctObjects)
	}
	return d
}

func TestDistinctIsExactUpTo63(t *testing.T) {
	t.Parallel()
	var d engine.Distinct
	for n := range 64 {
		if got, exact := d.Count(); got != int64(n) || !exact {
			t.Errorf("%d objects are counted as %d, exact %t", n, got, exact)
		}
		one := distinctOf(n, n+1)
		d.Merge(one)
		d.Merge(one)
	}
	if _, exact := d.Count(); exact || len(d) != 512 {
		t.Errorf("the 64th leaves %d bytes, exact %t", len(d), exact)
	}
}

// TestDistinctEstimateError holds the error to what a HyperLogLog of 512 registers has: 4.6 % as a rule, so hardly ever four times that.
func TestDistinctEstimateError(t *testing.T) {
	t.Parallel()
	squares, runs := 0.0, 0
	for _, n := range []int{64, 100, 300, 1000, 1500, 3000, 10_000, 50_000} {
		for run := range 2 {
			d := distinctOf(run*1_000_000, run*1_000_000+n)
			got, _ := d.Count()
			off := float64(got)/float64(n) - 1
			squares, runs = squares+off*off, runs+1
			if math.Abs(off) > 4*0.046 || len(d) != 512 {
				t.Errorf("%d objects are counted as %d, in %d bytes", n, got, len(d))
			}
		}
	}
	if rms := math.Sqrt(squares / float64(runs)); rms > 0.06 {
		t.Errorf("the error is %.3f, want about 0.046", rms)
	}
}

// TestDistinctMergesReplicas counts objects at several replicas, which have some in common, and merges them in any order.
func TestDistinctMergesReplicas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		most := []int{10, 70, 200, 2000}[rng.IntN(4)]
		all := distinctOf(0, most)
		var parts []engine.Distinct
		for at := 0; at < most; {
			to := min(most, at+1+rng.IntN(most))
			parts = append(parts, distinctOf(max(0, at-rng.IntN(20)), to))
			at = to
		}
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		var merged engine.Distinct
		for _, part := range parts {
			before := slices.Clone(part)
			merged.Merge(part)
			if !slices.Equal(before, part) {
				t.Fatalf("seed %d: a part is changed", seed)
			}
		}
		if !slices.Equal(merged, all) {
			t.Errorf("seed %d: %d parts of %d objects differ from all", seed, len(parts), most)
		}
	}
}

// TestCardinalityIsAtMostOccurrences has an Event about an object whose hash a client has searched for: alone in a
// HyperLogLog it may stand for any number.
func TestCardinalityIsAtMostOccurrences(t *testing.T) {
	t.Parallel()
	var g engine.Group
	b, l := quotaBucket(), someLimits()
	w := someWrite("a", epoch())
	d := engine.NewDrops(epoch(), w, &l, &b, 9)
	d.DistinctObjects = make(engine.Distinct, 512)
	for i := range d.DistinctObjects {
		d.DistinctObjects[i] = 56
	}
	g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	if p := g.Claim(store.Key{}, epoch().Add(1000*time.Hour)); len(p) != 1 || p[0].Notice.ObjectCount != (store.Cardinality{N: 9, Estimated: true}) {
		t.Errorf("pending %+v, want 9 objects at most", p)
	}
}
