package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eventquota/eventquota/policy/expression"
)

// What the conditions of all rules of the cluster may cost together for one Event. An expression that several rules have
// counts once, and so does the memory that evaluations share.
const (
	// MaxSteps is of time: about a nanosecond each.
	MaxSteps = 20_000_000
	// MaxBytes is of memory.
	MaxBytes = 16 << 20
)

// bounded is r without the rules whose conditions are too many, and why each of these is left out. Those that go first
// have their conditions: policies of tier Admin, then quotas, then policies of tier Baseline, each in their order. So all
// replicas leave out the same.
func (r Rules) bounded() (kept Rules, leftOut map[*Rule]error, slots map[*Condition]int) {
	b := bounding{numbers: map[string]int{}, slots: map[*Condition]int{}, leftOut: map[*Rule]error{}}
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
	out := func(r *Rule) bool { return b.leftOut[r] != nil }
	kept.Policies = slices.DeleteFunc(r.Policies, func(p *Policy) bool { return out(&p.Rule) })
	kept.Quotas = slices.DeleteFunc(r.Quotas, func(q *Quota) bool { return out(&q.Rule) })
	return kept, b.leftOut, b.slots
}

// bounding is the rules that are in force so far, and what their conditions cost.
type bounding struct {
	total   expression.Cost
	shared  int64
	numbers map[string]int // of expressions
	slots   map[*Condition]int
	leftOut map[*Rule]error
}

// add adds a rule if its conditions fit, and else leaves it out.
func (b *bounding) add(r *Rule) {
	conditions, total, shared := r.Match.Conditions, b.total, b.shared
	seen := map[string]bool{}
	for i := range conditions {
		e := conditions[i].expression
		if _, known := b.numbers[e.Text]; !known && !seen[e.Text] {
			seen[e.Text] = true
			total.Steps, total.Bytes, shared = total.Steps+e.Cost.Steps, total.Bytes+e.Cost.Bytes, max(shared, e.Shared)
		}
	}
	if total.Steps > MaxSteps || total.Bytes+shared > MaxBytes {
		b.leftOut[r] = fmt.Errorf("with its conditions, those of the cluster's rules may take %d steps and %d bytes of memory for an Event, "+
			"and %d and %d are allowed: rules that go before it take the rest", total.Steps, total.Bytes+shared, MaxSteps, MaxBytes)
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

// LeftOut are the rules of the cluster that are not in force as the conditions of all would cost too much, and why, by their
// Names.
func (s *Set) LeftOut() map[string]error {
	all := make(map[string]error, len(s.leftOut))
	for r, why := range s.leftOut {
		all[r.Name] = why
	}
	return all
}
