package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// render is the next status of a policy. Without a sum, because none is known, it keeps the counts of before, if
// they are those of the generation that governs.
func render(r *watch.Report, counted *sum, before *v1alpha1.Status, now time.Time) *v1alpha1.Status {
	s := before.DeepCopy()
	s.ObservedGeneration = r.Generation
	setConditions(s, r, now)
	switch {
	case r.Governing == 0, counted == nil && !goesOn(before, r):
		s.Total, s.LastHour, s.TopSources = nil, nil, nil
	case counted != nil:
		s.Total = counts(counted.Since, counted.Total)
		since, hour, refused := counted.lastHour(now)
		s.LastHour, s.TopSources = counts(since, hour), sources(refused)
	}
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
		s := &o.Subject
		list = append(list, v1alpha1.SourceCounts{
			Source: v1alpha1.Source{Component: s.Component, Host: s.Host},
			InvolvedObject: v1alpha1.Object{
				APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID,
			},
			Merged: o.Merged, Dropped: o.Dropped,
		})
	}
	return list
}

// same reports whether b says nothing new. That the last hour has moved on is not worth a write.
func same(a, b *v1alpha1.Status) bool {
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

// urgent reports whether b differs in more than counts.
func urgent(a, b *v1alpha1.Status) bool {
	return a.ObservedGeneration != b.ObservedGeneration || !equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}

// The reasons of the condition Accepted.
const (
	reasonValid   = "Valid"
	reasonInvalid = "Invalid"
)

// The reasons of the condition Ready. The first three are those of True: the
// observed generation is what replicas go by, also where it says to do nothing.
const (
	reasonInForce            = "InForce"
	reasonAudited            = "Audited"
	reasonOff                = "Off"
	reasonPreviousGeneration = "PreviousGenerationGoverns"
	reasonNeverValid         = "NeverValid"
)

// messageBytes is the longest message that a condition may have.
const messageBytes = 32768

// setConditions says in s what became of a generation. Conditions that have not
// changed keep the time of their last transition.
func setConditions(s *v1alpha1.Status, r *watch.Report, now time.Time) {
	for _, c := range []metav1.Condition{accepted(r), ready(r)} {
		c.ObservedGeneration = r.Generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, c)
	}
}

func accepted(r *watch.Report) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: reasonValid, Message: "the policy is valid",
	}
	if r.Err != nil {
		c.Status, c.Reason = metav1.ConditionFalse, reasonInvalid
		c.Message = admission.Truncate(r.Err.Error(), messageBytes)
	}
	return c
}

func ready(r *watch.Report) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	switch {
	case r.Governing == 0:
		c.Status, c.Reason = metav1.ConditionFalse, reasonNeverValid
		c.Message = "no valid generation is known, the policy governs nothing"
	case r.Governing != r.Generation:
		c.Status, c.Reason = metav1.ConditionFalse, reasonPreviousGeneration
		c.Message = fmt.Sprintf("generation %d, the last that is known to be valid, stays in force", r.Governing)
	case r.Mode == policy.Off:
		c.Reason, c.Message = reasonOff, "mode is Off, the policy governs nothing"
	case r.Mode == policy.Audit:
		c.Reason, c.Message = reasonAudited, "mode is Audit, what the policy would do is counted and Events are let pass"
	default:
		c.Reason, c.Message = reasonInForce, "the policy is in force"
	}
	return c
}
