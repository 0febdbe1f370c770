package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
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
	// Busiest ranks what had the most writes, whatever policy decided.
	Busiest map[busiest.By]busiest.Ranking `json:"busiest"`
	// Timeline says when all of it was decided.
	Timeline Timeline `json:"timeline"`

	policies map[policyKey]*PolicyCounts
	counter  *busiest.Counter
}

// followed is how many of each kind are followed: some 10 MB at the most.
const followed = 8192

func newResult() *Result {
	return &Result{
		Outcomes: map[Outcome]int64{}, policies: map[policyKey]*PolicyCounts{},
		counter: busiest.NewCounter("simulated", time.Time{}, followed),
	}
}

// Reviewed implements admission.Recorder.
func (*Result) Reviewed(string, admission.Outcome, bool, time.Duration) {}

// Decided implements admission.Recorder.
func (r *Result) Decided(d admission.Decided) {
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
	r.counter.Decided(&d)
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
	for _, p := range r.policies {
		r.Policies = append(r.Policies, *p)
	}
	slices.SortFunc(r.Policies, func(a, b PolicyCounts) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Policy, b.Policy))
	})
	r.Timeline.finish()
	r.Busiest = busiest.Add([]busiest.Snapshot{r.counter.Snapshot(time.Time{})}).By
}
