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

func (id RuleID) detached() RuleID { return RuleID{strings.Clone(id.UID), id.Generation} }

// RuleCounts are what a replica decided by one generation of a rule. They are never too high, and exact up to
// rulePlaces generations.
type RuleCounts struct {
	ID RuleID `json:"id"`
	Counts

	// Sources are those refused most often, in no order, as far as the replica follows them.
	Sources []SourceCounts `json:"sources,omitempty"`
	Errors  Errors         `json:"errors,omitzero"`
}

// Errors are about conditions of a rule that could not be evaluated.
type Errors struct {
	Count int64 `json:"count"`
	// Example is the first of them, at most maxPart bytes.
	Example string `json:"example"`
}

// SourceCounts is a source and object with counts of its refused writes. They are never too high.
type SourceCounts struct {
	Subject
	Counts
}

// Subject is who reports an Event and what it is about.
type Subject struct {
	store.Object
	store.Source
}

func (s *Subject) fields() [7]*string {
	return [...]*string{&s.APIVersion, &s.Kind, &s.Namespace, &s.Name, &s.UID, &s.Component, &s.Host}
}

func (s Subject) clipped() Subject {
	for _, f := range s.fields() {
		*f = store.Clip(*f, maxPart)
	}
	return s
}

// refusal is what a rule refused, and whose.
type refusal struct {
	rule RuleID
	Subject
}

func (r refusal) detached() refusal {
	r.rule = r.rule.detached()
	for _, f := range r.fields() {
		*f = strings.Clone(*f)
	}
	return r
}
