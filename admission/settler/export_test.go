package settler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// Patch is the merge patch for a pending write.
func Patch(p *store.PendingWrite) map[string]any { return patch(p, "") }

// ReportsMissing reports whether a stored notice says that as much is missing as another is to say.
func ReportsMissing(e *corev1.Event, n *store.Notice) bool { return reportsMissing(e, n) }
