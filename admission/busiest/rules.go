package busiest

import (
	"strings"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// RuleID identifies one generation of a policy or quota. An edited rule is counted from 0 again.
type RuleID struct {
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

func ruleID(i *policy.Identity) RuleID { return RuleID{UID: string(i.UID), Generation: i.Generation} }

func (id RuleID) clone() RuleID { return RuleID{strings.Clone(id.UID), id.Generation} }

// RuleCounts counts the decisions of a replica by one generation of a rule. The counts are never too high, and exact for up to
// maxTrackedRules generations.
type RuleCounts struct {
	ID RuleID `json:"id"`
	Counts

	// Sources are those refused most often, in no order, as far as the replica tracks them.
	Sources []SourceCounts `json:"sources,omitempty"`
	// Error is the first error of evaluating the rule for an Event, at most maxNameBytes bytes; empty for none.
	Error string `json:"error,omitempty"`
	// Overflow is the number of writes that its overflow buckets have decided, and OverflowIn the namespace of the latest of them.
	Overflow   int64  `json:"overflow,omitempty"`
	OverflowIn string `json:"overflowIn,omitempty"`
}

// countOverflow counts a write that an overflow bucket of a rule decided.
func (c *Counter) countOverflow(rule *policy.Identity, namespace string) {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	r := c.rules.findOrAdd(rule.Namespace, ruleID(rule))
	if r.overflow++; r.overflowIn != namespace {
		r.overflowIn = strings.Clone(namespace)
	}
}

// recordError keeps the first error of evaluating a rule.
func (c *Counter) recordError(err *policy.EvaluationError) {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	r := c.rules.findOrAdd(err.Rule.Identity.Namespace, ruleID(&err.Rule.Identity))
	if r.failure == "" {
		r.failure = store.Clip(err.Reason(), maxNameBytes)
	}
}

// SourceCounts counts the refused writes of a source about an object. The counts are never too high.
type SourceCounts struct {
	Source string `json:"source"`
	Object string `json:"object"`
	Counts
}

// refusal identifies a rule, and a source and object that it refused.
type refusal struct {
	rule           RuleID
	source, object key
}

func (r refusal) clone() refusal {
	return refusal{r.rule.clone(), r.source.clone(), r.object.clone()}
}
