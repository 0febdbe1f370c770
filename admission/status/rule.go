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

// ruleState is a Writer's state of one rule.
type ruleState struct {
	report watch.Report
	// shadowed names the rules that take precedence, so that this one can never decide.
	shadowed []string
	// stored is the status in the API server.
	stored v1alpha1.Status
	// counts are those of the generation in force; nil while they are not known.
	counts *ruleCounts

	lastWrite  time.Time // when the status was last written; if another replica wrote it, when this one first saw it
	notBefore  time.Time // when to try again after a failure
	next       *v1alpha1.Status
	urgent     bool      // next differs from stored in more than counts
	upToDate   bool      // next equals stored
	validUntil time.Time // until when next and upToDate hold, unless something changes
}

// refresh updates the records from reports and stored statuses.
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

// setReport sets the report, and reports whether the generation in force or the mode has changed.
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

// refreshShadowed updates shadowed for the rules of changed namespaces, and for all rules if those of the cluster changed.
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

// equalReports reports whether two reports of a rule are equal.
func equalReports(a, b *watch.Report) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return a.Object != nil && a.Object.GetResourceVersion() == b.Object.GetResourceVersion() && a.Generation == b.Generation &&
		a.ActiveGeneration == b.ActiveGeneration && a.Mode == b.Mode && a.Pending == b.Pending && text(a.Excluded) == text(b.Excluded) && text(a.Err) == text(b.Err)
}

// decodeStored decodes the status in the API server. A status that cannot be decoded counts as empty.
func (r *ruleState) decodeStored() {
	var object struct {
		Status v1alpha1.Status `json:"status"`
	}
	r.stored = v1alpha1.Status{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(r.report.Object.Object, &object) == nil {
		r.stored = object.Status
	}
}

// render makes the next status. While counts are not known, it keeps the stored ones if they are of the generation in force.
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

// render writes the counts to s. Stored sources stay until there are new ones.
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

// continuesCounts reports whether the counts of a status are those of the generation in force. The status of an invalid generation
// counts the one before it.
func continuesCounts(before *v1alpha1.Status, r *watch.Report) bool {
	if before.Total == nil || r.ActiveGeneration == 0 {
		return false
	}
	if meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionAccepted) {
		return before.ObservedGeneration == r.ActiveGeneration
	}
	return before.ObservedGeneration > r.ActiveGeneration
}
