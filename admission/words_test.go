package admission_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// words are all that an answer says and, of a merge, into which Event.
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
	said := result.Message
	if a.Outcome == admission.Merged {
		rest, ok := strings.CutPrefix(said, "merged into a stored Event, ")
		if !ok {
			r.t.Errorf("merge says %q", said)
		}
		said = "merged into " + r.store.into + ", " + rest
	}
	return fmt.Sprintf("%s %d %s: %s", a.Outcome, result.Code, result.Reason, said)
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

// pending says in words what is to be written to one Event.
func pending(p store.PendingWrite) string {
	if p.Notice != nil {
		return fmt.Sprintf("notice %s about %v: %d, %v of %v", p.Notice.Bucket, p.Notice.About, p.Total, p.Notice.Reasons, p.Notice.Sources)
	}
	return fmt.Sprintf("write %s: %d (%d merged) %q", p.Name, p.Total, p.Merged(), p.Text)
}

// claim is all that is to be written.
func (r *rig) claim() []store.PendingWrite {
	r.t.Helper()
	all, err := r.memory.Claim(r.t.Context(), r.now, math.MaxInt64, math.MaxInt, func(string, store.Key) bool { return false })
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// pending is all that is to be written, in order, each in words.
func (r *rig) pending() []string {
	r.t.Helper()
	var said []string
	for _, p := range r.claim() {
		said = append(said, pending(p))
	}
	slices.Sort(said)
	return said
}
