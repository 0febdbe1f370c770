package settler

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// missingFromSink is the part of a notice's message with the number of its Events that are not in the sink; empty for none.
func missingFromSink(n *store.Notice) string {
	if n.NotInSink == 0 {
		return ""
	}
	return fmt.Sprintf("; of these %s are not in the sink", groupThousands(n.NotInSink))
}

// reportsMissing reports whether a stored notice already says that at least n.NotInSink Events are missing.
func reportsMissing(e *corev1.Event, n *store.Notice) bool {
	var stored struct {
		NotInSink int64 `json:"notInSink"`
	}
	_ = json.Unmarshal([]byte(e.Annotations[AnnotationDropped]), &stored) // an unreadable annotation counts as 0
	return stored.NotInSink >= n.NotInSink
}
