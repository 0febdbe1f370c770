package eventtest

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/admission"
)

// Refusal returns the outcome of a write that eventquota refused with err. It is empty for nil and for errors of others. It cannot
// distinguish a merged CREATE from one whose name is taken.
func Refusal(err error) admission.Outcome {
	reason := apierrors.ReasonForError(err)
	for _, r := range admission.Refusals() {
		if r.Reason == reason {
			return r.Outcome
		}
	}
	return ""
}
