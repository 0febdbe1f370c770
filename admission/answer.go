package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// All answers to the API server are made in this file. None sets
// retryAfterSeconds: it would make clients send again what they should let go,
// and hold up the whole queue of a recorder meanwhile.

// Answer is the answer to one request and what metrics count it as.
type Answer struct {
	Response admissionv1.AdmissionResponse
	Outcome  Outcome
	// Cut tells that the Event goes through with a message cut to the limit of
	// its policy. Dry runs are none.
	Cut bool
	// Decided is when the store decided, zero if none was asked. The API server's
	// audit log has it.
	Decided Moment
}

// Outcome is what an answer is counted as.
type Outcome string

// The outcomes. Undecided is an admission for want of a decision.
const (
	Admitted   Outcome = "admit"
	Aggregated Outcome = "aggregate"
	Merged     Outcome = "merge"
	Dropped    Outcome = "drop"
	Denied     Outcome = "deny"
	Ignored    Outcome = "ignore"
	Undecided  Outcome = "undecided"
	Overloaded Outcome = "overload"
)

// admit lets a write through as it is.
func admit(o Outcome) Answer {
	return Answer{Response: admissionv1.AdmissionResponse{Allowed: true}, Outcome: o}
}

// edit is one operation of a JSON patch.
type edit struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// set replaces or adds one field.
func set(path, value string) edit { return edit{Op: "add", Path: path, Value: value} }

// rewrite lets a CREATE of e through under a name and with a message.
func rewrite(o Outcome, e *corev1.Event, name, message string) (Answer, error) {
	a := admit(o)
	var edits []edit
	if message != e.Message {
		edits = append(edits, set("/message", message))
	}
	if name != e.Name {
		edits = append(edits, set("/metadata/name", name))
	}
	if len(edits) == 0 {
		return a, nil
	}
	patch, err := json.Marshal(edits)
	if err != nil {
		return Answer{}, fmt.Errorf("encode patch: %w", err)
	}
	jsonPatch := admissionv1.PatchTypeJSONPatch
	a.Response.Patch, a.Response.PatchType = patch, &jsonPatch
	return a, nil
}

// with is a with a warning for the writer, if there is one.
func (a Answer) with(warning string) Answer {
	if warning != "" {
		a.Response.Warnings = append(a.Response.Warnings, "eventquota: "+warning)
	}
	return a
}

// refusal is the answer to a write that a store refused under a policy, and
// whether it did.
func refusal(r *Request, p *policy.Policy, now time.Time, d store.Decision) (Answer, bool) {
	switch d.Verdict {
	case store.Merge:
		return merged(r, d), true
	case store.Drop:
		return dropped(p, now, d), true
	case store.Deny:
		return denied(p), true
	case store.Admit, store.Aggregate:
	}
	return Answer{}, false
}

// merged refuses a write whose occurrences went into another Event. A recorder
// of core/v1 takes AlreadyExists as the quiet end of the matter. One of
// events.k8s.io does so too, but takes it as a reason to try again when the
// write carries a series; there TooManyRequests is the end.
func merged(r *Request, d store.Decision) Answer {
	message := fmt.Sprintf("merged into Event %s/%s, %d occurrences so far", r.Namespace, d.Into, d.Total)
	if r.RequestKind.Group == "events.k8s.io" && r.Object.Series != nil {
		return refuse(Merged, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, message)
	}
	return refuse(Merged, http.StatusConflict, metav1.StatusReasonAlreadyExists, message)
}

// dropped refuses a CREATE for which a bucket had no token, or whose policy
// drops all.
func dropped(p *policy.Policy, now time.Time, d store.Decision) Answer {
	if d.Empty.Name == "" {
		return refuse(Dropped, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
			fmt.Sprintf("policy %q drops it", p.Name))
	}
	next := "it never has tokens"
	if !d.Next.IsZero() {
		next = fmt.Sprintf("next token at %s, in %s", d.Next.UTC().Format(time.RFC3339), d.Next.Sub(now).Round(time.Millisecond))
	}
	return refuse(Dropped, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		fmt.Sprintf("%s of policy %q is empty: %s", d.Empty.Name, d.Empty.Policy, next))
}

// denied refuses a write because its policy says so while the store that
// replicas share is away.
func denied(p *policy.Policy) Answer {
	return refuse(Denied, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		fmt.Sprintf("the shared store does not answer, and policy %q denies Events then", p.Name))
}

// overloaded refuses a write that could be neither decided nor admitted under
// the local limit.
func overloaded() Answer {
	return refuse(Overloaded, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		"no decision in time, and the local limit for undecided Events is reached")
}

func refuse(o Outcome, code int32, reason metav1.StatusReason, message string) Answer {
	return Answer{
		Response: admissionv1.AdmissionResponse{
			Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message},
		},
		Outcome: o,
	}
}
