package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Outcomes of a simulated write, in addition to those of package admission.
const (
	// Failed is a write that admission allowed and the API server rejected because its name was empty or taken.
	Failed admission.Outcome = "failed"
	// Unknown is a write to an Event that the input does not describe completely. EtcdWrites does not count it.
	Unknown admission.Outcome = "unknown"
)

// Decision describes the outcome of one write.
type Decision struct {
	Time time.Time `json:"time"`
	// File is the name of the recording; empty where there is only one.
	File string `json:"file,omitempty"`
	// Line is the number of the line or other entry, starting at 1.
	Line int64 `json:"line"`
	// AuditID is set only for audit log entries.
	AuditID   string `json:"auditID,omitempty"`
	Verb      string `json:"verb"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Controller, Host, Type and Reason describe the Event. They are empty if its content is unknown.
	Controller string            `json:"controller,omitempty"`
	Host       string            `json:"host,omitempty"`
	Type       string            `json:"type,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Outcome    admission.Outcome `json:"outcome"`
	// Message is the error message that the client gets if the write is refused.
	Message string `json:"message,omitempty"`
	// Policy is the name of the policy that governs the write.
	Policy string `json:"policy,omitempty"`
	// Refused names the rule and the limit that dropped the write.
	Refused
	// Audited is nil if no rule in mode Audit matches.
	Audited *Audited `json:"audited,omitempty"`
}

// Result summarizes the outcomes of all writes.
type Result struct {
	// Outcomes counts the writes by outcome.
	Outcomes map[admission.Outcome]int64 `json:"outcomes"`
	// WarningsDropped is the number of dropped Events of type Warning.
	WarningsDropped int64 `json:"warningsDropped"`
	// EtcdWrites counts the writes that reach etcd.
	EtcdWrites EtcdWrites `json:"etcdWrites"`
	// Stored is the number of Events that were created, without notices. Notices is the number of notices.
	Stored  int64 `json:"stored"`
	Notices int64 `json:"notices"`
	// Rules counts the decisions of each policy and quota, sorted by the number of writes in descending order.
	Rules []RuleCounts `json:"rules"`
	// Unused lists the rules and limits that applied to no write, with the reason.
	Unused []Unused `json:"unused,omitempty"`
	// UnknownMatches lists the rules whose match could not be evaluated for some writes.
	UnknownMatches []UnknownMatch `json:"unknownMatches,omitempty"`
	// UserDependent lists the rules that depend on the user, if the recording does not contain users. These rules treat all
	// writes as made by one user with an empty name.
	UserDependent []string `json:"userDependent,omitempty"`
	// Busiest ranks the sources and objects with the most writes, regardless of the rule that decided.
	Busiest map[busiest.Dimension]busiest.Ranking `json:"busiest"`
	// Timeline counts the decisions over time.
	Timeline Timeline `json:"timeline"`

	rules map[ruleKey]*RuleCounts
}

// EtcdWrites counts writes to etcd.
type EtcdWrites struct {
	// Before is the number of writes without eventquota.
	Before int64 `json:"before"`
	// After is the number of writes with eventquota: by clients, and by the settler for merged counts and notices.
	After   int64 `json:"after"`
	Events  int64 `json:"events"`
	Counts  int64 `json:"counts"`
	Notices int64 `json:"notices"`
}

// RuleCounts counts the decisions of one policy or quota. In mode Audit, it counts the decisions that the rule would make
// if all rules were enforced. A refusal counts for the quota that refused, any other decision for the policy.
type RuleCounts struct {
	Rule    string `json:"rule"`
	Audited bool   `json:"audited,omitempty"`
	busiest.Counts
	// Buckets counts dropped Events by the bucket that was empty.
	Buckets map[string]int64 `json:"buckets,omitempty"`
}

type ruleKey struct {
	rule    string
	audited bool
}

// maxTracked bounds the tracked keys of each kind. All of them take at most about 10 MB.
const maxTracked = 8192

func newResult(in *Input) *Result {
	return &Result{
		Outcomes: map[admission.Outcome]int64{}, rules: map[ruleKey]*RuleCounts{},
		Timeline: newTimeline(in.First, in.Last),
	}
}

// ObserveReview implements admission.Observer.
func (*Result) ObserveReview(string, admission.Outcome, time.Duration) {}

// ObserveDecision implements admission.Observer.
func (r *Result) ObserveDecision(d admission.DecidedWrite) {
	if d.Audited && d.Rule.Mode != policy.Audit {
		return // counted for the enforced rule
	}
	k := ruleKey{d.Rule.Name, d.Audited}
	p := r.rules[k]
	if p == nil {
		p = &RuleCounts{Rule: k.rule, Audited: k.audited, Buckets: map[string]int64{}}
		r.rules[k] = p
	}
	p.Count(d.Verdict)
	if d.Verdict == store.Drop {
		p.Buckets[cmp.Or(d.Bucket, "drops all")]++
	}
	if d.Audited {
		return
	}
	if d.Verdict == store.Drop && d.Request.Object.Type == corev1.EventTypeWarning {
		r.WarningsDropped++
	}
}

// Writes returns the number of writes with any outcome.
func (r *Result) Writes() (n int64) {
	for _, one := range r.Outcomes {
		n += one
	}
	return n
}

func (r *Result) finish() {
	w := &r.EtcdWrites
	w.After = w.Events + w.Counts + w.Notices
	for _, p := range r.rules {
		r.Rules = append(r.Rules, *p)
	}
	slices.SortFunc(r.Rules, func(a, b RuleCounts) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Rule, b.Rule))
	})
}

// maxSlots is the maximum number of slots in a Timeline.
const maxSlots = 240

// Timeline counts decisions over time, from the first write to the last. All Results of a Trace cover the same time.
type Timeline struct {
	// Seconds is the length of a slot: a power of two, at least 1.
	Seconds int64 `json:"seconds"`
	// Slots has at most 240 slots, without gaps.
	Slots []Slot `json:"slots"`
}

// Slot counts the decisions in one interval of a Timeline.
type Slot struct {
	// Start is a multiple of the length of the slots.
	Start time.Time `json:"start"`
	busiest.Counts
	// Other counts the remaining writes: the undecided ones, and those that the API server rejected.
	Other int64 `json:"other,omitempty"`
}

func newTimeline(first, last time.Time) Timeline {
	t := Timeline{Seconds: 1}
	for last.Unix()/t.Seconds-first.Unix()/t.Seconds >= maxSlots {
		t.Seconds *= 2
	}
	for at := first.Unix() / t.Seconds; at <= last.Unix()/t.Seconds; at++ {
		t.Slots = append(t.Slots, Slot{Start: time.Unix(at*t.Seconds, 0).UTC()})
	}
	return t
}

// count adds one write. Calls must be in the order of time.
func (t *Timeline) count(at time.Time, o admission.Outcome) {
	s := &t.Slots[(at.Unix()-t.Slots[0].Start.Unix())/t.Seconds]
	switch o {
	case admission.Admitted, admission.Aggregated, admission.Ignored:
		s.Admitted++
	case admission.Merged:
		s.Merged++
	case admission.Dropped:
		s.Dropped++
	default:
		s.Other++
	}
}
