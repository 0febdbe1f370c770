package publish

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// TestTablesOfAnswersCoverEachRefusal checks that the tables show each refusal, and that one which they cannot show is an error.
func TestTablesOfAnswersCoverEachRefusal(t *testing.T) {
	all := admission.Refusals()
	rows, err := refusalRows(all[:])
	if err != nil || len(rows) != len(all) {
		t.Errorf("got %d rows and error %v, want %d rows", len(rows), err, len(all))
	}
	for says, r := range map[string]admission.Refusal{
		"a status without a column":   {Outcome: admission.Dropped, Code: http.StatusForbidden, Reason: admission.ReasonDropped},
		"409 that is not a merge":     {Outcome: admission.Dropped, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict},
		"an outcome without a report": {Outcome: admission.Admitted, Code: http.StatusBadRequest, Reason: admission.ReasonDropped},
	} {
		if _, err := refusalRows([]admission.Refusal{r}); err == nil {
			t.Errorf("%s: got no error", says)
		}
	}
}
