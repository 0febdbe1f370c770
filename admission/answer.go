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

// All answers to the API server are made in this file. None sets retryAfterSeconds: clients would
// retry what they should drop, and a recorder's whole queue would wait. None quotes what a client
// wrote, as refusals are in logs that others read.

// Answer is the answer to one request and what metrics count it as.
type Answer struct {
	Response admissionv1.AdmissionResponse
	Outcome  Outcome
	// DecidedAt is when a store decided; zero where none did. It is the audit annotation of the response.
	DecidedAt DecisionTime
	// Rewritten is the Event as it is stored, where that is not as it was sent.
	Rewritten *corev1.Event
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

// OutcomeOf is what the answer to a write with a verdict is counted as: they have the same names.
func OutcomeOf(v store.Verdict) Outcome { return Outcome(v.String()) }

// admit lets a write through as it is.
func admit(o Outcome) Answer {
	return Answer{Response: admissionv1.AdmissionResponse{Allowed: true}, Outcome: o}
}

// patchOp is one operation of a JSON patch; "add" replaces too.
type patchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"` // a string, or encoded already
}

// rewrite lets a CREATE of e through under a name and with a message, and notes its id if that is not 0.
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

// formatCreateID is the value of AnnotationCreateID.
func formatCreateID(id uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, id))
}

// createIDPatch is the edit that notes the id of a CREATE, whatever its client has noted.
func createIDPatch(e *corev1.Event, id uint64) patchOp {
	if len(e.Annotations) == 0 {
		return patchOp{"add", "/metadata/annotations", json.RawMessage(`{"` + AnnotationCreateID + `":"` + formatCreateID(id) + `"}`)}
	}
	return patchOp{"add", "/metadata/annotations/eventquota.io~1create-id", formatCreateID(id)}
}

// answer is the answer to a write that a store decided.
func (q *evaluation) answer(d store.Decision) (Answer, error) {
	switch d.Verdict {
	case store.Merge:
		return refuseMerged(q, d), nil
	case store.Drop:
		return refuseDropped(d, q.decidedAt.At), nil
	case store.Deny:
		return refuseTooMany(Denied, "the shared store is unavailable, and "+RefuserName("", emptyBucket(d).Policy)+" denies Events then"), nil
	case store.Aggregate:
		q.message = AggregateMessage(q.message, usesSeries(q.Object))
		return q.admit(Aggregated, q.identity.CreateID)
	case store.Admit:
	}
	return q.admit(Admitted, q.identity.CreateID)
}

// admit lets a write through, rewritten where that can be.
func (q *evaluation) admit(o Outcome, createID uint64) (Answer, error) {
	if !q.rewritable {
		return admit(o), nil
	}
	return rewrite(o, q.Object, q.name, q.message, createID)
}

// refuseMerged refuses a write whose occurrences went into another Event. A recorder of core/v1 accepts AlreadyExists
// quietly, and so does one of events.k8s.io unless the write carries a series. A write with a series is retried after
// AlreadyExists, and so is a generated name, by the API server itself; there TooManyRequests ends it.
func refuseMerged(q *evaluation, d store.Decision) Answer {
	message := "merged into a stored Event, " + strconv.FormatInt(d.Total, 10) + " occurrences so far"
	if q.usesEventsAPI() && q.Object.Series != nil || q.Operation == admissionv1.Create && q.Object.GenerateName != "" {
		return refuseTooMany(Merged, message)
	}
	return refuse(Merged, http.StatusConflict, metav1.StatusReasonAlreadyExists, message)
}

// refuseDropped refuses a write because a bucket had no token, or its policy drops all.
func refuseDropped(d store.Decision, now time.Time) Answer {
	b := emptyBucket(d)
	says := RefuserName(b.Name, b.Policy)
	switch {
	case b.Name == "":
		return refuseTooMany(Dropped, says+" drops it")
	case d.NextToken.IsZero():
		return refuseTooMany(Dropped, says+" is empty: it never has tokens")
	}
	wait := d.NextToken.Sub(now).Round(time.Millisecond)
	return refuseTooMany(Dropped, says+" is empty: next token at "+d.NextToken.UTC().Format(time.RFC3339)+", in "+wait.String())
}

// RefuserName names in a message what refuses Events: a bucket of a rule, or one that drops all, where the bucket has no name.
func RefuserName(bucket, rule string) string {
	if rule == policy.DefaultName {
		rule = "the default policy"
	}
	if of, overflow := strings.CutSuffix(bucket, store.OverflowSuffix); overflow {
		return "overflow bucket of " + RefuserName(of, rule)
	}
	switch bucket {
	case "":
		return rule
	case spamFilter:
		return spamFilter + " of " + rule
	}
	return "limit " + strconv.Quote(bucket) + " of " + rule
}

// refuseUnidentified refuses a write of which it is not known whose it is. No policy or quota can be asked, so it would get past them all:
// no recorder makes an Event with such a name.
func refuseUnidentified() Answer {
	return refuseTooMany(Denied, fmt.Sprintf("metadata.name is too long: it and the user's name must be within the first %d bytes of the review", MaxReviewBytes))
}

func refuseTooMany(o Outcome, message string) Answer {
	return refuse(o, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, message)
}

func refuse(o Outcome, code int32, reason metav1.StatusReason, message string) Answer {
	return Answer{
		Response: admissionv1.AdmissionResponse{
			Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message},
		},
		Outcome: o,
	}
}

// AnnotationDecided is the name of the audit annotation that has the DecisionTime of a decision. The API server puts the name
// of the webhook and a slash before it. It sets it once for each request and webhook: where it asks about a write
// again, after a conflict, the first one stays. What no store has decided has none.
const AnnotationDecided = "decided"

// DecisionTime is when a store decided about a write. The zero value says that none did.
type DecisionTime struct {
	// At is the time that the store was given, by the clock of the replica.
	At time.Time
	// Offset is how much more than At the decision is in the order of all decisions of that store, in microseconds:
	// others that came first were given the same time, or a later one. 0 where the store does not know its order.
	Offset int64
}

// String is m as the annotation has it: At in microseconds of Unix time and, where there is one, After.
func (m DecisionTime) String() string {
	text, _ := m.AppendText(nil)
	return string(text)
}

// AppendText implements encoding.TextAppender as String does.
func (m DecisionTime) AppendText(b []byte) ([]byte, error) {
	b = strconv.AppendInt(b, m.At.UnixMicro(), 10)
	if m.Offset != 0 {
		b = strconv.AppendInt(append(b, '+'), m.Offset, 10)
	}
	return b, nil
}

// ParseDecisionTime is the DecisionTime of an annotation. It is zero for what is none, or no time from 1970 to 2112.
func ParseDecisionTime(annotation string) DecisionTime {
	at, after, has := strings.Cut(annotation, "+")
	if !has {
		after = "0"
	}
	micros, noTime := strconv.ParseInt(at, 10, 64)
	n, noOrder := strconv.ParseInt(after, 10, 64)
	m := DecisionTime{At: time.UnixMicro(micros).UTC(), Offset: n}
	const most = int64(time.Hour / time.Microsecond) // more is no order of decisions
	if noTime != nil || noOrder != nil || micros < 0 || n < 0 || n > most || m.At.Year() >= 2112 {
		return DecisionTime{}
	}
	return m
}
