package admission

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// All answers to the API server are made in this file. None sets retryAfterSeconds: clients would retry Events that they
// should drop, and a recorder's whole queue would wait. None quotes text that a client wrote, because refusals appear in
// logs that other people read.

// Answer is the answer to one request, with the outcome that metrics count.
type Answer struct {
	Response admissionv1.AdmissionResponse
	Outcome  Outcome
	// DecidedAt is the time of the store's decision, or zero if no store decided. The response has it as an audit annotation.
	DecidedAt DecisionTime
	// Rewritten is the Event as it will be stored, or nil if the answer does not change it.
	Rewritten *corev1.Event
}

// Outcome is the result of a request, as metrics count it.
type Outcome string

// Outcomes of a request. Undecided is an Event that is admitted because no decision was possible, Overloaded one that is
// refused because the limit for undecided Events was reached.
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

// Reasons of refusals that no reason of Kubernetes fits. Clients that do not know a reason go by the code.
const (
	ReasonMerged    metav1.StatusReason = "EventMerged"
	ReasonDropped   metav1.StatusReason = "EventDropped"
	ReasonDenied    metav1.StatusReason = "EventDenied"
	ReasonUndecided metav1.StatusReason = "EventUndecided"
)

// refusal names a row of refusals.
type refusal int

const (
	mergedByName refusal = iota
	mergedOtherwise
	dropped
	deniedByStore
	unidentified
	overloaded
)

// Refusal is the status of one kind of refused write.
type Refusal struct {
	Outcome Outcome
	// Writes describes the writes that are refused with it, for docs/clients.md.
	Writes string
	Code   int32
	Reason metav1.StatusReason
}

// Refusals returns every status that refuses a write. No client in docs/clients.md sends a request again because of one, and neither
// does the API server. What it takes into account:
//
//   - The recorder of core/v1 accepts AlreadyExists without a word, and logs an error for any other status.
//   - With AlreadyExists, the recorder of events.k8s.io sends a series again, and the API server tries another generated name.
//   - Clients that use client-go's RetryOnConflict send a request again after a 409 whose reason they do not know.
//   - kopf sends a request again after 403, for 54 s. Besides, rules that watch audit logs for intruders match 403.
//   - kopf, fabric8 and kube-rs send a request again after 429 and 5xx, for up to 164 s.
//
// That leaves 400, which Kubernetes itself gives a refusal by a webhook that names no code.
func Refusals() [overloaded + 1]Refusal {
	return [...]Refusal{
		mergedByName:    {Merged, "merged: a CREATE under a name that the client chose, a PATCH, and a PUT", http.StatusConflict, metav1.StatusReasonAlreadyExists},
		mergedOtherwise: {Merged, "merged: a CREATE with `generateName`, and a `series` in events.k8s.io/v1", http.StatusBadRequest, ReasonMerged},
		dropped:         {Dropped, "dropped by a policy or quota", http.StatusBadRequest, ReasonDropped},
		deniedByStore:   {Denied, "denied: Redis is unavailable, and a quota has `onStoreFailure: Deny`", http.StatusBadRequest, ReasonDenied},
		unidentified:    {Denied, "denied: the name is so long that the review does not say who writes the Event", http.StatusBadRequest, ReasonDenied},
		overloaded:      {Overloaded, "not decided in time, and above `--local-rate`", http.StatusBadRequest, ReasonUndecided},
	}
}

// answer returns the refusal with a message.
func (r refusal) answer(message string) Answer {
	all := Refusals()
	row := &all[r]
	return Answer{
		Response: admissionv1.AdmissionResponse{
			Result: &metav1.Status{Status: metav1.StatusFailure, Code: row.Code, Reason: row.Reason, Message: message},
		},
		Outcome: row.Outcome,
	}
}

// OutcomeOf returns the outcome of a store's verdict. Both have the same names.
func OutcomeOf(v store.Verdict) Outcome { return Outcome(v.String()) }

// admit returns an answer that admits a write unchanged.
func admit(o Outcome) Answer {
	return Answer{Response: admissionv1.AdmissionResponse{Allowed: true}, Outcome: o}
}

// patchOp is one operation of a JSON patch. "add" also replaces a value.
type patchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"` // a string, or encoded JSON
}

// rewrite admits a CREATE of e with a name and a message, and annotates it with createID unless that is 0.
func rewrite(o Outcome, e *corev1.Event, name, message string, createID uint64) (Answer, error) {
	var edits []patchOp
	if message != e.Message {
		edits = append(edits, patchOp{"add", "/message", message})
	}
	if name != e.Name {
		edits = append(edits, patchOp{"add", "/metadata/name", name})
	}
	if createID != 0 {
		edits = append(edits, createIDPatch(e, createID))
	}
	if len(edits) == 0 {
		return admit(o), nil
	}
	patch, err := json.Marshal(edits)
	if err != nil {
		return Answer{}, fmt.Errorf("encode patch: %w", err)
	}
	stored := *e
	stored.Name, stored.Message = name, message
	if createID != 0 {
		stored.Annotations = maps.Clone(e.Annotations)
		metav1.SetMetaDataAnnotation(&stored.ObjectMeta, AnnotationCreateID, formatCreateID(createID))
	}
	a, jsonPatch := admit(o), admissionv1.PatchTypeJSONPatch
	a.Rewritten, a.Response.Patch, a.Response.PatchType = &stored, patch, &jsonPatch
	return a, nil
}

// formatCreateID returns the value of AnnotationCreateID.
func formatCreateID(id uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, id))
}

// createIDPatch sets AnnotationCreateID. It overwrites a value that the client set.
func createIDPatch(e *corev1.Event, id uint64) patchOp {
	if len(e.Annotations) == 0 {
		return patchOp{"add", "/metadata/annotations", json.RawMessage(`{"` + AnnotationCreateID + `":"` + formatCreateID(id) + `"}`)}
	}
	return patchOp{"add", "/metadata/annotations/eventquota.io~1create-id", formatCreateID(id)}
}

// answer returns the answer to a write that a store decided.
func (q *evaluation) answer(d store.Decision) (Answer, error) {
	switch d.Verdict {
	case store.Merge:
		return refuseMerged(q, d), nil
	case store.Drop:
		return refuseDropped(d, q.decidedAt.At), nil
	case store.Deny:
		return deniedByStore.answer("the shared store is unavailable, and " + RefuserName("", emptyBucket(d).Policy) + " denies Events then"), nil
	case store.Aggregate:
		q.message = AggregateMessage(q.message, usesSeries(q.Object))
		return q.admit(Aggregated, q.identity.CreateID)
	case store.Admit:
	}
	return q.admit(Admitted, q.identity.CreateID)
}

// admit admits the write, and rewrites the Event if the phase allows it.
func (q *evaluation) admit(o Outcome, createID uint64) (Answer, error) {
	if !q.rewritable {
		return admit(o), nil
	}
	return rewrite(o, q.Object, q.name, q.message, createID)
}

// refuseMerged refuses a write whose occurrences were merged into another Event.
func refuseMerged(q *evaluation, d store.Decision) Answer {
	r := mergedByName
	if q.usesEventsAPI() && q.Object.Series != nil || q.Operation == admissionv1.Create && q.Object.GenerateName != "" {
		r = mergedOtherwise
	}
	return r.answer("merged into a stored Event, " + strconv.FormatInt(d.Total, 10) + " occurrences so far")
}

// refuseDropped refuses a write because a bucket had no token, or because its policy drops all Events.
func refuseDropped(d store.Decision, now time.Time) Answer {
	b := emptyBucket(d)
	refuser := RefuserName(b.Name, b.Policy)
	switch {
	case b.Name == "":
		return dropped.answer(refuser + " drops it")
	case d.NextToken.IsZero():
		return dropped.answer(refuser + " is empty: it never has tokens")
	}
	wait := d.NextToken.Sub(now).Round(time.Millisecond)
	return dropped.answer(refuser + " is empty: next token at " + d.NextToken.UTC().Format(time.RFC3339) + ", in " + wait.String())
}

// RefuserName returns the name, for messages, of the bucket that refused an Event. rule is the bucket's policy or quota. If
// bucket is empty, the policy drops all Events, and only the policy is named.
func RefuserName(bucket, rule string) string {
	if rule == policy.DefaultName {
		rule = "the default policy"
	}
	if limit, overflow := strings.CutSuffix(bucket, store.OverflowSuffix); overflow {
		return "overflow bucket of " + RefuserName(limit, rule)
	}
	switch bucket {
	case "":
		return rule
	case spamFilter:
		return spamFilter + " of " + rule
	}
	return "limit " + strconv.Quote(bucket) + " of " + rule
}

// refuseUnidentified refuses a write whose namespace, operation or user is unknown. No policy or quota can be evaluated
// for it, so it would bypass all of them. No recorder creates an Event with so long a name.
func refuseUnidentified() Answer {
	return unidentified.answer(fmt.Sprintf("metadata.name is too long: it and the user must be within the first %d bytes of the review", MaxReviewBytes))
}

// AnnotationDecided is the key of the audit annotation with the DecisionTime. The API server prefixes it with the name of
// the webhook and a slash. It sets it once per request and webhook: if it calls the webhook again after a conflict, the
// first value stays. A write that no store decided has no such annotation.
const AnnotationDecided = "decided"

// DecisionTime is the time and order of a store's decision. The zero value means that no store decided.
type DecisionTime struct {
	// At is the time passed to the store, by the clock of the replica.
	At time.Time
	// Offset is added to At, in microseconds, to get the position in the order of all decisions of that store. It is
	// positive if earlier decisions had the same time or a later one, and 0 if the store does not know its order.
	Offset int64
}

// String returns the annotation's value: At in microseconds of Unix time, followed by "+" and Offset if that is not 0.
func (t DecisionTime) String() string {
	text, _ := t.AppendText(nil)
	return string(text)
}

// AppendText implements encoding.TextAppender. It appends the same text as String returns.
func (t DecisionTime) AppendText(b []byte) ([]byte, error) {
	b = strconv.AppendInt(b, t.At.UnixMicro(), 10)
	if t.Offset != 0 {
		b = strconv.AppendInt(append(b, '+'), t.Offset, 10)
	}
	return b, nil
}

// ParseDecisionTime parses the value of an AnnotationDecided. It returns zero if the value is invalid, its time is not
// between 1970 and 2112, or its offset is above one hour.
func ParseDecisionTime(annotation string) DecisionTime {
	at, plus, has := strings.Cut(annotation, "+")
	if !has {
		plus = "0"
	}
	micros, atErr := strconv.ParseInt(at, 10, 64)
	offset, offsetErr := strconv.ParseInt(plus, 10, 64)
	t := DecisionTime{At: time.UnixMicro(micros).UTC(), Offset: offset}
	const maxOffset = int64(time.Hour / time.Microsecond)
	if atErr != nil || offsetErr != nil || micros < 0 || offset < 0 || offset > maxOffset || t.At.Year() >= 2112 {
		return DecisionTime{}
	}
	return t
}
