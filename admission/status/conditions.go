package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// The reasons of the condition Accepted.
const (
	ReasonValid   = "Valid"
	ReasonInvalid = "Invalid"
)

// The reasons of the condition Ready. The first three are those of True: the
// observed generation is what replicas go by, also where it says to do nothing.
const (
	ReasonInForce            = "InForce"
	ReasonAudited            = "Audited"
	ReasonOff                = "Off"
	ReasonPreviousGeneration = "PreviousGenerationGoverns"
	ReasonNeverValid         = "NeverValid"
)

// messageBytes is the longest message that a condition may have.
const messageBytes = 32768

// setConditions says in s what became of a generation. Conditions that have not
// changed keep the time of their last transition.
func setConditions(s *v1alpha1.PolicyStatus, r *watch.Report, now time.Time) {
	for _, c := range []metav1.Condition{accepted(r), ready(r)} {
		c.ObservedGeneration = r.Generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, c)
	}
}

func accepted(r *watch.Report) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: ReasonValid, Message: "the policy is valid",
	}
	if r.Err != nil {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonInvalid
		c.Message = admission.Truncate(r.Err.Error(), messageBytes)
	}
	return c
}

func ready(r *watch.Report) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	switch {
	case r.Governing == 0:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNeverValid
		c.Message = "no valid generation is known, the policy governs nothing"
	case r.Governing != r.Generation:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonPreviousGeneration
		c.Message = fmt.Sprintf("generation %d, the last that is known to be valid, stays in force", r.Governing)
	case r.Mode == policy.Off:
		c.Reason, c.Message = ReasonOff, "mode is Off, the policy governs nothing"
	case r.Mode == policy.Audit:
		c.Reason, c.Message = ReasonAudited, "mode is Audit, what the policy would do is counted and Events are let pass"
	default:
		c.Reason, c.Message = ReasonInForce, "the policy is in force"
	}
	return c
}
