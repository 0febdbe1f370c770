package policytest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/store"
)

// Outcome counts the decisions about Events.
type Outcome struct {
	Admitted        int64 `json:"admitted"`
	Combined        int64 `json:"combined,omitempty"`
	Merged          int64 `json:"merged"`
	Dropped         int64 `json:"dropped"`
	WarningsDropped int64 `json:"warningsDropped,omitempty"`
	// Other counts writes that were not decided, or that the API server refuses, by reason.
	Other map[string]int64 `json:"other,omitempty"`
	// Policies counts Events by the policy that governs them, and RefusedBy drops by the limit or filter that refused them.
	Policies  map[string]int64   `json:"policies,omitempty"`
	RefusedBy map[string]refusal `json:"refusedBy,omitempty"`
	// Audited counts the decisions that rules in mode Audit would have made.
	Audited *Outcome `json:"audited,omitempty"`
}

// refusal counts the drops of one limit.
type refusal struct {
	Count int64 `json:"count"`
	// First is the time of the first drop since the start of the test.
	First string `json:"first"`
}

func newOutcome() *Outcome {
	return &Outcome{Other: map[string]int64{}, Policies: map[string]int64{}, RefusedBy: map[string]refusal{}}
}

// add counts the decision about a write.
func (o *Outcome) add(d *simulate.Decision, warning bool) {
	o.count(d.Outcome, d.Refused, d.Time)
	if d.Outcome == admission.Dropped && warning {
		o.WarningsDropped++
	}
	if d.Policy != "" {
		o.Policies[d.Policy]++
	}
	if d.Audited != nil {
		if o.Audited == nil {
			o.Audited = newOutcome()
		}
		o.Audited.count(d.Audited.Outcome, d.Audited.Refused, d.Time)
	}
}

// count counts an outcome of the enforced rules or of those in mode Audit.
func (o *Outcome) count(outcome admission.Outcome, by simulate.Refused, at time.Time) {
	switch outcome {
	case admission.Aggregated:
		o.Combined++
		o.Admitted++
	case admission.Admitted:
		o.Admitted++
	case admission.Merged:
		o.Merged++
	case admission.Dropped:
		o.Dropped++
		by.Limit = strings.TrimSuffix(by.Limit, store.OverflowSuffix)
		r, ok := o.RefusedBy[by.String()]
		if !ok {
			r.First = at.Sub(startTime()).String()
		}
		r.Count++
		o.RefusedBy[by.String()] = r
	case admission.Ignored:
		o.Other["not valid for the API server"]++
	case simulate.Failed:
		o.Other["with a name that exists already"]++
	default:
		o.Other["not decided"]++
	}
}

// maxNames bounds how many policies and how many limits a failure lists.
const maxNames = 3

// deciders lists the policies that governed and the limits that refused, the most frequent first.
func (o *Outcome) deciders() string {
	counted := func(counts map[string]int64, format func(name string) string) string {
		all := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
		more := len(all) - maxNames
		all = all[:min(maxNames, len(all))]
		for i, name := range all {
			all[i] = format(name)
		}
		if more > 0 {
			all = append(all, fmt.Sprintf("%d more", more))
		}
		return strings.Join(all, ", ")
	}
	var parts []string
	if len(o.Policies) > 0 {
		parts = append(parts, "governed by "+counted(o.Policies, func(n string) string { return fmt.Sprintf("%s (%d)", n, o.Policies[n]) }))
	}
	by, prefix := o.RefusedBy, "dropped by "
	if o.Audited != nil && len(o.Audited.RefusedBy) > 0 && len(by) == 0 {
		by, prefix = o.Audited.RefusedBy, "would be dropped by "
	}
	refused := map[string]int64{}
	for name, r := range by {
		refused[name] = r.Count
	}
	if len(refused) > 0 {
		parts = append(parts, prefix+counted(refused, func(n string) string {
			return fmt.Sprintf("%s (%d, first after %s)", n, refused[n], by[n].First)
		}))
	}
	if len(parts) == 0 {
		return ""
	}
	return " [" + strings.Join(parts, "; ") + "]"
}
