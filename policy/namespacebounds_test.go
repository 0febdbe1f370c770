package policy_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
)

// limitsOf has n limits with names that begin with a prefix, in YAML.
func limitsOf(prefix string, n int) string {
	spec := "limits:\n"
	for i := range n {
		spec += fmt.Sprintf("- {name: %s-%02d, per: [InvolvedObject], burst: 1, tokens: 1}\n", prefix, i)
	}
	return spec
}

// TestNamespaceLimitsPerEventAreBounded checks that a namespace's quotas cost an Event at most MaxLimitsPerEvent buckets,
// the same on every replica. Quotas in mode Audit and those of the cluster do not count.
func TestNamespaceLimitsPerEventAreBounded(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	quotas := []*policy.Quota{
		w.quota(t, "d", limitsOf("d", 8)), w.quota(t, "b", limitsOf("b", 3)),
		w.quota(t, "c", limitsOf("c", 3)), w.quota(t, "a", "mode: Audit\n"+limitsOf("a", 6)),
	}
	cluster := policy.Rules{Quotas: []*policy.Quota{w.clusterQuota(t, "z", limitsOf("z", 8)), w.clusterQuota(t, "y", limitsOf("y", 4))}}
	for range 2 {
		slices.Reverse(quotas)
		s := policy.NewSet(policy.Default(), cluster, namespaceA(nil, quotas...))
		g := s.Resolve(t.Context(), "a", backOff(), create())
		want := "y-00 y-01 y-02 y-03 z-00 z-01 z-02 z-03 z-04 z-05 z-06 z-07 "
		if got := names(g.Limits()); got != want+"b-00 b-01 b-02 c-00 c-01 c-02 d-00 d-01" {
			t.Errorf("limits %s", got)
		}
		if got := names(g.AuditLimits()); got != want+"a-00 a-01 a-02 a-03 a-04 a-05 b-00 b-01" {
			t.Errorf("limits with audited ones %s", got)
		}
	}
}

func names(limits iter.Seq2[*policy.Quota, *policy.QuotaLimit]) string {
	var all []string
	for _, l := range limits {
		all = append(all, l.Name)
	}
	return strings.Join(all, " ")
}

// TestOldestNamespaceRulesAreInForce checks which of a namespace's rules are in force, and the errors of the others.
func TestOldestNamespaceRulesAreInForce(t *testing.T) {
	t.Parallel()
	of := func(n, limits, size int) []policy.Candidate {
		return slices.Repeat([]policy.Candidate{{Limits: limits, Size: size}}, n)
	}
	for says, tt := range map[string]struct {
		all    []policy.Candidate
		beyond map[int]string
	}{
		"as many as may be":     {of(policy.MaxRules, 1, 1000), nil},
		"one more":              {of(policy.MaxRules+1, 0, 1), map[int]string{policy.MaxRules: "the oldest 16 are in force"}},
		"many limits":           {slices.Concat(of(1, 8, 1), of(2, 5, 1), of(1, 3, 1)), map[int]string{2: "may have 16 limits together; older ones have 13, this one has 5"}},
		"many that are large":   {slices.Concat(of(9, 1, policy.MaxRuleSize), of(1, 1, 1)), map[int]string{8: "older ones have 65536, this one has 8192", 9: "this one has 1"}},
		"a small one that fits": {slices.Concat(of(7, 1, policy.MaxRuleSize), of(1, 1, 8000), of(1, 1, policy.MaxRuleSize), of(1, 1, 1)), map[int]string{8: "may have 65536 bytes in all"}},
		"those after the first take no places": {slices.Concat(of(1, 16, 1), of(policy.MaxRules-1, 1, 1), of(1, 0, 1)), func() map[int]string {
			all := map[int]string{policy.MaxRules: "the oldest 16"}
			for i := 1; i < policy.MaxRules; i++ {
				all[i] = "older ones have 16, this one has 1"
			}
			return all
		}()},
	} {
		why := policy.Exclusions("EventQuota", tt.all)
		for i, err := range why {
			want, beyond := tt.beyond[i]
			if (err != nil) != beyond || beyond && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: of the one at %d: %v, want %q", says, i, err, want)
			}
		}
	}
	if err := policy.CheckSize("EventQuota", policy.MaxRuleSize); err != nil {
		t.Errorf("of one that is as large as it may be: %v", err)
	}
	if err := policy.CheckSize("EventQuota", policy.MaxRuleSize+1); err == nil || !strings.HasPrefix(err.Error(), "spec.match: must have at most 8192 bytes in kind EventQuota") {
		t.Errorf("of one that is larger: %v", err)
	}
	if size := policy.SizeOf(map[string]any{"a": "bcd", "e": []any{int64(1), "f"}}); size != 5*16+6 {
		t.Errorf("size %d", size)
	}
}

func TestCandidatesAreOrderedByAge(t *testing.T) {
	t.Parallel()
	at := func(second int64, name string) policy.Candidate {
		return policy.Candidate{Created: time.Unix(second, 0), Name: name}
	}
	all := []policy.Candidate{at(2, "a"), at(1, "c"), at(1, "b"), at(2, "0")}
	slices.SortFunc(all, func(a, b policy.Candidate) int { return a.CompareAge(&b) })
	if want := []policy.Candidate{at(1, "b"), at(1, "c"), at(2, "0"), at(2, "a")}; !slices.Equal(all, want) {
		t.Errorf("in the order %v", all)
	}
}
