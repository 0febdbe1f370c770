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

// distinctOf counts the objects of one drop each about objects from up to, but not including, to.
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
			t.Errorf("%d objects are counted as %d, exact %t; want exact", n, got, exact)
		}
		one := distinctOf(n, n+1)
		d.Merge(one)
		d.Merge(one)
	}
	if _, exact := d.Count(); exact || len(d) != 512 {
		t.Errorf("64 objects: %d bytes, exact %t; want an estimate in 512 bytes", len(d), exact)
	}
}

// TestDistinctEstimateError checks the error against that of a HyperLogLog of 512 registers. Its standard error is 4.6 %, and
// it is rarely four times that.
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
				t.Errorf("%d objects are counted as %d, in %d bytes; want an error below 18.4 %%, in 512 bytes", n, got, len(d))
			}
		}
	}
	if rms := math.Sqrt(squares / float64(runs)); rms > 0.06 {
		t.Errorf("the mean error is %.3f, want at most 0.06 and about 0.046", rms)
	}
}

// TestDistinctMergesReplicas counts overlapping sets of objects at several replicas, and merges them in random order.
func TestDistinctMergesReplicas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		objects := []int{10, 70, 200, 2000}[rng.IntN(4)]
		all := distinctOf(0, objects)
		var parts []engine.Distinct
		for at := 0; at < objects; {
			to := min(objects, at+1+rng.IntN(objects))
			parts = append(parts, distinctOf(max(0, at-rng.IntN(20)), to))
			at = to
		}
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		var merged engine.Distinct
		for _, part := range parts {
			before := slices.Clone(part)
			merged.Merge(part)
			if !slices.Equal(before, part) {
				t.Fatalf("seed %d: Merge changes its argument", seed)
			}
		}
		if !slices.Equal(merged, all) {
			t.Errorf("seed %d: %d merged parts differ from one count of all %d objects", seed, len(parts), objects)
		}
	}
}

// TestCardinalityIsAtMostOccurrences has Events about objects whose hashes a client has searched for, so that a HyperLogLog
// estimates far too many.
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
		t.Errorf("pending %+v, want an estimate of 9 objects", p)
	}
}
