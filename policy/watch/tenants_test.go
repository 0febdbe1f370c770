package watch_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// compiled says what governs a namespace without asking for its rules to be compiled.
func (r *rig) compiled(namespace string) string {
	return r.InForce().Load().For(context.Background(), namespace, &corev1.Event{}, nil).Policy.Name
}

func (r *rig) pending() (n int) {
	for _, report := range r.Reports() {
		if report.Pending {
			n++
		}
	}
	return n
}

func TestTheRulesOfANamespaceWaitForItsFirstEventAndThatForThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.SetPatience(time.Hour)
	r.own.Add(object(t, "a", "p", 1, largest))
	r.own.Add(object(t, "b", "p", 1, invalid))
	r.start(t)
	if n, governs := r.pending(), r.compiled("a"); n != 2 || governs != "default" || len(r.reports()) != 0 {
		t.Errorf("%d are pending, %s governs, reported %v", n, governs, r.reports())
	}
	if got := governs(r.Cache, "a"); got != "EventPolicy a/p@1" {
		t.Errorf("%s governs the first Event", got)
	}
	if n := r.pending(); n != 1 {
		t.Errorf("%d are pending, want that of the other namespace", n)
	}
}

func TestAnEventWaitsNoLongerThanItsCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.SetPatience(time.Hour)
	r.SetTotalSize(1) // nothing can be compiled
	r.own.Add(object(t, "a", "p", 1, ""))
	r.start(t)
	if got := governs(r.Cache, "a"); got != "default@0" {
		t.Errorf("%s governs where there is no space", got)
	}

	for says, patience := range map[string]time.Duration{"a call that has ended": time.Hour, "too long": 0} {
		r = newRig(t)
		r.SetPatience(patience)
		r.own.Add(object(t, "a", "p", 1, ""))
		r.start(t)
		r.StopCompiling()
		ctx, cancel := context.WithCancel(t.Context())
		if patience > 0 {
			cancel()
		}
		if g := r.InForce().For(ctx, "a", &corev1.Event{}, nil); g.Policy.Name != "default" {
			t.Errorf("%s: %s governs", says, g.Policy.Name)
		}
		cancel()
	}
}

func TestResolutionTakesNoLockAndAllocatesNothing(t *testing.T) {
	r := newRig(t)
	r.own.Add(object(t, "a", "p", 1, ""))
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

func TestARuleOfAnIdleNamespaceCanBeChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.own.Add(object(t, "a", "p", 1, "mode: Audit"))
	r.own.Add(object(t, "b", "p", 1, invalid))
	r.start(t)
	for _, namespace := range []string{"a", "b", "b", "none"} {
		r.Check(policy.Identity{Kind: "EventPolicy", Namespace: namespace, Name: "p", UID: "uid of p"})
	}
	for _, report := range r.Reports() {
		if report.Err != nil && !strings.Contains(report.Err.Error(), "spec.match.conditions[0].expression") {
			t.Errorf("a broken one: %v", report.Err)
		}
		if valid := report.Namespace == "a"; report.Pending || (report.Err == nil) != valid || (report.Mode == policy.Audit) != valid ||
			(report.Governing == 1) != valid {
			t.Errorf("report %+v", report)
		}
	}
	if len(r.InForce().Load().For(t.Context(), "a", &corev1.Event{}, nil).Policy.Match.Conditions) > 0 || r.compiled("a") != "default" {
		t.Error("what was checked is kept")
	}
}

func TestWhatStandsBeforeARuleIsKnownOfAnIdleNamespace(t *testing.T) {
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
			for _, report := range r.Reports() {
				r.Check(report.Identity)
			}
			got := map[string]string{}
			for _, namespace := range []string{"", "a"} {
				shadowed := r.Shadowed(namespace)
				for _, report := range r.Reports() {
					if before, ok := shadowed[report.String()]; ok {
						got[report.Name] = strings.Join(before, "; ")
					}
				}
			}
			return maps.Equal(got, want)
		})
	}
	want("the second is shadowed by the first", map[string]string{"second": "governed by EventPolicy a/first before"})
	r.own.Modify(object(t, "a", "first", 2, invalid))
	eventually(t, "received", func() bool {
		return slices.ContainsFunc(r.Reports(), func(report watch.Report) bool { return report.Name == "first" && report.Generation == 2 })
	})
	want("the first governs as it was", map[string]string{"second": "governed by EventPolicy a/first before"})
	r.cluster.Modify(object(t, "", "admin", 2, "tier: Admin"))
	admin := "governed by ClusterEventPolicy admin before"
	want("both are shadowed by the cluster's", map[string]string{"first": admin, "second": admin})
	r.cluster.Add(object(t, "", "baseline", 1, ""))
	want("the cluster's own too", map[string]string{"first": admin, "second": admin, "baseline": admin})
}

func TestAnIdleNamespaceLosesNoValidGeneration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.SetPatience(time.Hour)
	r.own.Add(object(t, "a", "p", 1, ""))
	r.start(t)
	r.own.Modify(object(t, "a", "p", 2, invalid))
	eventually(t, "received", func() bool { return r.Reports()[0].Generation == 2 })
	if got := governs(r.Cache, "a"); got != "EventPolicy a/p@1" {
		t.Errorf("%s governs", got)
	}
	if report := r.Reports()[0]; report.Governing != 1 || report.Err == nil || report.Pending {
		t.Errorf("report %+v", report)
	}
}

func TestTheNamespaceThatWasAskedAboutLeastRecentlyMakesSpace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.SetPatience(time.Hour)
	r.SetTotalSize(3 * 32) // three without conditions
	for _, namespace := range []string{"a", "b", "c", "d"} {
		r.own.Add(object(t, namespace, "p", 1, ""))
	}
	r.start(t)
	want := func(namespace string) {
		t.Helper()
		if got := governs(r.Cache, namespace); !strings.HasPrefix(got, "EventPolicy "+namespace+"/p@1") {
			t.Errorf("%s governs namespace %s", got, namespace)
		}
	}
	want("a")
	want("b")
	want("c")
	want("a")
	r.own.Modify(object(t, "b", "p", 2, "mode: Nothing"))
	eventually(t, "reported", func() bool { return len(r.reports()) == 4 })
	want("b") // as it was
	want("c")
	want("a")
	r.own.Add(object(t, "e", "p", 1, ""))
	eventually(t, "received", func() bool { return len(r.Reports()) == 5 })
	eventually(t, "arranged", func() bool { return governs(r.Cache, "e") != "default@0" })
	want("d")
	n := 0
	for _, namespace := range []string{"a", "b", "c", "d", "e"} {
		if r.compiled(namespace) != "default" {
			n++
		}
	}
	if n > 3 || r.compiled("d") == "default" || r.compiled("e") == "default" {
		t.Errorf("%d namespaces are compiled, want 3 with the last two; %s governs d, %s governs e", n, r.compiled("d"), r.compiled("e"))
	}
	want("b") // compiled again, as it was last valid
}

func TestTheOldestRulesOfANamespaceAreInForce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	aged := func(namespace string, age int, spec string) *unstructured.Unstructured {
		u := object(t, namespace, fmt.Sprintf("p%03d", 100-age), 1, spec)
		u.SetUID("uid of p")
		u.SetCreationTimestamp(metav1.Unix(int64(1_000_000-age), 0))
		return u
	}
	for age := range 66 {
		r.own.Add(aged("many", age, fmt.Sprintf("precedence: %d", age+1)))
	}
	for age := range 5 {
		r.own.Add(aged("large", age, fmt.Sprintf("precedence: %d, %s", age+1, large)))
	}
	q := quota(t, "many", "q", 1, limit)
	q.SetCreationTimestamp(metav1.Unix(1_000_000, 0))
	r.ownQuotas.Add(q) // of another kind
	r.start(t)
	r.wantGoverns(t, "many", "EventPolicy many/p098@1")
	r.wantGoverns(t, "large", "EventPolicy large/p098@1") // one of the largest has more than a quarter
	if got := limits(r.Cache, "many"); len(got) != 1 {
		t.Errorf("limits %v", got)
	}
	beyond := map[string]string{
		"EventPolicy many/p100": "64 of the kind EventPolicy", "EventPolicy many/p099": "64 of the kind EventPolicy",
		"EventPolicy large/p100": "131072 bytes", "EventPolicy large/p099": "131072 bytes",
	}
	for _, report := range r.Reports() {
		r.Check(report.Identity) // which changes nothing
	}
	for _, report := range r.Reports() {
		why := beyond[report.String()]
		if report.Pending || (report.Err == nil) != (why == "") || report.Err != nil && (!strings.Contains(report.Err.Error(), why) || report.Governing != 0) {
			t.Errorf("report %+v", report)
		}
	}
	r.own.Delete(aged("many", 65, ""))
	r.wantGoverns(t, "many", "EventPolicy many/p099@1")
	r.own.Modify(func() *unstructured.Unstructured {
		u := aged("large", 4, "")
		u.SetGeneration(2)
		return u
	}())
	r.wantGoverns(t, "large", "EventPolicy large/p099@1")
}
