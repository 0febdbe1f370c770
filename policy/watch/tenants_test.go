package watch_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy/watch"
)

// aged is a policy that is older than others; they have names in the order in which they were made.
func aged(t *testing.T, namespace string, age int, spec string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, namespace, fmt.Sprintf("p%03d", 100-age), 1, fmt.Sprintf("precedence: %d, %s", age+1, spec))
	u.SetCreationTimestamp(metav1.Unix(int64(1_000_000-age), 0))
	return u
}

// long has n of the longest conditions, which all hold and are compiled in no time.
func long(n int) string { return conditions(n, strings.Repeat("/", 100)+"\\n") }

func TestTheOldestRulesOfANamespaceAreInForce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for age := range watch.MostOfAKind + 2 {
		r.own.Add(aged(t, "many", age, ""))
	}
	for age := range 5 {
		r.own.Add(aged(t, "large", age, large))
	}
	q := quota(t, "many", "q", 1, limit)
	q.SetCreationTimestamp(metav1.Unix(1_000_000, 0))
	r.ownQuotas.Add(q) // of another kind
	r.start(t)
	r.wantGoverns(t, "many", "EventPolicy many/p098@1")
	r.wantGoverns(t, "large", "EventPolicy large/p098@1")
	r.wantBeyond(t, map[string]string{
		"EventPolicy many/p100": "64 of the kind EventPolicy", "EventPolicy many/p099": "64 of the kind EventPolicy",
		"EventPolicy large/p100": "131072 bytes", "EventPolicy large/p099": "131072 bytes",
	})
	eventually(t, "the quota, which comes by a watch of its own, is in force", func() bool { return len(limits(r.Cache, "many")) == 1 })
	r.own.Delete(aged(t, "many", 65, ""))
	r.wantGoverns(t, "many", "EventPolicy many/p099@1")
	small := aged(t, "large", 4, "")
	small.SetGeneration(2)
	r.own.Modify(small)
	r.wantGoverns(t, "large", "EventPolicy large/p099@1")
}

func TestWhereNotAllFitNamespacesThatWantMostGiveWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const greedy = 35 // four rules of them each have more than all may have, three have not
	beyond := map[string]string{}
	for i := range greedy {
		for age := range 4 {
			r.own.Add(aged(t, fmt.Sprint("greedy", i), age, long(4)))
		}
		beyond[fmt.Sprintf("EventPolicy greedy%d/p100", i)] = "all namespaces have more than 1048576"
	}
	r.own.Add(aged(t, "small", 0, long(1)))
	for i := range watch.MostOfAKind + 1 { // for which there are no bounds
		r.cluster.Add(object(t, "", fmt.Sprint("c", i), 1, "mode: Disabled"))
	}
	r.start(t)
	r.wantGoverns(t, "small", "EventPolicy small/p100@1")
	r.wantGoverns(t, "greedy1", "EventPolicy greedy1/p099@1")
	r.wantBeyond(t, beyond)
	for i := range greedy - 20 {
		for age := range 4 {
			r.own.Delete(aged(t, fmt.Sprint("greedy", i), age, ""))
		}
	}
	r.wantGoverns(t, fmt.Sprint("greedy", greedy-1), fmt.Sprintf("EventPolicy greedy%d/p100@1", greedy-1))
}

// wantBeyond holds which rules are not in force, and why.
func (r *rig) wantBeyond(t *testing.T, beyond map[string]string) {
	t.Helper()
	eventually(t, "compiled", func() bool { return r.pending() == 0 })
	for _, report := range r.Reports() {
		why := beyond[report.String()]
		if (report.Err == nil) != (why == "") || report.Err != nil && (!strings.Contains(report.Err.Error(), why) || report.Governing != 0) {
			t.Errorf("%s: governing %d, %v; want it to say %q", report, report.Governing, report.Err, why)
		}
	}
}

func TestResolutionTakesNoLockAndAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.own.Add(object(t, "a", "p", 1, ""))
	r.namespaces.Add(namespace("b", nil))
	r.start(t)
	r.wantGoverns(t, "a", "EventPolicy a/p@1")
	e, ctx := &corev1.Event{}, t.Context()
	r.WhileLocked(func() {
		allocs := testing.AllocsPerRun(100, func() {
			for _, namespace := range []string{"a", "b"} {
				r.InForce().For(ctx, namespace, e, nil)
			}
		})
		if allocs > 0 {
			t.Errorf("%v allocations", allocs)
		}
	})
}

func TestWhatStandsBeforeARuleIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cluster.Add(object(t, "", "admin", 1, "tier: Admin, mode: Disabled"))
	r.own.Add(object(t, "a", "first", 1, "precedence: 1"))
	r.own.Add(object(t, "a", "second", 1, "precedence: 2"))
	r.own.Add(object(t, "a", "broken", 1, invalid))
	r.start(t)
	want := func(what string, want map[string]string) {
		t.Helper()
		eventually(t, what, func() bool {
			got := map[string]string{}
			for _, namespace := range []string{"", "a"} {
				for name, before := range r.Shadowed(namespace) {
					got[name] = strings.Join(before, "; ")
				}
			}
			return maps.Equal(got, want)
		})
	}
	first := map[string]string{"EventPolicy a/second": "governed by EventPolicy a/first before"}
	want("the second is shadowed by the first", first)
	r.own.Modify(object(t, "a", "first", 2, invalid))
	eventually(t, "known to be invalid", func() bool {
		return slices.ContainsFunc(r.Reports(), func(report watch.Report) bool { return report.Name == "first" && report.Err != nil })
	})
	want("the first governs as it was", first)
	r.cluster.Modify(object(t, "", "admin", 2, "tier: Admin"))
	r.cluster.Add(object(t, "", "baseline", 1, ""))
	admin := "governed by ClusterEventPolicy admin before"
	want("all are shadowed by the cluster's", map[string]string{
		"EventPolicy a/first": admin, "EventPolicy a/second": admin, "ClusterEventPolicy baseline": admin,
	})
}
