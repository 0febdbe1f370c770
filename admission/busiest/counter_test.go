package busiest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

func epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// testWrite is an Event write.
type testWrite struct {
	Namespace            string // of the Event
	Object               store.Object
	Source               store.Source
	Type, Reason, Policy string
}

func (w *testWrite) decided(v store.Verdict) *admission.DecidedWrite {
	return &admission.DecidedWrite{
		Rule: &policy.Rule{Name: w.Policy}, Verdict: v, Object: w.Object, Source: w.Source,
		Request: &admission.Request{
			Request: policy.Request{Namespace: w.Namespace}, Object: &corev1.Event{Type: w.Type, Reason: w.Reason},
		},
	}
}

// write is a write about the n-th object, from one of ten sources.
func write(n int) *testWrite {
	return &testWrite{
		Namespace: fmt.Sprint("team-", n%3),
		Object:    store.Object{Kind: "Pod", Namespace: fmt.Sprint("team-", n%3), Name: fmt.Sprint("web-", n)},
		Source:    store.Source{Component: "kubelet", Host: fmt.Sprint("node-", n%10)},
		Policy:    "ClusterEventPolicy floor",
	}
}

func rowOf(r busiest.Ranking, name string) busiest.Row {
	for _, row := range r.Rows {
		if row.Name == name {
			return row
		}
	}
	return busiest.Row{}
}

func TestEachDimensionCountsAWriteOnce(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	for n, v := range []store.Verdict{store.Admit, store.Aggregate, store.Merge, store.Drop, store.Deny, store.Deny} {
		c.CountDecision(write(n % 2).decided(v))
	}
	audited := write(0).decided(store.Drop)
	audited.Audited = true
	c.CountDecision(audited)
	s := c.Snapshot(epoch().Add(time.Minute))
	if want := (busiest.Replica{Name: "a", Since: epoch(), At: epoch().Add(time.Minute)}); s.Replica != want {
		t.Errorf("replica %+v, want %+v", s.Replica, want)
	}
	even, odd := busiest.Counts{Admitted: 1, Merged: 1, Dropped: 1}, busiest.Counts{Admitted: 1, Dropped: 2}
	all := busiest.Counts{Admitted: 2, Merged: 1, Dropped: 3}
	for by, want := range map[busiest.Dimension]map[string]busiest.Counts{
		busiest.Namespace: {"team-0": even, "team-1": odd},
		busiest.Source:    {"kubelet/node-0": even, "kubelet/node-1": odd},
		busiest.Object:    {"Pod team-0/web-0": even, "Pod team-1/web-1": odd},
		busiest.Policy:    {"ClusterEventPolicy floor": all},
	} {
		r := s.Rankings[by]
		if r.Total != all || len(r.Rows) != len(want) {
			t.Errorf("by %v: %+v, want %d rows and a total of %+v", by, r, len(want), all)
		}
		for name, counts := range want {
			if got := rowOf(r, name); got.Counts != counts {
				t.Errorf("by %v: %+v, want %+v", by, got, counts)
			}
		}
	}
}

// exactCounts is a model with the exact counts of each object.
type exactCounts map[string]busiest.Counts

func (m exactCounts) count(w *testWrite, v store.Verdict) {
	name := "Pod " + w.Namespace + "/" + w.Object.Name
	c := m[name]
	switch v {
	case store.Admit:
		c.Admitted++
	case store.Merge:
		c.Merged++
	default:
		c.Dropped++
	}
	m[name] = c
}

// check compares a ranking with m: no count in it is too high, and no object that is missing has more than lost writes.
func (m exactCounts) check(t *testing.T, r busiest.Ranking, lost int64) {
	t.Helper()
	seen, last := map[string]bool{}, int64(1<<62)
	for _, row := range r.Rows {
		is := m[row.Name]
		if seen[row.Name] || row.Matched() > last {
			t.Fatalf("%q is there twice, or not in its place", row.Name)
		}
		seen[row.Name], last = true, row.Matched()
		if row.Admitted > is.Admitted || row.Merged > is.Merged || row.Dropped > is.Dropped {
			t.Errorf("%+v, which is more than %+v", row, is)
		}
		if is.Matched() > row.Matched()+r.Others() {
			t.Errorf("%+v, but it were %+v, and %d others", row, is, r.Others())
		}
	}
	for name, is := range m {
		if !seen[name] && is.Matched() > lost {
			t.Errorf("%q is missing with %d writes, of %d at most", name, is.Matched(), lost)
		}
	}
}

func TestCountsAreExactWithinCapacity(t *testing.T) {
	const writes, share = 30 * busiest.MaxTracked, 30
	source := rand.NewPCG(1, 2)
	r := rand.New(source)
	verdicts := []store.Verdict{store.Admit, store.Merge, store.Drop}
	for says, test := range map[string]struct {
		objects int
		next    func(i int) int
		lost    int64 // by one object at most, unless there are several namespaces
	}{
		"as many as there are places":    {busiest.MaxTracked, func(int) int { return r.IntN(busiest.MaxTracked) }, 0},
		"one more than that":             {busiest.MaxTracked + 1, func(i int) int { return i % (busiest.MaxTracked + 1) }, share},
		"many, a few of them often":      {writes, func(int) int { return int(writes * r.Float64() * r.Float64() * r.Float64() * r.Float64()) }, share},
		"nothing but new ones":           {writes, func(i int) int { return i }, share},
		"a heavy one among new ones":     {writes, func(i int) int { return i * (i % 100 / 99) }, share},
		"old ones, then nothing but new": {writes, func(i int) int { return max(i-writes/2, i%300) }, share},
		"many of many namespaces":        {writes, func(int) int { return int(writes * r.Float64() * r.Float64() * r.Float64()) }, writes},
	} {
		t.Run(says, func(t *testing.T) {
			source.Seed(1, 2) // independent of earlier cases
			c, model := busiest.NewCounter("a", epoch(), busiest.MaxTracked), exactCounts{}
			for i := range writes {
				w, v := write(test.next(i)), verdicts[r.IntN(len(verdicts))]
				if test.lost < writes {
					w.Namespace, w.Object.Namespace = "team", "team"
				}
				c.CountDecision(w.decided(v))
				model.count(w, v)
				if err := c.CheckWeights(); err != nil {
					t.Fatal(err)
				}
			}
			ranking := busiest.NewSum([]busiest.Snapshot{c.Snapshot(epoch())}).Rankings[busiest.Object]
			if ranking.Total.Matched() != writes {
				t.Errorf("a total of %+v, want %d", ranking.Total, writes)
			}
			model.check(t, ranking, test.lost)
			if test.objects <= busiest.MaxTracked && ranking.Others() != 0 {
				t.Errorf("%d writes are in no row, want none", ranking.Others())
			}
		})
	}
}

// TestNamespacesKeepTheirShare checks that a namespace that invents names displaces no rows of another namespace, which also gets
// rows for new names.
func TestNamespacesKeepTheirShare(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	count := func(namespace string, n int) {
		name := fmt.Sprint(namespace, n)
		w := testWrite{
			Namespace: namespace, Type: "Normal", Reason: name, Policy: name,
			Object: store.Object{Kind: "Pod", Namespace: namespace, Name: name}, Source: store.Source{Component: name},
		}
		c.CountDecision(w.decided(store.Admit))
		c.CountDecision(w.decidedByRule(namespace, busiest.RuleID{UID: name}, store.Drop))
		c.CountDecision(w.decidedByRule("", busiest.RuleID{UID: "cluster"}, store.Drop))
	}
	const early, late = 6, 12
	const many = busiest.MaxTrackedRules * 5 / 4
	for n := range early {
		count("quiet", n)
	}
	for n := range many {
		count("noisy", n)
	}
	for n := range late - early {
		count("quiet", early+n)
	}
	for n := range many {
		count("noisy", -n)
	}
	s := c.Snapshot(epoch())
	of := rules(s)
	for n := range late {
		name := fmt.Sprint("quiet", n)
		for by, row := range map[busiest.Dimension]string{
			busiest.Source: name, busiest.Object: "Pod quiet/" + name, busiest.Reason: "Normal " + name, busiest.Policy: name,
		} {
			if got := rowOf(s.Rankings[by], row); got.Admitted != 1 {
				t.Errorf("by %v: %+v for %s, want 1", by, got, row)
			}
		}
		if r := of[busiest.RuleID{UID: name}]; r.Dropped != 1 || len(r.Sources) != 1 || r.Sources[0].Dropped != 1 {
			t.Errorf("%+v of rule %s, want 1 of one source", r, name)
		}
	}
	left := 0
	for _, one := range of[busiest.RuleID{UID: "cluster"}].Sources {
		if strings.HasPrefix(one.Object, "Pod quiet/") {
			left++
		}
	}
	if left < early {
		t.Errorf("%d sources of the quiet namespace are left of a rule that all share, want %d or more", left, early)
	}
}

func TestCountingTrackedKeysDoesNotAllocate(t *testing.T) {
	c, d := busiest.NewCounter("a", epoch(), busiest.MaxTracked), write(1).decided(store.Admit)
	d.Rule = &policy.Rule{Identity: policy.Identity{UID: "uid"}}
	d.Quotas, d.Resolution = []store.Bucket{{Key: store.KeyOf("a"), Name: "a"}, {Key: store.KeyOf("b"), Name: "b"}}, &policy.Resolution{Policy: policy.Default()}
	d.Errors = []*policy.EvaluationError{{Rule: d.Rule, Err: errors.New("no such key")}}
	c.CountDecision(d)
	if n := testing.AllocsPerRun(1000, func() { c.CountDecision(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// It measures the cost of counting a write that took a token from each of three buckets.
func BenchmarkDecided(b *testing.B) {
	c, d := busiest.NewCounter("a", epoch(), busiest.MaxTracked), write(1).decided(store.Admit)
	d.Quotas, d.Resolution = []store.Bucket{{Key: store.KeyOf("a"), Name: "a"}, {Key: store.KeyOf("b"), Name: "b"}, {Key: store.KeyOf("c"), Name: "c"}}, &policy.Resolution{Policy: policy.Default()}
	b.ReportAllocs()
	for b.Loop() {
		c.CountDecision(d)
	}
}
