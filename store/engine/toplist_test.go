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

// refusedDrops are drops of an Event of a namespace by a quota that all share.
func refusedDrops(i int, namespace, reason, source, object string, count int64) engine.Drops {
	now, l, b := epoch().Add(time.Duration(i)*time.Millisecond), someLimits(), quotaBucket()
	w := someWrite(fmt.Sprint(i), now)
	w.Namespace, w.Reason, w.Source.Component, w.Count = namespace, reason, source, count
	w.InvolvedObject = store.Object{Kind: "Pod", Namespace: namespace, Name: object}
	return engine.NewDrops(now, w, &l, &b, count)
}

// countOf is the count under a name.
func countOf(all []store.Tally, what string) int64 {
	for _, t := range all {
		if t.Name == what {
			return t.Count
		}
	}
	return 0
}

// TestTopListSharesSlotsBetweenNamespaces has one namespace invent reasons, sources and objects, with counts that it claims, in the notice
// of a quota that two share.
func TestTopListSharesSlotsBetweenNamespaces(t *testing.T) {
	t.Parallel()
	for says, claim := range map[string]int64{"one at a time": 1, "many at a time": 5000, "the largest there is": math.MaxInt32} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, and goes on: %t", says, later), func(t *testing.T) {
				t.Parallel()
				var g engine.Group
				n := 0
				drop := func(namespace, reason, source, object string, count int64) {
					n++
					d := refusedDrops(n, namespace, reason, source, object, count)
					g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
				}
				junk := func(times int) {
					for range times {
						drop("junk", fmt.Sprint("r", n%40), fmt.Sprint("s", n%40), fmt.Sprint("o", n), claim)
					}
				}
				junk(200)
				reasons := []string{"BackOff", "Failed", "Unhealthy", "Killing"}
				for i := range 1000 {
					drop("shop", reasons[i%4], "kubelet", "pod", 1)
					if later {
						junk(1)
					}
				}
				if later {
					junk(100)
				}
				said := onlyNotice(t, &g)
				for _, reason := range reasons {
					if got := countOf(said.Notice.Reasons, reason); got != 250 {
						t.Errorf("%s came 250 times, and the notice says %d: %v", reason, got, said.Notice.Reasons)
					}
				}
				if got := countOf(said.Notice.Sources, "kubelet"); got != 1000 {
					t.Errorf("kubelet's came 1000 times, and the notice says %d: %v", got, said.Notice.Sources)
				}
				if !slices.Contains(said.Notice.Objects, "shop/Pod/pod") {
					t.Errorf("objects are %v, want that of shop too", said.Notice.Objects)
				}
				if sum(said.Notice.Reasons) != said.Total || sum(said.Notice.Sources) != said.Total {
					t.Errorf("%+v do not add up to %d", said.Notice, said.Total)
				}
				if len(said.Notice.Reasons) > 16 || len(said.Notice.Sources) > 16 || len(said.Notice.Objects) > 10 {
					t.Errorf("%+v are too many", said.Notice)
				}
			})
		}
	}
}

// TestTopListKeepsFrequentItems has a thousand reasons come once each, before, between and after one that makes a tenth of all.
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
	if said := onlyNotice(t, &g); countOf(said.Notice.Reasons, "BackOff") != 99 || sum(said.Notice.Reasons) != 1000 {
		t.Errorf("%v, want BackOff 99 times of 1000", said.Notice.Reasons)
	}
}

// TestOccurrencesOfOneWriteAreCapped has one write claim all that a count can say.
func TestOccurrencesOfOneWriteAreCapped(t *testing.T) {
	t.Parallel()
	var g engine.Group
	for i, count := range []int64{math.MaxInt32, 7} {
		d := refusedDrops(i, "shop", fmt.Sprint("r", i), "kubelet", "pod", count)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	if said := onlyNotice(t, &g); said.Total != engine.MaxOccurrences+7 {
		t.Errorf("%d, want %d and 7", said.Total, engine.MaxOccurrences)
	}
}

// TestTopListIsFairToMoreNamespacesThanSlots has each of twenty namespaces drop as often as its number says.
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
	said := onlyNotice(t, &g)
	for namespace := 12; namespace < 20; namespace++ {
		if countOf(said.Notice.Reasons, fmt.Sprint("r", namespace)) == 0 {
			t.Errorf("%v, want r%d among them", said.Notice.Reasons, namespace)
		}
	}
}

// TestHighCountsDoNotKeepSlots has fourteen writes claim all that a count can say, and then one reason of two hundred make half of
// what comes.
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
	if said := onlyNotice(t, &g); countOf(said.Notice.Reasons, "BackOff") < 800 {
		t.Errorf("%v, want BackOff nearly 1000 times", said.Notice.Reasons)
	}
}

// TestNoticeRegisterCountsForItsOrigin has two namespaces share the notice of a quota of the cluster, in namespace default.
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
			t.Errorf("of %v: counted for %q, its turn is %q", both, g.CountedNamespace(), g.Turn())
		}
	}
}
