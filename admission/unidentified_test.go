package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// longerThanReview is more than is read of a review.
var longerThanReview = strings.Repeat("x", admission.MaxReviewBytes)

// postLongReview sends a review whose head has these members, as the API server writes them, and returns what is answered.
func postLongReview(t *testing.T, h http.Handler, kind, head string) *admissionv1.AdmissionResponse {
	t.Helper()
	body := fmt.Sprintf(`{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": %q,`+
		`"kind": {"group": "", "version": "v1", "kind": %q}, %s, "object": {"metadata": {"name": "a"}}, "oldObject": null}}`, requestUID, kind, head)
	a := reviewResponse(t, post(t, h, []byte(body), longTimeout))
	if a.UID != requestUID {
		t.Errorf("answer to %q, want one to %q", a.UID, requestUID)
	}
	return a
}

// TestUnidentifiedReviewsAreRefused: the name of an Event, which its writer chooses, comes before the namespace and the user.
// Nothing that limits either can be asked, and the API server would admit what it gets no answer to, and log the path of the call.
func TestUnidentifiedReviewsAreRefused(t *testing.T) {
	t.Parallel()
	for says, head := range map[string]string{
		"a long name":         `"name": "` + longerThanReview + `", "namespace": "shop", "operation": "CREATE", "userInfo": {"username": "u"}`,
		"a long escaped name": `"name": "` + strings.Repeat(`\u0001`, admission.MaxReviewBytes/6) + `", "namespace": "shop", "operation": "UPDATE", "userInfo": {"username": "u"}`,
		"a name that is cut before the operation": `"name": "` + longerThanReview[:admission.MaxReviewBytes-200] + `", "namespace": "shop", ` + strings.Repeat(" ", 200) +
			`"operation": "CREATE", "userInfo": {"username": "u"}`,
		"a name that is cut within the groups": `"name": "` + longerThanReview[:admission.MaxReviewBytes-400] + `", "namespace": "shop", "operation": "CREATE", ` +
			`"userInfo": {"username": "u", "groups": ["a", "b", "` + longerThanReview[:400] + `"]}`,
		"a long user": `"name": "a", "namespace": "shop", "operation": "CREATE", "userInfo": {"username": "` + longerThanReview + `"}`,
	} {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			t.Run(says+" asked about as "+string(operation), func(t *testing.T) {
				t.Parallel()
				r := newUnreadableRig(t, onlyLimits(limit(3, 1, time.Hour, policy.KeyNamespace)))
				h, failed := r.handlers[operation].(*admission.Handler), 0
				h.OnFailure = func() { failed++ }
				for range 10 {
					a := postLongReview(t, h, "Event", head)
					if a.Allowed || a.Result.Reason != admission.ReasonDenied || !strings.Contains(a.Result.Message, "metadata.name is too long") {
						t.Fatalf("allowed %t, %+v; want it refused, as too long", a.Allowed, a.Result)
					}
				}
				if failed > 0 || r.store.decisions > 0 || !r.gate.UndecidedLimiter.Full() {
					t.Errorf("%d calls failed, %d asked the store, or the local limit was used; want none", failed, r.store.decisions)
				}
				if a := postLongReview(t, h, "Pod", head); !a.Allowed {
					t.Errorf("%+v for what is no Event, want it ignored", a.Result)
				}
			})
		}
	}
}

// TestTruncatedReviewWithIdentityIsDecided makes other fields before the Event long.
func TestTruncatedReviewWithIdentityIsDecided(t *testing.T) {
	t.Parallel()
	const whose = `"name": "a", "namespace": "shop", "operation": "CREATE", "userInfo": {"username": "u"`
	for says, head := range map[string]string{
		"a long uid":    whose + `, "uid": "` + longerThanReview + `"}`,
		"a long group":  whose + `, "groups": ["a", "` + longerThanReview + `"]}`,
		"many groups":   whose + `, "groups": ["a"` + strings.Repeat(`, "b"`, admission.MaxReviewBytes/5) + `]}`,
		"a long extra":  whose + `, "extra": {"a": ["` + longerThanReview + `"]}}`,
		"much of extra": whose + `, "extra": {"a": []` + strings.Repeat(`, "b": ["c"]`, admission.MaxReviewBytes/12) + `}}`,
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newUnreadableRig(t, onlyLimits(limit(3, 1, time.Hour, policy.KeyNamespace)))
			var said []string
			for range 10 {
				a := postLongReview(t, r.handlers[admissionv1.Create], "Event", head)
				said = append(said, fmt.Sprint(a.Allowed))
			}
			if diff := cmp.Diff(map[string]int{"true": 3, "false": 7}, countEqual(said)); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
		})
	}
}
