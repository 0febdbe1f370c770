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

// ruleState is what a Writer knows of one rule.
type ruleState struct {
	report watch.Report
	// shadowed is what stands before it, so that it can never decide.
	shadowed []string
	// stored is the status that the API server has.
	stored v1alpha1.Status
	// counts is what was counted of the generation that governs; nil when that is not known.
	counts *ruleCounts

	lastWrite  time.Time // when the status was written last; where another replica did, when this one saw it first
	notBefore  time.Time // when to try again after a failure
	next       *v1alpha1.Status
	urgent     bool      // next says more than counts do
	upToDate   bool      // next is what is stored
	validUntil time.Time // until when next and idle hold, unless something is learnt
}

// refresh brings the records up to date with reports and stored statuses.
func (w *Writer) refresh(now time.Time) {
	reports, changed := w.rules.Reports(), map[string]bool{} // namespaces
	exists := make(map[types.UID]bool, len(reports))
	for _, report := range reports {
		exists[report.UID] = true
		r := w.records[report.UID]
		if r == nil {
			r = &ruleState{}
			w.records[report.UID] = r
		}
		if r.setReport(report, now) {
			changed[report.Namespace] = true
		}
		if r.counts == nil && report.ActiveGeneration > 0 && !w.firstCollection.IsZero() {
			r.counts, r.validUntil = newRuleCounts(r, now), time.Time{}
		}
	}
	for uid, r := range w.records {
		if !exists[uid] {
			w.retries.Forget(uid)
			delete(w.records, uid)
			changed[r.report.Namespace] = true
		}
	}
	w.refreshShadowed(changed)
	w.pruneTurns()
}

// setReport takes in a report, and says whether another generation or mode of the rule is in force.
func (r *ruleState) setReport(report watch.Report, now time.Time) bool {
	before := r.report
	r.report = report
	if !equalReports(&before, &report) {
		r.validUntil = time.Time{}
	}
	if before.Object == nil || report.Object.GetResourceVersion() != before.Object.GetResourceVersion() {
		r.decodeStored()
	}
	if before.Object == nil && r.stored.ObservedGeneration > 0 {
		r.lastWrite = now
	}
	if report.ActiveGeneration != before.ActiveGeneration {
		r.counts = nil
	}
	return report.ActiveGeneration != before.ActiveGeneration || report.Mode != before.Mode
}

// refreshShadowed learns what stands before the rules of namespaces that have changed, and of all of them after a
// change of the cluster's.
func (w *Writer) refreshShadowed(changed map[string]bool) {
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
		r.validUntil = time.Time{}
	}
}

// equalReports reports whether two reports of a rule say the same.
func equalReports(a, b *watch.Report) bool {
	says := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return a.Object != nil && a.Object.GetResourceVersion() == b.Object.GetResourceVersion() && a.Generation == b.Generation &&
		a.ActiveGeneration == b.ActiveGeneration && a.Mode == b.Mode && a.Pending == b.Pending && says(a.Excluded) == says(b.Excluded) && says(a.Err) == says(b.Err)
}

// decodeStored takes in the status that the API server has. One that cannot be decoded is none.
func (r *ruleState) decodeStored() {
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
func (r *ruleState) render(now time.Time) {
	s := r.stored.DeepCopy()
	r.next = s
	s.ObservedGeneration = r.report.Generation
	r.setConditions(s, now)
	if !continuesCounts(&r.stored, &r.report) {
		s.Total, s.TopSources = nil, nil
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionErrors)
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionOverflow)
	}
	if r.counts != nil {
		r.counts.render(s)
		if r.report.Namespace != "" {
			for i := range s.TopSources {
				o := &s.TopSources[i]
				o.Source, o.InvolvedObject = admission.Truncate(o.Source, maxOwnSourceBytes), admission.Truncate(o.InvolvedObject, maxOwnSourceBytes)
			}
		}
		r.setOrRemove(s, v1alpha1.ConditionErrors, "EvaluationFailed", r.counts.failure, r.report.ActiveGeneration, now)
		if now.Sub(r.counts.lastOverflow) >= overflowTTL {
			r.counts.overflow = ""
		}
		r.setOrRemove(s, v1alpha1.ConditionOverflow, reasonTooManyBuckets, r.counts.overflow, r.report.ActiveGeneration, now)
	}
	r.urgent = s.ObservedGeneration != r.stored.ObservedGeneration || !equality.Semantic.DeepEqual(s.Conditions, r.stored.Conditions)
}

// render says in s what was counted. Sources stay until there are others.
func (c *ruleCounts) render(s *v1alpha1.Status) {
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

// continuesCounts reports whether the counts of a status are those of the generation that governs. A status that is about an
// invalid one counts the one before it.
func continuesCounts(before *v1alpha1.Status, r *watch.Report) bool {
	if before.Total == nil || r.ActiveGeneration == 0 {
		return false
	}
	if meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionAccepted) {
		return before.ObservedGeneration == r.ActiveGeneration
	}
	return before.ObservedGeneration > r.ActiveGeneration
}
