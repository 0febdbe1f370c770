package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// Outcome is what became of a write: an outcome of admission, or one of these.
type Outcome string

const (
	// Failed is a write that admission let pass and the API server did not take:
	// its name was taken, or there was none.
	Failed Outcome = "failed"
	// Unknown is a write to an Event of which the input does not say enough.
	Unknown Outcome = "unknown"
)

// Decision is what became of one write.
type Decision struct {
	Time time.Time `json:"time"`
	File string    `json:"file"`
	Line int64     `json:"line"`
	// AuditID is empty but for a line of an audit log.
	AuditID   string  `json:"auditID,omitempty"`
	Verb      string  `json:"verb"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Outcome   Outcome `json:"outcome"`
	// Message is what a refused client would have been told.
	Message string `json:"message,omitempty"`
}

// Result is what became of all writes.
type Result struct {
	// Outcomes count writes by what became of them.
	Outcomes map[Outcome]int64 `json:"outcomes"`
	// WarningsDropped are the dropped ones of type Warning.
	WarningsDropped int64 `json:"warningsDropped"`
	// EtcdWrites are what reaches etcd.
	EtcdWrites EtcdWrites `json:"etcdWrites"`
	// Stored are the Events that were created, and Notices the notices beside
	// them.
	Stored  int64 `json:"stored"`
	Notices int64 `json:"notices"`
	// Policies are what each policy did, most writes first.
	Policies []PolicyCounts `json:"policies"`
	// Sources, Objects and Reasons are those with the most writes.
	Sources []TopCounts `json:"sources"`
	Objects []TopCounts `json:"objects"`
	Reasons []TopCounts `json:"reasons"`

	policies                  map[policyKey]*PolicyCounts
	sources, objects, reasons top
}

// EtcdWrites count writes to etcd.
type EtcdWrites struct {
	// Before is how many writes the input is without eventquota.
	Before int64 `json:"before"`
	// After is how many are left: of clients, of the settler's counts, and of
	// notices.
	After   int64 `json:"after"`
	Events  int64 `json:"events"`
	Counts  int64 `json:"counts"`
	Notices int64 `json:"notices"`
}

// Counts count writes by what was decided.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

func (c *Counts) count(v store.Verdict) {
	switch v {
	case store.Admit, store.Aggregate:
		c.Admitted++
	case store.Merge:
		c.Merged++
	case store.Drop, store.Deny:
		c.Dropped++
	}
}

func (c *Counts) writes() int64 { return c.Admitted + c.Merged + c.Dropped }

// PolicyCounts are what one policy did, or would do if it is audited.
type PolicyCounts struct {
	Policy  string `json:"policy"`
	Audited bool   `json:"audited,omitempty"`
	Counts
	// Buckets count what was dropped by the bucket that had no token.
	Buckets map[string]int64 `json:"buckets,omitempty"`
}

type policyKey struct {
	policy  string
	audited bool
}

func newResult() *Result {
	return &Result{
		Outcomes: map[Outcome]int64{}, policies: map[policyKey]*PolicyCounts{},
		sources: top{}, objects: top{}, reasons: top{},
	}
}

// told counts what a Gate tells.
func (r *Result) told(d admission.Decided) {
	k := policyKey{d.Policy.Name, d.Audited}
	p := r.policies[k]
	if p == nil {
		p = &PolicyCounts{Policy: k.policy, Audited: k.audited, Buckets: map[string]int64{}}
		r.policies[k] = p
	}
	p.count(d.Verdict)
	if d.Verdict == store.Drop {
		p.Buckets[cmp.Or(d.Bucket, "drops all")]++
	}
	if d.Audited {
		return
	}
	s := d.Subject()
	from := s.Component
	if s.Host != "" {
		from += " on " + s.Host
	}
	r.sources.count(from, d.Verdict)
	r.objects.count(s.Kind+" "+cmp.Or(s.Namespace, d.Request.Namespace)+"/"+s.Name, d.Verdict)
	r.reasons.count(d.Request.Object.Type+" "+d.Request.Object.Reason, d.Verdict)
	if d.Verdict == store.Drop && d.Request.Object.Type == corev1.EventTypeWarning {
		r.WarningsDropped++
	}
}

// decided counts and tells what became of a write.
func (r *run) decided(w *write, e *corev1.Event, o Outcome, message string) {
	r.result.Outcomes[o]++
	if !w.free {
		r.result.EtcdWrites.Before++
	}
	if r.opts.Decided == nil {
		return
	}
	d := Decision{
		Time: w.at, File: r.trace.Input.Files[w.file], Line: w.line, AuditID: w.id, Verb: w.verb.String(),
		Namespace: w.namespace, Name: w.name, Outcome: o, Message: message,
	}
	if e != nil && d.Name == "" {
		d.Name = e.Name
	}
	r.opts.Decided(d)
}

func (r *Result) finish() {
	w := &r.EtcdWrites
	w.After = w.Events + w.Counts + w.Notices
	for _, p := range r.policies {
		r.Policies = append(r.Policies, *p)
	}
	slices.SortFunc(r.Policies, func(a, b PolicyCounts) int {
		return cmp.Or(cmp.Compare(b.writes(), a.writes()), cmp.Compare(a.Policy, b.Policy))
	})
	r.Sources, r.Objects, r.Reasons = r.sources.first(), r.objects.first(), r.reasons.first()
}
