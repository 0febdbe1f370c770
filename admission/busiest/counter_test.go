package busiest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

func epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// written is an Event write.
type written struct {
	Namespace            string // of the Event
	Subject              busiest.Subject
	Type, Reason, Policy string
}

func (w *written) decided(v store.Verdict) *admission.Decided {
	return &admission.Decided{
		Rule: &policy.Rule{Name: w.Policy}, Verdict: v, Object: w.Subject.Object, Source: w.Subject.Source,
		Request: &admission.Request{
			Request: policy.Request{Namespace: w.Namespace}, Object: &corev1.Event{Type: w.Type, Reason: w.Reason},
		},
	}
}

// write is one about the n-th object, from one of ten sources.
func write(n int) *written {
	return &written{
		Namespace: fmt.Sprint("team-", n%3),
		Subject: busiest.Subject{
			Object: store.Object{Kind: "Pod", Namespace: fmt.Sprint("team-", n%3), Name: fmt.Sprint("web-", n)},
			Source: store.Source{Component: "kubelet", Host: fmt.Sprint("node-", n%10)},
		},
		Policy: "ClusterEventPolicy floor",
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

func TestEachWriteIsCountedOnceByEachKind(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n, v := range []store.Verdict{store.Admit, store.Aggregate, store.Merge, store.Drop, store.Deny, store.Deny} {
		c.Decided(write(n % 2).decided(v))
	}
	s := c.Snapshot(epoch().Add(time.Minute))
	if want := (busiest.Replica{Name: "a", Since: epoch(), At: epoch().Add(time.Minute)}); s.Replica != want {
		t.Errorf("replica %+v, want %+v", s.Replica, want)
	}
	even, odd := busiest.Counts{Admitted: 1, Merged: 1, Dropped: 1}, busiest.Counts{Admitted: 1, Dropped: 2}
	all := busiest.Counts{Admitted: 2, Merged: 1, Dropped: 3}
	for by, want := range map[busiest.By]map[string]busiest.Counts{
		busiest.Namespace: {"team-0": even, "team-1": odd},
		busiest.Source:    {"kubelet/node-0": even, "kubelet/node-1": odd},
		busiest.Object:    {"Pod team-0/web-0": even, "Pod team-1/web-1": odd},
		busiest.Policy:    {"ClusterEventPolicy floor": all},
	} {
		r := s.By[by]
		if r.Total != all || r.Missing != 0 || len(r.Rows) != len(want) {
			t.Errorf("by %v: %+v, want %d rows and a total of %+v", by, r, len(want), all)
		}
		for name, counts := range want {
			if got := rowOf(r, name); got.Counts != counts || got.Missing != 0 {
				t.Errorf("by %v: %+v, want %+v", by, got, counts)
			}
		}
	}
}

// truth is what a model has counted of each object.
type truth map[string]busiest.Counts

func (m truth) count(w *written, v store.Verdict) {
	name := "Pod " + w.Namespace + "/" + w.Subject.Name
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

// check holds what a ranking says of its own errors against m.
func (m truth) check(t *testing.T, r busiest.Ranking) {
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
		if is.Matched() > row.Matched()+row.Missing {
			t.Errorf("%+v, but it were %+v", row, is)
		}
	}
	for name, is := range m {
		if !seen[name] && is.Matched() > r.Missing {
			t.Errorf("%q is missing with %d writes, of %d at most", name, is.Matched(), r.Missing)
		}
	}
}

func TestCountsAreExactUpToTheBoundAndBoundedBeyond(t *testing.T) {
	const writes = 30 * busiest.Places
	r := rand.New(rand.NewPCG(1, 2))
	verdicts := []store.Verdict{store.Admit, store.Merge, store.Drop}
	for says, test := range map[string]struct {
		objects int
		next    func(i int) int
		many    bool // namespaces
	}{
		"as many as there are places":    {busiest.Places, func(int) int { return r.IntN(busiest.Places) }, false},
		"one more than that":             {busiest.Places + 1, func(i int) int { return i % (busiest.Places + 1) }, false},
		"many, a few of them often":      {writes, func(int) int { return int(writes * r.Float64() * r.Float64() * r.Float64() * r.Float64()) }, false},
		"nothing but new ones":           {writes, func(i int) int { return i }, false},
		"a heavy one among new ones":     {writes, func(i int) int { return i * (i % 100 / 99) }, false},
		"old ones, then nothing but new": {writes, func(i int) int { return max(i-writes/2, i%300) }, false},
		"many of many namespaces":        {writes, func(int) int { return int(writes * r.Float64() * r.Float64() * r.Float64()) }, true},
	} {
		t.Run(says, func(t *testing.T) {
			c, model := busiest.NewCounter("a", epoch(), busiest.Places), truth{}
			for i := range writes {
				w, v := write(test.next(i)), verdicts[r.IntN(len(verdicts))]
				if !test.many {
					w.Namespace, w.Subject.Namespace = "team", "team"
				}
				c.Decided(w.decided(v))
				model.count(w, v)
			}
			ranking := c.Snapshot(epoch()).By[busiest.Object]
			if ranking.Total.Matched() != writes {
				t.Errorf("a total of %+v, want %d", ranking.Total, writes)
			}
			model.check(t, ranking)
			if !test.many && ranking.Missing > writes/busiest.Places {
				t.Errorf("%d may be missing, want %d at most", ranking.Missing, writes/busiest.Places)
			}
			if test.objects <= busiest.Places && ranking.Missing != 0 {
				t.Errorf("%d may be missing, want none", ranking.Missing)
			}
		})
	}
}

// What may be missing covers all that lost its place: here a heavy one first, of the namespace that has most, and then
// a light one of another.
func TestWhatMayBeMissingIsNeverTooLow(t *testing.T) {
	c, model := busiest.NewCounter("a", epoch(), busiest.Places), truth{}
	for _, made := range []struct {
		namespace      string
		objects, times int
	}{{"large", busiest.Places - 100, 10}, {"small", 101, 1}, {"new", 1, 1}} {
		for n := range made.objects * made.times {
			w := write(n / made.times)
			w.Namespace, w.Subject.Namespace = made.namespace, made.namespace
			c.Decided(w.decided(store.Admit))
			model.count(w, store.Admit)
		}
	}
	model.check(t, c.Snapshot(epoch()).By[busiest.Object])
}

// Whatever names a namespace invents, another's stay where they were counted, and it finds places for new ones.
func TestNoNamespaceDisplacesAnothers(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	count := func(namespace string, n int) {
		name := fmt.Sprint(namespace, n)
		s := busiest.Subject{Object: store.Object{Kind: "Pod", Namespace: namespace, Name: name}, Source: store.Source{Component: name}}
		c.Decided((&written{Namespace: namespace, Subject: s, Type: "Normal", Reason: name, Policy: name}).decided(store.Admit))
		c.Decided(byRule(namespace, busiest.RuleID{UID: name}, store.Drop, s))
		c.Decided(byRule("", busiest.RuleID{UID: "cluster"}, store.Drop, s))
	}
	const early, late = 6, 12
	const many = busiest.RulePlaces * 5 / 4
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
		for by, row := range map[busiest.By]string{
			busiest.Source: name, busiest.Object: "Pod quiet/" + name, busiest.Reason: "Normal " + name, busiest.Policy: name,
		} {
			if got := rowOf(s.By[by], row); got.Admitted != 1 || n < early && got.Missing != 0 {
				t.Errorf("by %v: %+v for %s, want 1", by, got, row)
			}
		}
		if r := of[busiest.RuleID{UID: name}]; r.Dropped != 1 || len(r.Sources) != 1 || r.Sources[0].Dropped != 1 {
			t.Errorf("%+v of rule %s, want 1 of one source", r, name)
		}
	}
	left := 0
	for _, one := range of[busiest.RuleID{UID: "cluster"}].Sources {
		if one.Namespace == "quiet" {
			left++
		}
	}
	if left < early {
		t.Errorf("%d sources of the quiet namespace are left of a rule that all share, want %d or more", left, early)
	}
}

func TestAnyNumberOfGoroutinesCountExactly(t *testing.T) {
	const writers, each = 8, 2000
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				c.Decided(write(i % 200).decided(store.Merge))
				if i%100 == 0 {
					c.Snapshot(epoch())
				}
			}
		})
	}
	all.Wait()
	for by, r := range c.Snapshot(epoch()).By {
		sum := int64(0)
		for _, row := range r.Rows {
			sum += row.Merged
		}
		if want := (busiest.Counts{Merged: writers * each}); r.Total != want || sum != want.Merged || r.Missing != 0 {
			t.Errorf("by %v: a total of %+v and %d in rows, want %+v", by, r.Total, sum, want)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestACounterTakesAMegabyteAtTheMost(t *testing.T) {
	before := heap()
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range 3 * busiest.Places {
		text := fmt.Sprint(n) + strings.Repeat("x", 1<<14)
		c.Decided((&written{Namespace: text, Policy: text, Subject: busiest.Subject{
			Object: store.Object{Kind: text, Namespace: text, Name: text},
			Source: store.Source{Component: text, Host: text},
		}}).decided(store.Drop))
	}
	took := heap() - before
	t.Logf("%d bytes", took)
	if took > 1<<20 {
		t.Errorf("it takes %d bytes", took)
	}
	runtime.KeepAlive(c)
}

func TestCountingWhatIsKnownAllocatesNothing(t *testing.T) {
	c, d := busiest.NewCounter("a", epoch(), busiest.Places), write(1).decided(store.Merge)
	d.Rule = &policy.Rule{Identity: policy.Identity{UID: "uid"}}
	d.Errors = []*policy.EvaluationError{{Rule: d.Rule, Err: errors.New("no such key")}}
	c.Decided(d)
	if n := testing.AllocsPerRun(1000, func() { c.Decided(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
