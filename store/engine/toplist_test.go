package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// refusedDrops returns drops of one Event by a quota that all namespaces share.
func refusedDrops(i int, namespace, reason, source, object string, count int64) engine.Drops {
	now, l, b := epoch().Add(time.Duration(i)*time.Millisecond), someLimits(), quotaBucket()
	w := someWrite(fmt.Sprint(i), now)
	w.Namespace, w.Reason, w.Source.Component, w.Count = namespace, reason, source, count
	w.InvolvedObject = store.Object{Kind: "Pod", Namespace: namespace, Name: object}
	return engine.NewDrops(now, w, &l, &b, count)
}

// countOf returns the count of the tally with this name.
func countOf(all []store.Tally, name string) int64 {
	for _, t := range all {
		if t.Name == name {
			return t.Count
		}
	}
	return 0
}

// TestTopListSharesSlotsBetweenNamespaces checks the notice of a quota that two namespaces share. One of them invents reasons,
// sources, objects and counts.
func TestTopListSharesSlotsBetweenNamespaces(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]int64{"one at a time": 1, "many at a time": 5000, "the largest count": math.MaxInt32} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, and continues: %t", name, later), func(t *testing.T) {
				t.Parallel()
				var g engine.Group
				n := 0
				drop := func(namespace, reason, source, object string, count int64) {
					n++
					d := refusedDrops(n, namespace, reason, source, object, count)
					g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
				}
				noise := func(times int) {
					for range times {
						drop("junk", fmt.Sprint("r", n%40), fmt.Sprint("s", n%40), fmt.Sprint("o", n), claim)
					}
				}
				noise(200)
				reasons := []string{"BackOff", "Failed", "Unhealthy", "Killing"}
				for i := range 1000 {
					drop("shop", reasons[i%4], "kubelet", "pod", 1)
					if later {
						noise(1)
					}
				}
				if later {
					noise(100)
				}
				written := onlyNotice(t, &g)
				for _, reason := range reasons {
					if got := countOf(written.Notice.Reasons, reason); got != 250 {
						t.Errorf("%s was dropped 250 times, and the notice counts %d: %v", reason, got, written.Notice.Reasons)
					}
				}
				if got := countOf(written.Notice.Sources, "kubelet"); got != 1000 {
					t.Errorf("kubelet's Events were dropped 1000 times, and the notice counts %d: %v", got, written.Notice.Sources)
				}
				if !slices.Contains(written.Notice.Objects, "shop/Pod/pod") {
					t.Errorf("objects are %v, want the one of shop among them", written.Notice.Objects)
				}
				if sum(written.Notice.Reasons) != written.Total || sum(written.Notice.Sources) != written.Total {
					t.Errorf("the counts of %+v do not add up to %d", written.Notice, written.Total)
				}
				if len(written.Notice.Reasons) > 16 || len(written.Notice.Sources) > 16 || len(written.Notice.Objects) > 10 {
					t.Errorf("%+v, want at most 16 reasons, 16 sources and 10 objects", written.Notice)
				}
			})
		}
	}
}

// TestTopListKeepsFrequentItems drops about 900 reasons once each, before and between the drops of one reason that makes a tenth
// of all.
func TestTopListKeepsFrequentItems(t *testing.T) {
	t.Parallel()
	var g engine.Group
	for i := range 1000 {
		reason := fmt.Sprint("r", i)
		if i > 500 && i%5 == 0 {
			reason = "BackOff"
		}
		d := refusedDrops(i, "shop", reason, "kubelet", "pod", 1)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	if written := onlyNotice(t, &g); countOf(written.Notice.Reasons, "BackOff") != 99 || sum(written.Notice.Reasons) != 1000 {
		t.Errorf("%v, want BackOff 99 times, and 1000 in all", written.Notice.Reasons)
	}
}

// TestOccurrencesOfOneWriteAreCapped drops a write with the largest count.
func TestOccurrencesOfOneWriteAreCapped(t *testing.T) {
	t.Parallel()
	var g engine.Group
	for i, count := range []int64{math.MaxInt32, 7} {
		d := refusedDrops(i, "shop", fmt.Sprint("r", i), "kubelet", "pod", count)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	if written := onlyNotice(t, &g); written.Total != engine.MaxOccurrences+7 {
		t.Errorf("total %d, want %d and 7", written.Total, engine.MaxOccurrences)
	}
}

// TestTopListIsFairToMoreNamespacesThanSlots drops Events of twenty namespaces, in proportion to the namespace's number.
func TestTopListIsFairToMoreNamespacesThanSlots(t *testing.T) {
	t.Parallel()
	var g engine.Group
	n := 0
	for i := range 200 {
		for namespace := range 20 {
			if i%20 <= namespace {
				n++
				d := refusedDrops(n, fmt.Sprint("ns", namespace), fmt.Sprint("r", namespace), "kubelet", "pod", 1)
				g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
			}
		}
	}
	written := onlyNotice(t, &g)
	for namespace := 12; namespace < 20; namespace++ {
		if countOf(written.Notice.Reasons, fmt.Sprint("r", namespace)) == 0 {
			t.Errorf("reasons are %v, want r%d among them", written.Notice.Reasons, namespace)
		}
	}
}

// TestHighCountsDoNotKeepSlots drops fourteen writes with the largest count, and then many writes of which one reason makes half.
func TestHighCountsDoNotKeepSlots(t *testing.T) {
	t.Parallel()
	var g engine.Group
	for i := range 2014 {
		reason, count := fmt.Sprint("r", i%400), int64(1)
		switch {
		case i < 14:
			count = math.MaxInt32
		case i%2 == 0:
			reason = "BackOff"
		}
		d := refusedDrops(i, "shop", reason, "kubelet", "pod", count)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	if written := onlyNotice(t, &g); countOf(written.Notice.Reasons, "BackOff") < 800 {
		t.Errorf("%v, want BackOff at least 800 times", written.Notice.Reasons)
	}
}

// TestNoticeRegisterCountsForItsOrigin checks the notice of a ClusterEventQuota, which is in namespace default, for drops of two
// namespaces.
func TestNoticeRegisterCountsForItsOrigin(t *testing.T) {
	t.Parallel()
	for _, both := range [][2]string{{"default", "shop"}, {"shop", "default"}, {"shop", "bank"}} {
		var g engine.Group
		for i, namespace := range both {
			l, b, w := someLimits(), quotaBucket(), someWrite(fmt.Sprint(i), epoch())
			b.NoticeObject, w.Namespace = store.Object{Kind: "ClusterEventQuota", Name: "q"}, namespace
			d := engine.NewDrops(epoch(), w, &l, &b, 1)
			g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
		}
		if g.CountedNamespace() != both[0] || g.Turn() != "/"+both[0] || g.Namespace != "default" {
			t.Errorf("drops of %v: counted for %q, turn %q, namespace %q; want %q, %q and default", both, g.CountedNamespace(), g.Turn(), g.Namespace, both[0], "/"+both[0])
		}
	}
}
