package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// record is what a Writer knows of one rule.
type record struct {
	report watch.Report
	// shadowed is what stands before it, so that it can never decide.
	shadowed []string
	// stored is the status that the API server has.
	stored v1alpha1.Status
	// sum is what was counted of the generation that governs; nil when that is not known.
	sum *sum

	wrote     time.Time // when the status was written last; where another replica did, when this one saw it first
	notBefore time.Time // when to try again after a failure
	next      *v1alpha1.Status
	urgent    bool      // next says more than counts do
	idle      bool      // next is what is stored
	rendered  time.Time // until when next and idle hold, unless something is learnt
}

// learn brings the records up to date with reports and stored statuses.
func (w *Writer) learn(now time.Time) {
	reports, changed := w.rules.Reports(), map[string]bool{} // namespaces
	exists := make(map[types.UID]bool, len(reports))
	for _, report := range reports {
		exists[report.UID] = true
		r := w.records[report.UID]
		if r == nil {
			r = &record{}
			w.records[report.UID] = r
		}
		if r.learn(report, now) {
			changed[report.Namespace] = true
		}
		if r.sum == nil && report.Governing > 0 && !w.began.IsZero() {
			r.sum, r.rendered = newSum(r, now), time.Time{}
		}
	}
	for uid, r := range w.records {
		if !exists[uid] {
			w.retries.Forget(uid)
			delete(w.records, uid)
			changed[r.report.Namespace] = true
		}
	}
	w.learnShadows(changed)
	w.forgetTurns()
}

// learn takes in a report, and says whether another generation or mode of the rule is in force.
func (r *record) learn(report watch.Report, now time.Time) bool {
	before := r.report
	r.report = report
	if !same(&before, &report) {
		r.rendered = time.Time{}
	}
	if before.Object == nil || report.Object.GetResourceVersion() != before.Object.GetResourceVersion() {
		r.read()
	}
	if before.Object == nil && r.stored.ObservedGeneration > 0 {
		r.wrote = now
	}
	if report.Governing != before.Governing {
		r.sum = nil
	}
	return report.Governing != before.Governing || report.Mode != before.Mode
}

// learnShadows learns what stands before the rules of namespaces that have changed, and of all of them after a
// change of the cluster's.
func (w *Writer) learnShadows(changed map[string]bool) {
	if len(changed) == 0 {
		return
	}
	found := map[string]map[string][]string{}
	for _, r := range w.records {
		namespace := r.report.Namespace
		if !changed[namespace] && !changed[""] {
			continue
		}
		if found[namespace] == nil {
			found[namespace] = w.rules.Shadowed(namespace)
		}
		r.shadowed = found[namespace][r.report.String()]
		r.rendered = time.Time{}
	}
}

// same reports whether two reports of a rule say the same.
func same(a, b *watch.Report) bool {
	says := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return a.Object != nil && a.Object.GetResourceVersion() == b.Object.GetResourceVersion() && a.Generation == b.Generation &&
		a.Governing == b.Governing && a.Mode == b.Mode && a.Pending == b.Pending && says(a.Beyond) == says(b.Beyond) && says(a.Err) == says(b.Err)
}

// read takes in the status that the API server has. One that cannot be decoded is none.
func (r *record) read() {
	var p struct {
		Status v1alpha1.Status `json:"status"`
	}
	r.stored = v1alpha1.Status{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(r.report.Object.Object, &p) == nil {
		r.stored = p.Status
	}
}

// render makes the next status. Without a sum, because none is known, it keeps what was counted before, if that is of
// the generation in force.
func (r *record) render(now time.Time) {
	s := r.stored.DeepCopy()
	r.next = s
	s.ObservedGeneration = r.report.Generation
	r.setConditions(s, now)
	if !goesOn(&r.stored, &r.report) {
		s.Total, s.TopSources = nil, nil
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionErrors)
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionOverflow)
	}
	if r.sum != nil {
		r.sum.render(s)
		if r.report.Namespace != "" {
			for i := range s.TopSources {
				o := &s.TopSources[i]
				o.Source, o.InvolvedObject = admission.Truncate(o.Source, ownSourceBytes), admission.Truncate(o.InvolvedObject, ownSourceBytes)
			}
		}
		r.setWhile(s, v1alpha1.ConditionErrors, "EvaluationFailed", r.sum.failure, r.report.Governing, now)
		if now.Sub(r.sum.overflown) >= overflowFor {
			r.sum.overflow = ""
		}
		r.setWhile(s, v1alpha1.ConditionOverflow, "NoPlace", r.sum.overflow, r.report.Governing, now)
	}
	r.urgent = s.ObservedGeneration != r.stored.ObservedGeneration || !equality.Semantic.DeepEqual(s.Conditions, r.stored.Conditions)
}

// render says in s what was counted. Sources stay until there are others.
func (c *sum) render(s *v1alpha1.Status) {
	since, t := metav1.NewTime(c.since.Truncate(time.Second)), c.total
	s.Total = &v1alpha1.Counts{Since: &since, Matched: t.Matched(), Admitted: t.Admitted, Merged: t.Merged, Dropped: t.Dropped}
	if len(c.sources) > 0 {
		s.TopSources = nil
	}
	for _, o := range c.sources[:min(maxSources, len(c.sources))] {
		s.TopSources = append(s.TopSources, v1alpha1.SourceCounts{
			Source: o.Source, InvolvedObject: o.Object, Merged: o.Merged, Dropped: o.Dropped,
		})
	}
}

// goesOn reports whether the counts of a status are those of the generation that governs. A status that is about an
// invalid one counts the one before it.
func goesOn(before *v1alpha1.Status, r *watch.Report) bool {
	if before.Total == nil || r.Governing == 0 {
		return false
	}
	if meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionAccepted) {
		return before.ObservedGeneration == r.Governing
	}
	return before.ObservedGeneration > r.Governing
}
