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

// What may become of a write, beside the outcomes of admission.
const (
	// Failed is a write that admission let pass and the API server did not take: it had no name, or a taken one.
	Failed admission.Outcome = "failed"
	// Unknown is a write to an Event of which the input does not say enough. It counts neither before nor after.
	Unknown admission.Outcome = "unknown"
)

// Decision is what became of one write.
type Decision struct {
	Time time.Time `json:"time"`
	// File is the name of the recording; empty where there is only one.
	File string `json:"file,omitempty"`
	// Line is the number of a line, or of another entry, from 1.
	Line int64 `json:"line"`
	// AuditID is empty except for a line of an audit log.
	AuditID   string `json:"auditID,omitempty"`
	Verb      string `json:"verb"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Controller, Host, Type and Reason are of the Event; empty where its content is unknown.
	Controller string            `json:"controller,omitempty"`
	Host       string            `json:"host,omitempty"`
	Type       string            `json:"type,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Outcome    admission.Outcome `json:"outcome"`
	// Message is the answer to a client that was refused.
	Message string `json:"message,omitempty"`
	// Policy governs the write.
	Policy string `json:"policy,omitempty"`
	// Refused says which rule dropped it, and by which limit.
	Refused
	// Audited is nil where nothing in mode Audit matches.
	Audited *Audited `json:"audited,omitempty"`
}

// Result is what became of all writes.
type Result struct {
	// Outcomes count writes by what became of them.
	Outcomes map[admission.Outcome]int64 `json:"outcomes"`
	// WarningsDropped are the dropped ones of type Warning.
	WarningsDropped int64 `json:"warningsDropped"`
	// EtcdWrites are what reaches etcd.
	EtcdWrites EtcdWrites `json:"etcdWrites"`
	// Stored are the Events that were created, and Notices the notices beside them.
	Stored  int64 `json:"stored"`
	Notices int64 `json:"notices"`
	// Rules are what each policy and quota decided, most writes first.
	Rules []RuleCounts `json:"rules"`
	// Unused are rules and limits that applied to no write, and why.
	Unused []Unused `json:"unused,omitempty"`
	// UnknownMatches are those of which, for some writes, it is unknown whether they match.
	UnknownMatches []UnknownMatch `json:"unknownMatches,omitempty"`
	// UserDependent are the rules that ask who writes an Event, of a recording that does not have that. To them, all writes are
	// of one user, who has no name.
	UserDependent []string `json:"userDependent,omitempty"`
	// Busiest ranks what had the most writes, whatever rule decided.
	Busiest map[busiest.Dimension]busiest.Ranking `json:"busiest"`
	// Timeline says when all of it was decided.
	Timeline Timeline `json:"timeline"`

	rules map[ruleKey]*RuleCounts
}

// EtcdWrites count writes to etcd.
type EtcdWrites struct {
	// Before is how many writes the input is without eventquota.
	Before int64 `json:"before"`
	// After is how many are left: of clients, of the settler's counts, and of notices.
	After   int64 `json:"after"`
	Events  int64 `json:"events"`
	Counts  int64 `json:"counts"`
	Notices int64 `json:"notices"`
}

// RuleCounts are what one policy or quota decided or, in mode Audit, would decide if nothing were in that mode. A
// quota decides what it refuses, and the policy that governs decides the rest.
type RuleCounts struct {
	Rule    string `json:"rule"`
	Audited bool   `json:"audited,omitempty"`
	busiest.Counts
	// Buckets count what was dropped by the bucket that had no token.
	Buckets map[string]int64 `json:"buckets,omitempty"`
}

type ruleKey struct {
	rule    string
	audited bool
}

// maxTracked is how many of each kind are followed: some 10 MB at the most.
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
		return // a rule in force decides what it decides
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

// Writes are all writes that were decided or tried.
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

// maxSlots bounds a Timeline.
const maxSlots = 240

// Timeline says when what was decided, from the first write to the last: the same time in every Result of a Trace.
type Timeline struct {
	// Seconds is how long a slot is: a power of two, at least 1.
	Seconds int64 `json:"seconds"`
	// Slots are at most 240, without a gap.
	Slots []Slot `json:"slots"`
}

// Slot is what was decided in one part of a Timeline.
type Slot struct {
	// Start is a multiple of the slot's length.
	Start time.Time `json:"start"`
	busiest.Counts
	// Other are writes that were neither: not decided, or not taken by the API server.
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

// count counts one write at a time from the first to the last.
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
