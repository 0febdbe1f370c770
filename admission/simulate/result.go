package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

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
	// Timeline says when all of it was decided.
	Timeline Timeline `json:"timeline"`

	policies                  map[policyKey]*PolicyCounts
	sources, objects, reasons top
	name                      []byte // of what is counted
}

func newResult() *Result {
	return &Result{
		Outcomes: map[Outcome]int64{}, policies: map[policyKey]*PolicyCounts{},
		sources: top{}, objects: top{}, reasons: top{},
	}
}

// decided counts what a Gate decides.
func (r *Result) decided(d admission.Decided) {
	k := policyKey{d.Policy.Name, d.Audited}
	p := r.policies[k]
	if p == nil {
		p = &PolicyCounts{Policy: k.policy, Audited: k.audited, Buckets: map[string]int64{}}
		r.policies[k] = p
	}
	p.Count(d.Verdict)
	if d.Verdict == store.Drop {
		p.Buckets[cmp.Or(d.Bucket, "drops all")]++
	}
	if d.Audited {
		return
	}
	s, o := d.Source(), d.Object()
	r.name = append(r.name[:0], s.Component...)
	if s.Host != "" {
		r.name = append(append(r.name, " on "...), s.Host...)
	}
	r.sources.count(r.name, d.Verdict)
	r.name = append(append(append(r.name[:0], o.Kind...), ' '), cmp.Or(o.Namespace, d.Request.Namespace)...)
	r.name = append(append(r.name, '/'), o.Name...)
	r.objects.count(r.name, d.Verdict)
	r.name = append(append(append(r.name[:0], d.Request.Object.Type...), ' '), d.Request.Object.Reason...)
	r.reasons.count(r.name, d.Verdict)
	if d.Verdict == store.Drop && d.Request.Object.Type == corev1.EventTypeWarning {
		r.WarningsDropped++
	}
}

func (r *Result) finish() {
	w := &r.EtcdWrites
	w.After = w.Events + w.Counts + w.Notices
	for _, p := range r.policies {
		r.Policies = append(r.Policies, *p)
	}
	slices.SortFunc(r.Policies, func(a, b PolicyCounts) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Policy, b.Policy))
	})
	r.Timeline.finish()
	r.Sources, r.Objects, r.Reasons = r.sources.first(), r.objects.first(), r.reasons.first()
}
