package simulate

import (
	"strings"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patched is what a patch makes of an Event: a strategic merge patch, which is
// what recorders send, or a merge patch, which does the same to Events but for
// lists in their metadata.
func patched(old *corev1.Event, patch string, newAPI bool) (*corev1.Event, error) {
	e := old.DeepCopy()
	special := strings.Contains(patch, "null") || strings.Contains(patch, `"$`) || strings.Contains(patch, `"finalizers"`) ||
		strings.Contains(patch, `"ownerReferences"`)
	if !special && !newAPI {
		return e, decode([]byte(patch), e)
	}
	if !special { // all that may change in the newer API, where both name it alike
		return e, decode([]byte(patch), &struct {
			Metadata *metav1.ObjectMeta   `json:"metadata"`
			Series   **corev1.EventSeries `json:"series"`
		}{&e.ObjectMeta, &e.Series})
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(patch), corev1.Event{})
	if err != nil {
		return nil, err
	}
	e = &corev1.Event{}
	return e, decode(after, e)
}
