package busiest

import (
	"strings"

	"github.com/eventquota/eventquota/policy"
)

// RuleID names one generation of a rule, a policy or a quota. One that is edited is counted anew.
type RuleID struct {
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

func ruleID(i *policy.Identity) RuleID { return RuleID{UID: string(i.UID), Generation: i.Generation} }

func (id RuleID) detached() RuleID { return RuleID{strings.Clone(id.UID), id.Generation} }

// RuleCounts are what a replica decided by one generation of a rule. They are never too high, and exact up to
// rulePlaces generations.
type RuleCounts struct {
	ID RuleID `json:"id"`
	Counts

	// Sources are those refused most often, in no order, as far as the replica follows them.
	Sources []SourceCounts `json:"sources,omitempty"`
	// Error is the first reason why it is unknown for an Event whether the rule matches, at most maxPart bytes; empty for none.
	Error string `json:"error,omitempty"`
	// Overflow is how many writes one of its overflow buckets has decided, and OverflowIn the namespace of the last of them.
	Overflow   int64  `json:"overflow,omitempty"`
	OverflowIn string `json:"overflowIn,omitempty"`
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

func (r refusal) detached() refusal {
	return refusal{r.rule.detached(), r.source.detached(), r.object.detached()}
}
