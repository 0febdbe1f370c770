package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
)

// noon returns the time of the first Event in each test.
func noon() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// sec returns the time n seconds after noon.
func sec(n int) time.Time { return noon().Add(time.Duration(n) * time.Second) }

// event returns a Warning about a pod.
func event(name, message string, at time.Time) *corev1.Event {
	return &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0"},
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: message, Count: 1,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
	}
}

// repeatedEvent returns an Event with n occurrences from noon to last.
func repeatedEvent(name string, n int32, last time.Time) *corev1.Event {
	e := event(name, "back-off", noon())
	e.Count, e.LastTimestamp = n, metav1.NewTime(last)
	return e
}

// text returns v as JSON in one line.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// request returns a line of an audit log. A string body is used verbatim.
func request(verb, name string, code int, at time.Time, body any) map[string]any {
	l := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "auditID": fmt.Sprint(verb, "-", name, "-", at.Unix()),
		"requestURI": "/api/v1/namespaces/shop/events/" + name, "verb": verb,
		"user":                     map[string]any{"username": "kubelet"},
		"objectRef":                map[string]any{"resource": "events", "namespace": "shop", "name": name},
		"responseStatus":           map[string]any{"code": code},
		"requestReceivedTimestamp": metav1.NewMicroTime(at),
	}
	if raw, ok := body.(string); ok {
		l["requestObject"] = json.RawMessage(raw)
	} else if body != nil {
		l["requestObject"] = body
	}
	return l
}

// badRequest returns the entry of a request that was answered 400.
func badRequest(verb, name string, reason metav1.StatusReason, at time.Time, body any) map[string]any {
	l := request(verb, name, http.StatusBadRequest, at, body)
	l["responseStatus"] = map[string]any{"code": http.StatusBadRequest, "reason": reason}
	return l
}

// countPatch returns the patch by which a recorder sets the count to n.
func countPatch(n int, at time.Time) string {
	return fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, n, at.Format(time.RFC3339))
}

// watchLine returns a line of a watch.
func watchLine(kind string, object any) string {
	return text(map[string]any{"type": kind, "object": object})
}

// listOf returns a list of Events in the format of kubectl.
func listOf(t *testing.T, items ...any) string {
	t.Helper()
	b, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "items": items, "kind": "List"}, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readAll reads a recording.
func readAll(t *testing.T, content string) *Trace {
	t.Helper()
	trace, err := Read(t.Context(), []Source{NewSource("a", strings.NewReader(content))}, Exempt{Users: []string{"settler"}, Namespaces: []string{"system"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trace.Close)
	return trace
}

// defaults returns the built-in policy as a ClusterEventPolicy, modified by change, with cluster quotas.
func defaults(change func(*policy.Policy), quotas ...*policy.Quota) Options {
	p := policy.Default()
	if change != nil {
		change(p)
	}
	return Options{Rules: Rules{Cluster: policy.Rules{Policies: []*policy.Policy{p}, Quotas: quotas}}}
}

// runTrace runs a trace and returns each decision as "verb name: outcome".
func runTrace(t *testing.T, trace *Trace, o Options) (*Result, []string) {
	t.Helper()
	var decisions []string
	o.Decided = func(d Decision) { decisions = append(decisions, d.Verb+" "+d.Name+": "+string(d.Outcome)) }
	r, err := trace.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r, decisions
}
