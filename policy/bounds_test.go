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

// TestFewLimitsOfANamespaceApplyToAnEvent holds that a namespace's quotas cost an Event no more buckets than are allowed,
// that these are the same on every replica, and that neither audited quotas nor the cluster's take their places.
func TestFewLimitsOfANamespaceApplyToAnEvent(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	quotas := []*policy.Quota{
		w.ownQuota(t, "d", limitsOf("d", 8)), w.ownQuota(t, "b", limitsOf("b", 3)),
		w.ownQuota(t, "c", limitsOf("c", 3)), w.ownQuota(t, "a", "mode: Audit\n"+limitsOf("a", 6)),
	}
	cluster := policy.Rules{Quotas: []*policy.Quota{w.adminsQuota(t, "z", limitsOf("z", 8)), w.adminsQuota(t, "y", limitsOf("y", 4))}}
	for range 2 {
		slices.Reverse(quotas)
		s := policy.NewSet(policy.Default(), cluster, a(nil, quotas...))
		g := s.For(t.Context(), "a", backOff(), create())
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

// TestTheOldestRulesOfANamespaceAreWithinBounds holds which of a namespace's rules are in force, and what the others are told.
func TestTheOldestRulesOfANamespaceAreWithinBounds(t *testing.T) {
	t.Parallel()
	of := func(n, limits, size int) []policy.Candidate {
		return slices.Repeat([]policy.Candidate{{Limits: limits, Size: size}}, n)
	}
	for says, tt := range map[string]struct {
		all    []policy.Candidate
		beyond map[int]string
	}{
		"as many as may be":      {of(policy.MaxRules, 1, 1000), nil},
		"one more":               {of(policy.MaxRules+1, 0, 1), map[int]string{policy.MaxRules: "at most 16 of the kind EventQuota"}},
		"many limits":            {slices.Concat(of(1, 8, 1), of(2, 5, 1), of(1, 3, 1)), map[int]string{2: "at most 16 limits of all EventQuota objects of a namespace may be in force: older ones have 13, this one has 5"}},
		"one that is too large":  {slices.Concat(of(1, 1, policy.MaxRuleSize+1), of(1, 1, policy.MaxRuleSize)), map[int]string{0: "spec: must have at most 16384 bytes"}},
		"many that are large":    {slices.Concat(of(5, 1, policy.MaxRuleSize), of(1, 1, 1)), map[int]string{4: "may have 65536 bytes: older ones have 65536, this one has 16384", 5: "this one has 1"}},
		"a small one after that": {slices.Concat(of(3, 1, policy.MaxRuleSize), of(1, 1, 10000), of(1, 1, policy.MaxRuleSize), of(1, 1, 1)), map[int]string{4: "65536 bytes"}},
	} {
		why := policy.Beyond("EventQuota", tt.all)
		for i, err := range why {
			want, beyond := tt.beyond[i]
			if (err != nil) != beyond || beyond && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: of the one at %d: %v, want %q", says, i, err, want)
			}
		}
	}
	if size := policy.SizeOf(map[string]any{"a": "bcd", "e": []any{int64(1), "f"}}); size != 5*16+6 {
		t.Errorf("size %d", size)
	}
}

func TestAnOlderRuleGoesFirst(t *testing.T) {
	t.Parallel()
	at := func(second int64, name string) policy.Candidate {
		return policy.Candidate{Created: time.Unix(second, 0), Name: name}
	}
	all := []policy.Candidate{at(2, "a"), at(1, "c"), at(1, "b"), at(2, "0")}
	slices.SortFunc(all, func(a, b policy.Candidate) int { return a.Older(&b) })
	if want := []policy.Candidate{at(1, "b"), at(1, "c"), at(2, "0"), at(2, "a")}; !slices.Equal(all, want) {
		t.Errorf("in the order %v", all)
	}
}
