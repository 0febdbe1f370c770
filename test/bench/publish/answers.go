package publish

import (
	"fmt"
	"net/http"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// answerFunctions returns the template functions for the statuses that refuse a write, and for the clients that get them.
func answerFunctions() template.FuncMap {
	return template.FuncMap{
		"refusals": func() ([]refusalRow, error) { all := admission.Refusals(); return refusalRows(all[:]) },
		"clients":  admission.Clients,
	}
}

// refusalRow is a row of the table of refusals.
type refusalRow struct {
	admission.Refusal
	// ReportedIn says where the refused occurrences are reported.
	ReportedIn string
}

// refusalRows returns the rows of the table of refusals. It returns an error for a status whose effect no field of admission.Client
// describes, because the table of clients would not show it.
func refusalRows(all []admission.Refusal) ([]refusalRow, error) {
	reportedIn := map[admission.Outcome]string{
		admission.Merged:     "the count of the stored Event",
		admission.Dropped:    "a [notice](concepts.md#notices)",
		admission.Denied:     "no Event or notice, but that metric",
		admission.Overloaded: "no Event or notice, but that metric",
	}
	var rows []refusalRow
	for _, r := range all {
		isConflict := r.Code == http.StatusConflict && r.Reason == metav1.StatusReasonAlreadyExists
		if !isConflict && r.Code != http.StatusBadRequest {
			return nil, fmt.Errorf("no column of the clients has status %d with reason %s", r.Code, r.Reason)
		}
		if reportedIn[r.Outcome] == "" {
			return nil, fmt.Errorf("it is not known where occurrences with the outcome %s are reported", r.Outcome)
		}
		rows = append(rows, refusalRow{r, reportedIn[r.Outcome]})
	}
	return rows, nil
}
