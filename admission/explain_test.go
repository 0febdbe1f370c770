package admission_test

import (
	"testing"

	"github.com/eventquota/eventquota/admission"
)

// TestAskedIsWhatAStoreIsAsked holds that the keys which are looked up are those that a Gate decides by.
func TestAskedIsWhatAStoreIsAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	request := newRequest(r.now, "a", details{reason("BackOff")})
	var q admission.Asked
	gate := *r.gate
	gate.Store, gate.Recorder = &q, nil
	if _, err := gate.Mutate(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if want := admission.Group(request.Object, request.UserInfo.Username); q.Write.Group != want || q.Limits.Spam.Key.IsZero() {
		t.Errorf("asked is about group %s by %+v, want group %s, and a spam filter", q.Write.Group, q.Limits, want)
	}
}
