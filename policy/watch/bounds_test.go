package watch_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// policyOfAge is a policy that is older than others, before which it goes; they have names in the order in which they were made.
func policyOfAge(t *testing.T, namespace string, age int, spec string) *unstructured.Unstructured {
	t.Helper()
	return createdAt(object(t, namespace, fmt.Sprintf("p%03d", 999-age), 1, fmt.Sprintf("precedence: %d, %s", age+1, spec)), age)
}

func createdAt(u *unstructured.Unstructured, age int) *unstructured.Unstructured {
	u.SetCreationTimestamp(metav1.Unix(int64(1_000_000-age), 0))
	return u
}

// largestSpec is the spec of a rule with as much in it as may be, or nearly.
func largestSpec() string {
	return "match: {reasons: [" + strings.Repeat("'"+strings.Repeat("x", 110)+"', ", 60) + "last]}"
}

func TestOldestNamespaceRulesAreInForce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for age := range policy.MaxRules + 2 {
		r.policies.Add(policyOfAge(t, "many", age, ""))
	}
	for age := range 9 {
		r.policies.Add(policyOfAge(t, "large", age, withDistinctReasons(largestSpec())))
	}
	r.policies.Add(policyOfAge(t, "huge", 9, tooLargeSpec()))
	r.policies.Add(policyOfAge(t, "huge", 8, ""))
	for age, n := range []int{3, 6, 6, 5} { // the last is the oldest
		r.quotas.Add(createdAt(quota(t, "many", fmt.Sprint("q", n, "-", age), 1, limitsOf(n)), age))
	}
	for i := range 3 * policy.MaxRules { // for which there are no bounds
		r.clusterPolicies.Add(object(t, "", fmt.Sprint("c", i), 1, "mode: Disabled"))
	}
	r.start(t)
	r.wantActivePolicy(t, "many", "EventPolicy many/p997@1")
	r.wantActivePolicy(t, "huge", "EventPolicy huge/p991@1")
	r.wantExcluded(t, map[string]string{
		"EventPolicy many/p999": "the oldest 16 are in force", "EventPolicy many/p998": "the oldest 16 are in force",
		"EventPolicy large/p999": "may have 65536 bytes in all objects",
		"EventQuota many/q6-1":   "may have 16 limits together; older ones have 11, this one has 6",
	})
	eventually(t, "limited by as many as may be", func() bool { return len(limits(r.Cache, "many")) == policy.MaxLimitsPerEvent })
	r.policies.Delete(policyOfAge(t, "many", 3, ""))
	r.wantActivePolicy(t, "many", "EventPolicy many/p998@1")
	small := policyOfAge(t, "large", 4, "")
	small.SetGeneration(2)
	r.policies.Modify(small)
	r.wantExcluded(t, map[string]string{
		"EventPolicy many/p999": "the oldest 16 are in force",
		"EventQuota many/q6-1":  "may have 16 limits together; older ones have 11, this one has 6",
	})
}

// tooLargeSpec is the spec of a rule with more in it than may be.
func tooLargeSpec() string {
	return "match: {kinds: [" + strings.Repeat("'"+strings.Repeat("y", 120)+"', ", 62) + "last]}"
}

// withDistinctReasons makes the reasons of a spec differ.
func withDistinctReasons(spec string) string {
	for i := 0; strings.Contains(spec, "'x"); i++ {
		spec = strings.Replace(spec, "'x", fmt.Sprintf("'%02d", i), 1)
	}
	return spec
}

func limitsOf(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("{name: l%d, burst: 1, tokens: 1}", i)
	}
	return "limits: [" + strings.Join(all, ", ") + "]"
}

// wantExcluded holds which rules are not in force, and why.
func (r *rig) wantExcluded(t *testing.T, beyond map[string]string) {
	t.Helper()
	found := func() (wrong []string) {
		for _, report := range r.Reports() {
			why := beyond[report.String()]
			if (report.Excluded != nil) != (why != "") || report.Excluded != nil && (!strings.Contains(report.Excluded.Error(), why) || report.ActiveGeneration != 0) {
				wrong = append(wrong, fmt.Sprintf("%s: governing %d, %v; want it to say %q", report, report.ActiveGeneration, report.Excluded, why))
			}
		}
		return wrong
	}
	if poll(t, func() bool { return r.pending() == 0 && len(found()) == 0 }) != nil {
		t.Fatal(strings.Join(found(), "\n"))
	}
}

var seeds = flag.Uint64("seeds", 10, "how many random courses TestWhatIsInForceAreTheOldestWhateverHappens takes")

// TestRandomChangesKeepOldestInForce creates, changes and deletes rules at random, also during scans of a namespace.
// In the end the oldest rules are in force, as on any other replica, and few are kept.
func TestRandomChangesKeepOldestInForce(t *testing.T) {
	t.Parallel()
	const most = 1200
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			r := newRig(t)
			r.policies.pageSize = 7
			exist, changes := map[string]*unstructured.Unstructured{}, 0
			var mu sync.Mutex // a change may be made while a page is read
			change := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				i := changes
				changes++
				name := fmt.Sprint("p", random.IntN(100))
				u := exist[name]
				switch {
				case u == nil && random.IntN(3) > 0:
					u = createdAt(object(t, "a", name, 1, ""), random.IntN(50)-i/10)
					u.SetUID(types.UID(fmt.Sprint(i)))
					exist[name] = u
					r.policies.Add(u.DeepCopy())
				case u == nil:
				case random.IntN(n) > 0:
					delete(exist, name)
					r.policies.Delete(u.DeepCopy())
				default:
					u.SetGeneration(u.GetGeneration() + 1)
					r.policies.Modify(u.DeepCopy())
				}
			}
			r.policies.during = func() {
				if changes < most {
					change(4)
				}
				<-time.After(time.Millisecond) // for the watch to tell of it
			}
			for range 200 {
				change(4)
			}
			run(t, r.Cache)
			for changes < most {
				change(2 + changes/600)
				if changes%10 == 0 {
					<-time.After(time.Duration(changes%7) * 100 * time.Millisecond)
				}
			}
			<-time.After(time.Minute)
			var governing, oldest []string
			for _, report := range r.Reports() {
				if report.ActiveGeneration > 0 {
					governing = append(governing, fmt.Sprint(report.Name, "@", report.ActiveGeneration, report.UID))
				}
			}
			all := slices.SortedFunc(maps.Values(exist), func(a, b *unstructured.Unstructured) int {
				return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
			})
			for _, u := range all[:min(policy.MaxRules, len(all))] {
				oldest = append(oldest, fmt.Sprint(u.GetName(), "@", u.GetGeneration(), u.GetUID()))
			}
			slices.Sort(governing)
			slices.Sort(oldest)
			if !slices.Equal(governing, oldest) {
				t.Errorf("seed %d: of %d rules in force:\n%v\nwant:\n%v", seed, len(all), governing, oldest)
			}
			if n := len(r.Reports()); n > watch.MaxKeptRules {
				t.Errorf("seed %d: %d rules are kept", seed, n)
			}
		})
	}
}

func TestResolutionIsLockAndAllocationFree(t *testing.T) {
	r := newRig(t)
	r.policies.Add(object(t, "a", "p", 1, ""))
	r.namespaces.Add(namespace("b", nil))
	r.start(t)
	r.wantActivePolicy(t, "a", "EventPolicy a/p@1")
	e, ctx := &corev1.Event{}, t.Context()
	r.WhileLocked(func() {
		allocs := testing.AllocsPerRun(100, func() {
			for _, namespace := range []string{"a", "b"} {
				r.Current().Resolve(ctx, namespace, e, nil)
			}
		})
		if allocs > 0 {
			t.Errorf("%v allocations", allocs)
		}
	})
}

func TestShadowedRulesAreReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.clusterPolicies.Add(object(t, "", "admin", 1, "tier: Admin, mode: Disabled"))
	r.policies.Add(object(t, "a", "first", 1, "precedence: 1"))
	r.policies.Add(object(t, "a", "second", 1, "precedence: 2"))
	r.policies.Add(object(t, "a", "broken", 1, invalidSpec))
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
	first := map[string]string{"EventPolicy a/second": "governed by EventPolicy a/first, which comes first"}
	want("the second is shadowed by the first", first)
	r.policies.Modify(object(t, "a", "first", 2, invalidSpec))
	eventually(t, "known to be invalid", func() bool {
		return slices.ContainsFunc(r.Reports(), func(report watch.Report) bool { return report.Name == "first" && report.Err != nil })
	})
	want("the first governs as it was", first)
	r.clusterPolicies.Modify(object(t, "", "admin", 2, "tier: Admin"))
	r.clusterPolicies.Add(object(t, "", "baseline", 1, ""))
	admin := "governed by ClusterEventPolicy admin, which comes first"
	want("all are shadowed by the cluster's", map[string]string{
		"EventPolicy a/first": admin, "EventPolicy a/second": admin, "ClusterEventPolicy baseline": admin,
	})
}
