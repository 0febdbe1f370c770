package busiest

import (
	"strings"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// RuleID names one generation of a rule, a policy or a quota. One that is edited is counted anew.
type RuleID struct {
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

func ruleID(i *policy.Identity) RuleID { return RuleID{UID: string(i.UID), Generation: i.Generation} }

func (id RuleID) clone() RuleID { return RuleID{strings.Clone(id.UID), id.Generation} }

// RuleCounts are what a replica decided by one generation of a rule. They are never too high, and exact up to
// maxTrackedRules generations.
type RuleCounts struct {
	ID RuleID `json:"id"`
	Counts

	// Sources are those refused most often, in no order, as far as the replica follows them.
	Sources []SourceCounts `json:"sources,omitempty"`
	// Error is the first reason why it is unknown for an Event whether the rule matches, at most maxNameBytes bytes; empty for none.
	Error string `json:"error,omitempty"`
	// Overflow is how many writes one of its overflow buckets has decided, and OverflowIn the namespace of the last of them.
	Overflow   int64  `json:"overflow,omitempty"`
	OverflowIn string `json:"overflowIn,omitempty"`
}

// countOverflow counts a write that an overflow bucket of a rule has decided.
func (c *Counter) countOverflow(rule *policy.Identity, namespace string) {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	r := c.rules.findOrAdd(rule.Namespace, ruleID(rule))
	if r.overflow++; r.overflowIn != namespace {
		r.overflowIn = strings.Clone(namespace)
	}
}

// recordError keeps the first reason why it is unknown whether a rule matches.
func (c *Counter) recordError(err *policy.EvaluationError) {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	r := c.rules.findOrAdd(err.Rule.Identity.Namespace, ruleID(&err.Rule.Identity))
	if r.failure == "" {
		r.failure = store.Clip(err.Reason(), maxNameBytes)
	}
}

// SourceCounts is a source and object, by name, with counts of its refused writes. They are never too high.
type SourceCounts struct {
	Source string `json:"source"`
	Object string `json:"object"`
	Counts
}

// refusal is what a rule refused, and whose.
type refusal struct {
	rule           RuleID
	source, object key
}

func (r refusal) clone() refusal {
	return refusal{r.rule.clone(), r.source.clone(), r.object.clone()}
}
