package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eventquota/eventquota/policy/expression"
)

// The budget for one Event of the conditions of all rules of the cluster together. An expression that several rules have
// counts once, and so does the memory that evaluations share.
const (
	// MaxConditionSteps bounds the time. A step takes about a nanosecond.
	MaxConditionSteps = 20_000_000
	// MaxConditionBytes bounds the memory.
	MaxConditionBytes = 16 << 20
)

// withinBudget returns r without the rules whose conditions exceed the budget, and why each of these is excluded. Policies of tier
// Admin come first, then quotas, then policies of tier Baseline, each in their order. So all
// replicas exclude the same rules.
func (r Rules) withinBudget() (kept Rules, excluded map[*Rule]error, slots map[*Condition]int) {
	b := conditionBudget{numbers: map[string]int{}, slots: map[*Condition]int{}, excluded: map[*Rule]error{}}
	admin, _ := slices.BinarySearchFunc(r.Policies, TierBaseline, func(p *Policy, t Tier) int { return cmp.Compare(p.Tier, t) })
	for _, p := range r.Policies[:admin] {
		b.add(&p.Rule)
	}
	for _, q := range r.Quotas {
		b.add(&q.Rule)
	}
	for _, p := range r.Policies[admin:] {
		b.add(&p.Rule)
	}
	out := func(r *Rule) bool { return b.excluded[r] != nil }
	kept.Policies = slices.DeleteFunc(r.Policies, func(p *Policy) bool { return out(&p.Rule) })
	kept.Quotas = slices.DeleteFunc(r.Quotas, func(q *Quota) bool { return out(&q.Rule) })
	return kept, b.excluded, b.slots
}

// conditionBudget has the rules that are in force so far, and the cost of their conditions.
type conditionBudget struct {
	total    expression.Cost
	shared   int64
	numbers  map[string]int // of expressions
	slots    map[*Condition]int
	excluded map[*Rule]error
}

// add adds a rule if its conditions fit, and otherwise excludes it.
func (b *conditionBudget) add(r *Rule) {
	conditions, total, shared := r.Match.Conditions, b.total, b.shared
	seen := map[string]bool{}
	for i := range conditions {
		e := conditions[i].expression
		if _, known := b.numbers[e.Text]; !known && !seen[e.Text] {
			seen[e.Text] = true
			total.Steps, total.Bytes, shared = total.Steps+e.Cost.Steps, total.Bytes+e.Cost.Bytes, max(shared, e.Shared)
		}
	}
	if total.Steps > MaxConditionSteps || total.Bytes+shared > MaxConditionBytes {
		b.excluded[r] = fmt.Errorf("with this rule, the conditions of the cluster's rules may need %d steps and %d bytes of memory for an Event. "+
			"Allowed are %d and %d, and rules that come first take precedence", total.Steps, total.Bytes+shared, MaxConditionSteps, MaxConditionBytes)
		return
	}
	b.total, b.shared = total, shared
	for i := range conditions {
		text := conditions[i].expression.Text
		if _, known := b.numbers[text]; !known {
			b.numbers[text] = len(b.numbers)
		}
		b.slots[&conditions[i]] = b.numbers[text]
	}
}

// Excluded returns, by name, why rules of the cluster are not in force: the conditions of all rules together would cost too
// much.
func (s *Set) Excluded() map[string]error {
	all := make(map[string]error, len(s.excluded))
	for r, why := range s.excluded {
		all[r.Name] = why
	}
	return all
}
