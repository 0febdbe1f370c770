package rules_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// counting is a notice of one Event about each object from i to j.
func counting(from, to int) rules.Distinct {
	var d rules.Distinct
	b, l := quotaBucket(), someLimits()
	for i := from; i < to; i++ {
		w := someWrite(fmt.Sprint(i), epoch())
		w.About = store.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("uid-", i)}
		drops := rules.Dropped(epoch(), w, &l, &b, 1)
		d.Merge(drops.Involved)
	}
	return d
}

func TestObjectsAreCountedExactlyUpTo63(t *testing.T) {
	t.Parallel()
	var d rules.Distinct
	for n := range 64 {
		if got, exact := d.Count(); got != int64(n) || !exact {
			t.Errorf("%d objects are counted as %d, exact %t", n, got, exact)
		}
		one := counting(n, n+1)
		d.Merge(one)
		d.Merge(one)
	}
	if _, exact := d.Count(); exact || len(d) != 512 {
		t.Errorf("the 64th leaves %d bytes, exact %t", len(d), exact)
	}
}

// TestTheEstimateIsNear holds the error to what a HyperLogLog of 512 registers has: 4.6 % as a rule, so hardly ever four times that.
func TestTheEstimateIsNear(t *testing.T) {
	t.Parallel()
	squares, runs := 0.0, 0
	for _, n := range []int{64, 100, 300, 1000, 1500, 3000, 10_000, 50_000} {
		for run := range 2 {
			d := counting(run*1_000_000, run*1_000_000+n)
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

// TestCountsOfReplicasComeTogether counts objects at several replicas, which have some in common, and merges them in any order.
func TestCountsOfReplicasComeTogether(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		most := []int{10, 70, 200, 2000}[rng.IntN(4)]
		all := counting(0, most)
		var parts []rules.Distinct
		for at := 0; at < most; {
			to := min(most, at+1+rng.IntN(most))
			parts = append(parts, counting(max(0, at-rng.IntN(20)), to))
			at = to
		}
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		var merged rules.Distinct
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

// TestNoNamesMakeMoreObjectsThanOccurrences has an Event about an object whose hash a client has searched for: alone in a
// HyperLogLog it may stand for any number.
func TestNoNamesMakeMoreObjectsThanOccurrences(t *testing.T) {
	t.Parallel()
	var g rules.Group
	b, l := quotaBucket(), someLimits()
	w := someWrite("a", epoch())
	d := rules.Dropped(epoch(), w, &l, &b, 9)
	d.Involved = make(rules.Distinct, 512)
	for i := range d.Involved {
		d.Involved[i] = 56
	}
	g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	if p := g.Claim(store.Key{}, epoch().Add(1000*time.Hour)); len(p) != 1 || p[0].Notice.Involved != (store.Number{N: 9, About: true}) {
		t.Errorf("pending %+v, want 9 objects at most", p)
	}
}
