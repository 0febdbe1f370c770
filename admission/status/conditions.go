package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

const (
	// reasonShadowed is the reason of two conditions; users see it.
	reasonShadowed = "Shadowed"
	// reasonLimitExceeded is the reason of Ready=False if a rule is beyond the bounds of its namespace, or if the conditions of the
	// cluster's rules would cost too much together.
	reasonLimitExceeded = "LimitExceeded"
	// reasonTooManyBuckets is the reason of Overflow.
	reasonTooManyBuckets = "TooManyBuckets"
	// maxMessageBytes bounds the message of a condition. For a rule of a namespace, maxOwnMessageBytes bounds it, and
	// maxOwnSourceBytes bounds each text of its top sources: replicas discard a status above watch.MaxStatusSize.
	maxMessageBytes, maxOwnMessageBytes, maxOwnSourceBytes = 32768, 1024, 256
)

// setConditions sets the conditions of s. A condition whose status does not change keeps its transition time.
func (r *ruleState) setConditions(s *v1alpha1.Status, now time.Time) {
	r.setCondition(s, acceptedCondition(&r.report), r.report.Generation, now)
	r.setCondition(s, readyCondition(&r.report, len(r.shadowed) > 0), r.report.Generation, now)
	r.setOrRemove(s, v1alpha1.ConditionShadowed, reasonShadowed, strings.Join(r.shadowed, "; "), r.report.ActiveGeneration, now)
}

// setOrRemove sets a condition to True, or removes it if message is empty.
func (r *ruleState) setOrRemove(s *v1alpha1.Status, condition, reason, message string, generation int64, now time.Time) {
	if message == "" {
		meta.RemoveStatusCondition(&s.Conditions, condition)
		return
	}
	r.setCondition(s, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: message}, generation, now)
}

func (r *ruleState) setCondition(s *v1alpha1.Status, c metav1.Condition, generation int64, now time.Time) {
	limit := maxMessageBytes
	if r.report.Namespace != "" {
		limit = maxOwnMessageBytes
	}
	c.Message = admission.Truncate(text.SanitizeLines(c.Message), limit)
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(&s.Conditions, c)
}

func acceptedCondition(r *watch.Report) metav1.Condition {
	if r.Err != nil {
		return metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "Invalid", Message: r.Err.Error()}
	}
	return metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", Message: "it is valid"}
}

// readyCondition is True if replicas apply the observed generation, even if its mode is Disabled.
func readyCondition(r *watch.Report, shadowed bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	switch {
	case r.Excluded != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonLimitExceeded, r.Excluded.Error()
	case r.ActiveGeneration == 0:
		c.Status, c.Reason = metav1.ConditionFalse, "NeverValid"
		c.Message = "no valid generation is known, so it applies to no Event: see the condition Accepted"
	case r.ActiveGeneration != r.Generation:
		c.Status, c.Reason = metav1.ConditionFalse, "PreviousGenerationInForce"
		c.Message = fmt.Sprintf("generation %d, the last known to be valid, stays in force", r.ActiveGeneration)
	case r.Mode == policy.Disabled:
		c.Reason, c.Message = "Disabled", "mode is Disabled, so it applies to no Event"
	case shadowed:
		c.Reason, c.Message = reasonShadowed, "it is in force, but others take precedence: see the condition Shadowed"
	case r.Mode == policy.Audit:
		c.Reason, c.Message = "Audited", "mode is Audit: its decisions are counted but not applied"
	default:
		c.Reason, c.Message = "InForce", "it is in force"
	}
	return c
}
