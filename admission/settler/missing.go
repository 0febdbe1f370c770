package settler

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// missingFromSink says in the message of a notice how many of its Events are not in the sink; empty for none.
func missingFromSink(n *store.Notice) string {
	if n.NotInSink == 0 {
		return ""
	}
	return fmt.Sprintf("; of these %s are not in the sink", groupThousands(n.NotInSink))
}

// reportsMissing reports whether a stored notice says that as much is missing as another is to say.
func reportsMissing(e *corev1.Event, n *store.Notice) bool {
	var said struct {
		NotInSink int64 `json:"notInSink"`
	}
	_ = json.Unmarshal([]byte(e.Annotations[AnnotationDropped]), &said) // else it says nothing
	return said.NotInSink >= n.NotInSink
}
