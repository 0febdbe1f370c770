package busiest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	// rulePlaces is how many generations of rules a replica follows.
	rulePlaces = 4096
	// sourcePlaces is how many sources of each rule it follows, and maxFollowed of all; the rules of a namespace
	// have no more than are left. With the longest texts they and the rules take 12 MB.
	sourcePlaces = 16
	maxFollowed  = 1 << 12
)

// RuleID names one generation of a rule, a policy or a quota. One that is edited is counted anew.
type RuleID struct {
	UID        string
	Generation int64
}

// MarshalText writes the UID, a slash and the generation.
func (id RuleID) MarshalText() ([]byte, error) {
	return strconv.AppendInt([]byte(id.UID+"/"), id.Generation, 10), nil
}

// UnmarshalText reads what MarshalText writes.
func (id *RuleID) UnmarshalText(text []byte) (err error) {
	uid, generation, _ := strings.Cut(string(text), "/")
	id.UID = uid
	if id.Generation, err = strconv.ParseInt(generation, 10, 64); err != nil {
		return fmt.Errorf("%q names no generation of a rule: %w", text, err)
	}
	return nil
}

func (id RuleID) detached() RuleID { return RuleID{strings.Clone(id.UID), id.Generation} }

// RuleCounts are what a replica decided by one generation of a rule. They are never too high, and exact up to
// rulePlaces generations.
type RuleCounts struct {
	ID RuleID `json:"id"`
	Counts

	// Sources are those refused most often, in no order.
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

// clipped is s with each text cut to maxPart bytes.
func (s Subject) clipped() Subject {
	for _, f := range s.fields() {
		*f = store.Clip(*f, maxPart)
	}
	return s
}

// detached is s in memory of its own.
func (s Subject) detached() Subject {
	for _, f := range s.fields() {
		*f = strings.Clone(*f)
	}
	return s
}

// CountRule counts one decision of a rule of a namespace, or of the cluster, about an Event of s, which is followed if
// the write was refused. It keeps no part of s, and allocates only for what is not followed yet.
func (c *Counter) CountRule(namespace string, id RuleID, v store.Verdict, s Subject) {
	one := countsOf(v)
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	counted := c.rules.count(c.seed, namespace, id, one)
	if one.Admitted > 0 {
		return
	}
	if counted.refused == nil {
		counted.refused = newSketch(sourcePlaces, Subject.detached)
	}
	refused := counted.refused
	before := len(refused.rows)
	if counted.holder.followed >= maxFollowed-c.rules.followed {
		refused.places = before // a new one takes the place of another
	}
	if refused.places > 0 {
		s = s.clipped()
		refused.count(c.seed, s.Namespace, s, one)
		counted.holder.followed += len(refused.rows) - before
		c.rules.followed += len(refused.rows) - before
	}
}

// countError counts a condition that could not be evaluated. It allocates only for the first of a rule.
func (c *Counter) countError(err *policy.EvaluationError) {
	i := &err.Rule.Identity
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	counted := c.rules.count(c.seed, i.Namespace, RuleID{UID: string(i.UID), Generation: i.Generation}, Counts{})
	counted.errors.Count++
	if counted.errors.Example == "" {
		counted.errors.Example = store.Clip(fmt.Sprintf("condition %q: %v", err.Condition, err.Err), maxPart)
	}
}

// ruleCounts are what c has counted by rules.
func (c *Counter) ruleCounts() []RuleCounts {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	all := make([]RuleCounts, 0, len(c.rules.rows))
	for _, row := range c.rules.rows {
		p := RuleCounts{ID: row.key, Counts: row.Counts, Errors: row.errors}
		if row.refused != nil {
			for _, o := range row.refused.rows {
				p.Sources = append(p.Sources, SourceCounts{o.key, o.Counts})
			}
		}
		all = append(all, p)
	}
	return all
}
