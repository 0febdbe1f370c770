package v1alpha1

// BrakeName is the name of the emergency brake: the ClusterEventPolicy, or in a namespace the EventPolicy, that refuses all Events
// except Warnings. It is on in mode Enforce and off in mode Disabled.
const BrakeName = "emergency-brake"

// BrakeFieldManager owns the mode of a brake that `eventquota brake` or the webhook has set. A server-side apply of the manifests
// conflicts with it while the brake is on.
const BrakeFieldManager = "eventquota-brake"

// The annotations of an emergency brake that is on. All are optional, and `eventquota brake` writes them.
const (
	// AnnotationBrakeSince is the time since when the brake is on, as RFC 3339 in UTC.
	AnnotationBrakeSince = GroupName + "/brake-since"
	// AnnotationBrakeBy is the name of the user who set the brake last.
	AnnotationBrakeBy = GroupName + "/brake-by"
	// AnnotationBrakeReason says why the brake is on.
	AnnotationBrakeReason = GroupName + "/brake-reason"
	// AnnotationBrakeUntil is the time at which the webhook sets mode Disabled, as RFC 3339 in UTC. Without it the brake stays on.
	AnnotationBrakeUntil = GroupName + "/brake-until"
)

// BrakeAnnotations returns the annotations of an emergency brake.
func BrakeAnnotations() []string {
	return []string{AnnotationBrakeSince, AnnotationBrakeBy, AnnotationBrakeReason, AnnotationBrakeUntil}
}
