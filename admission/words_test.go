package admission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// words are all that an answer says.
func (r *rig) words(a admission.Answer) string {
	r.t.Helper()
	if a.Response.UID != requestUID {
		r.t.Errorf("answer to request %q, want %q", a.Response.UID, requestUID)
	}
	if a.Response.Allowed {
		words := []string{string(a.Outcome)}
		for _, e := range edits(r.t, a) {
			words = append(words, e.Path+" = "+e.Value)
		}
		return strings.Join(words, ", ")
	}
	result := a.Response.Result
	if result.Details != nil {
		r.t.Errorf("denial has details %v, which may set a Retry-After header", result.Details)
	}
	return fmt.Sprintf("%s %d %s: %s", a.Outcome, result.Code, result.Reason, result.Message)
}

type edit struct{ Op, Path, Value string }

// edits are the operations of an answer's patch.
func edits(t *testing.T, a admission.Answer) []edit {
	t.Helper()
	if a.Response.Patch == nil {
		return nil
	}
	var list []edit
	if err := json.Unmarshal(a.Response.Patch, &list); err != nil {
		t.Fatalf("patch %s: %v", a.Response.Patch, err)
	}
	return list
}

// owed says in words what is owed to one Event.
func owed(d store.Debt) string {
	if d.Notice != nil {
		return fmt.Sprintf("notice owed %d: %v", d.Total, d.Notice.Reasons)
	}
	return fmt.Sprintf("%s owed %d (%d merged) %q", d.Name, d.Total, d.Merged, d.Text)
}
