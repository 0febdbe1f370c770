package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// render is the next status of a rule. Without a sum, because none is known, it keeps what was counted before, if
// that is of the generation in force.
func render(r *record, now time.Time) *v1alpha1.Status {
	s := r.stored.DeepCopy()
	s.ObservedGeneration = r.report.Generation
	setConditions(s, r, now)
	if r.sum == nil && goesOn(&r.stored, &r.report) {
		return s
	}
	var hour busiest.RuleCounts
	s.Total, s.LastHour, s.TopSources = nil, nil, nil
	if r.sum != nil {
		var since time.Time
		since, hour = r.sum.lastHour(now)
		s.Total = counts(r.sum.Since, r.sum.Total)
		s.LastHour, s.TopSources = counts(since, hour.Counts), sources(hour.Sources)
	}
	setErrors(s, r, &hour.Errors, now)
	return s
}

// goesOn reports whether the counts of a status are those of the generation that
// governs. A status that is about an invalid one counts the one before it.
func goesOn(before *v1alpha1.Status, r *watch.Report) bool {
	if before.Total == nil || r.Governing == 0 {
		return false
	}
	if meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionAccepted) {
		return before.ObservedGeneration == r.Governing
	}
	return before.ObservedGeneration > r.Governing
}

func counts(since time.Time, c busiest.Counts) *v1alpha1.Counts {
	at := metav1.NewTime(since.Truncate(time.Second))
	return &v1alpha1.Counts{Since: &at, Matched: c.Matched(), Admitted: c.Admitted, Merged: c.Merged, Dropped: c.Dropped}
}

func sources(all []busiest.SourceCounts) []v1alpha1.SourceCounts {
	var list []v1alpha1.SourceCounts
	for _, o := range all {
		list = append(list, v1alpha1.SourceCounts{
			Source: v1alpha1.Source(o.Source), InvolvedObject: v1alpha1.Object(o.Object), Merged: o.Merged, Dropped: o.Dropped,
		})
	}
	return list
}

// same reports whether b says nothing new. That the last hour has moved on is not worth a write.
func same(a, b *v1alpha1.Status) bool {
	x, y := *a, *b
	if x.LastHour != nil && y.LastHour != nil {
		moved := *x.LastHour
		moved.Since = y.LastHour.Since
		x.LastHour = &moved
	}
	return equality.Semantic.DeepEqual(x, y)
}

// urgent reports whether b differs in more than in what is counted.
func urgent(a, b *v1alpha1.Status) bool {
	lasting := func(s *v1alpha1.Status) []metav1.Condition {
		return slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionErrors })
	}
	return a.ObservedGeneration != b.ObservedGeneration || !equality.Semantic.DeepEqual(lasting(a), lasting(b))
}
