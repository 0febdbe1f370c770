package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// The reasons of conditions. The first four of Ready are those of True: the observed generation is what replicas go
// by, also where it says to do nothing.
const (
	// Of Accepted.
	reasonValid   = "Valid"
	reasonInvalid = "Invalid"
	// Of Ready.
	reasonInForce            = "InForce"
	reasonAudited            = "Audited"
	reasonDisabled           = "Disabled"
	reasonShadowed           = "Shadowed" // of the condition Shadowed too
	reasonPreviousGeneration = "PreviousGenerationInForce"
	reasonNeverValid         = "NeverValid"
	// Of ConditionErrors.
	reasonFailed = "EvaluationFailed"
)

// messageBytes is the longest message that a condition may have.
const messageBytes = 32768

// setConditions says in s what became of a generation. Conditions that have not
// changed keep the time of their last transition.
func setConditions(s *v1alpha1.Status, r *record, now time.Time) {
	set(s, accepted(&r.report), r.report.Generation, now)
	set(s, ready(&r.report, len(r.shadowed) > 0), r.report.Generation, now)
	setWhile(s, v1alpha1.ConditionShadowed, reasonShadowed, strings.Join(r.shadowed, "; "), r.report.Governing, now)
}

// setErrors says in s how many conditions could not be evaluated in the last hour.
func setErrors(s *v1alpha1.Status, r *record, failed *busiest.Errors, now time.Time) {
	message := ""
	if failed.Count > 0 {
		message = fmt.Sprintf("could not be evaluated for %d Events in the last hour, such as: %s", failed.Count, failed.Example)
	}
	setWhile(s, v1alpha1.ConditionErrors, reasonFailed, message, r.report.Governing, now)
}

// setWhile sets a condition that is true, or takes it away where there is no message.
func setWhile(s *v1alpha1.Status, is, reason, message string, generation int64, now time.Time) {
	if message == "" {
		meta.RemoveStatusCondition(&s.Conditions, is)
		return
	}
	set(s, metav1.Condition{Type: is, Status: metav1.ConditionTrue, Reason: reason, Message: message}, generation, now)
}

func set(s *v1alpha1.Status, c metav1.Condition, generation int64, now time.Time) {
	c.Message = admission.Truncate(text.Lines(c.Message), messageBytes)
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(&s.Conditions, c)
}

func accepted(r *watch.Report) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: reasonValid, Message: "it is valid",
	}
	if r.Err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonInvalid, r.Err.Error()
	}
	return c
}

func ready(r *watch.Report, shadowed bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	switch {
	case r.Governing == 0:
		c.Status, c.Reason = metav1.ConditionFalse, reasonNeverValid
		c.Message = "no valid generation is known, it applies to no Event"
	case r.Governing != r.Generation:
		c.Status, c.Reason = metav1.ConditionFalse, reasonPreviousGeneration
		c.Message = fmt.Sprintf("generation %d, the last that is known to be valid, stays in force", r.Governing)
	case r.Mode == policy.Disabled:
		c.Reason, c.Message = reasonDisabled, "mode is Disabled, it applies to no Event"
	case shadowed:
		c.Reason, c.Message = reasonShadowed, "it is in force, but others stand before it: see the condition Shadowed"
	case r.Mode == policy.Audit:
		c.Reason, c.Message = reasonAudited, "mode is Audit, what it would do is counted and Events are let pass"
	default:
		c.Reason, c.Message = reasonInForce, "it is in force"
	}
	return c
}
