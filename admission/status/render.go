package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// render is the status of a policy whose status was before. Without a sum,
// when that is not known, counts are left as they were, if they are those of
// the generation that governs.
func render(r *watch.Report, counted *sum, before *v1alpha1.PolicyStatus, now time.Time) *v1alpha1.PolicyStatus {
	s := before.DeepCopy()
	s.ObservedGeneration = r.Generation
	setConditions(s, r, now)
	switch {
	case r.Governing == 0, counted == nil && !goesOn(before, r):
		s.Total, s.LastHour, s.TopOffenders = nil, nil, nil
	case counted != nil:
		s.Total = counts(counted.Since, counted.Total)
		since, hour, refused := counted.lastHour(now)
		s.LastHour, s.TopOffenders = counts(since, hour), offenders(refused)
	}
	return s
}

// goesOn tells whether the counts of a status are those of the generation that
// governs. A status that is about an invalid one counts the one before it.
func goesOn(before *v1alpha1.PolicyStatus, r *watch.Report) bool {
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

func offenders(all []busiest.Offender) []v1alpha1.Offender {
	var list []v1alpha1.Offender
	for _, o := range all {
		s := o.Subject
		list = append(list, v1alpha1.Offender{
			Source: v1alpha1.OffenderSource{Component: s.Component, Host: s.Host},
			InvolvedObject: v1alpha1.OffenderObject{
				APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID,
			},
			Merged: o.Merged, Dropped: o.Dropped,
		})
	}
	return list
}

// same tells whether b says nothing that a does not. That the last hour has
// moved on is not worth a write.
func same(a, b *v1alpha1.PolicyStatus) bool {
	x, y := *a, *b
	x.LastHour, y.LastHour = timeless(x.LastHour), timeless(y.LastHour)
	return equality.Semantic.DeepEqual(x, y)
}

func timeless(c *v1alpha1.Counts) *v1alpha1.Counts {
	if c == nil {
		return nil
	}
	without := *c
	without.Since = nil
	return &without
}

// urgent tells whether b says something else of the policy than a does, and not
// only of what it did.
func urgent(a, b *v1alpha1.PolicyStatus) bool {
	return a.ObservedGeneration != b.ObservedGeneration || !equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}
