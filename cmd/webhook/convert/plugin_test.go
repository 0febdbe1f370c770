package convert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// TestConvertedQuotaMatchesPlugin runs the cases of the plugin's own test, except two. These test that a full cache evicts the
// buckets of a namespace, or of a source and object; quotas have no such caches.
//
// Each word is a request with a value for the varied field. A request with + comes a second later, and one with ! must be
// refused. The word pod is a request for a Pod.
func TestConvertedQuotaMatchesPlugin(t *testing.T) {
	nothing := func(*admission.Request, string) {}
	namespace := func(r *admission.Request, v string) {
		r.Namespace, r.Object.Namespace, r.Object.InvolvedObject.Namespace = v, v, v
	}
	user := func(r *admission.Request, v string) { r.UserInfo.Username = v }
	component := func(r *admission.Request, v string) { r.Object.Source.Component = v }
	for says, test := range map[string]struct {
		bursts   map[string]int
		vary     func(r *admission.Request, value string)
		requests string
	}{
		"an Event passes while there are tokens":         {map[string]int{"Server": 3}, nothing, "a"},
		"another resource passes":                        {map[string]int{"Server": 3}, nothing, "pod"},
		"an Event is refused when there are none":        {map[string]int{"Server": 3}, nothing, "a a a !a"},
		"another resource passes when there are none":    {map[string]int{"Server": 3}, nothing, "a a a pod"},
		"another resource takes no token":                {map[string]int{"Server": 3}, nothing, "a a pod a"},
		"a token refills":                                {map[string]int{"Server": 3}, nothing, "a a a !a +a"},
		"a namespace has its limit":                      {map[string]int{"Server": 100, "Namespace": 3}, namespace, "a a a !a"},
		"another namespace passes":                       {map[string]int{"Server": 100, "Namespace": 3}, namespace, "a a a b"},
		"another namespace takes no token of it":         {map[string]int{"Server": 100, "Namespace": 3}, namespace, "a a b a"},
		"a token of a namespace refills":                 {map[string]int{"Server": 100, "Namespace": 3}, namespace, "a a a !a +a"},
		"another namespace gives it no token":            {map[string]int{"Server": 100, "Namespace": 3}, namespace, "a a a b !a"},
		"a source and object has its limit":              {map[string]int{"Server": 100, "SourceAndObject": 3}, component, "a a a !a"},
		"another source and object passes":               {map[string]int{"Server": 100, "SourceAndObject": 3}, component, "a a a b"},
		"another source and object takes no token of it": {map[string]int{"Server": 100, "SourceAndObject": 3}, component, "a a b a"},
		"a token of a source and object refills":         {map[string]int{"Server": 100, "SourceAndObject": 3}, component, "a a a !a +a"},
		"another source and object gives it no token":    {map[string]int{"Server": 100, "SourceAndObject": 3}, component, "a a a b !a"},
		"each host of a source has its tokens": {map[string]int{"SourceAndObject": 1}, func(r *admission.Request, v string) {
			r.Object.Source.Host = v
		}, "a !a b"},
		"each kind of an object has its tokens": {map[string]int{"SourceAndObject": 1}, func(r *admission.Request, v string) {
			r.Object.InvolvedObject.Kind = v
		}, "a !a b"},
		"each namespace of an object has its tokens": {map[string]int{"SourceAndObject": 1}, func(r *admission.Request, v string) {
			toEventsV1(r)
			r.Object.InvolvedObject.Namespace = v
		}, "a !a b"},
		"each name of an object has its tokens": {map[string]int{"SourceAndObject": 1}, func(r *admission.Request, v string) {
			r.Object.InvolvedObject.Name = v
		}, "a !a b"},
		"each UID of an object has its tokens": {map[string]int{"SourceAndObject": 1}, func(r *admission.Request, v string) {
			r.Object.InvolvedObject.UID = types.UID(v)
		}, "a !a b"},
		"each API version of an object has its tokens": {map[string]int{"SourceAndObject": 1}, func(r *admission.Request, v string) {
			r.Object.InvolvedObject.APIVersion = v
		}, "a !a b"},
		"a user has its limit":              {map[string]int{"User": 3}, user, "a a a !a"},
		"another user passes":               {map[string]int{"User": 3}, user, "a a a b"},
		"another user takes no token of it": {map[string]int{"User": 3}, user, "a a b a"},
	} {
		t.Run(says, func(t *testing.T) {
			requireSameDecisions(t, test.bursts, test.vary, test.requests, limits)
		})
		t.Run(says+", of an AdmissionConfiguration", func(t *testing.T) {
			requireSameDecisions(t, test.bursts, test.vary, test.requests, func(all ...string) string { return admissionConfig(inlineEntry(strings.Join(all, ", "))) })
		})
	}
}

// requireSameDecisions decides requests in turn under the limits of a file.
func requireSameDecisions(t *testing.T, bursts map[string]int, vary func(*admission.Request, string), requests string, file func(...string) string) {
	t.Helper()
	gate, now := gateOf(t, bursts, file)
	for i, word := range strings.Fields(requests) {
		value := strings.TrimLeft(word, "+!")
		r, want := requestNumber(i), admission.Admitted
		vary(r, value)
		switch {
		case value == "pod":
			want = admission.Ignored
			r.Kind.Kind, r.Resource.Resource = "Pod", "pods"
		case word[0] == '!':
			want = admission.Dropped
		case word[0] == '+':
			*now = now.Add(time.Second)
		}
		a := gate.Decide(t.Context(), gate.Mutate, r)
		refused := want == admission.Dropped
		if a.Outcome != want || a.Response.Allowed == refused || refused && a.Response.Result.Reason != admission.ReasonDropped {
			t.Fatalf("request %d: %s (%+v), want %s", i, a.Outcome, a.Response, want)
		}
	}
}

// gateOf returns a gate with the quota that convert makes of limits with these bursts and one token a second.
func gateOf(t *testing.T, bursts map[string]int, file func(...string) string) (*admission.Gate, *time.Time) {
	t.Helper()
	var all []string
	for _, kind := range []string{"Server", "Namespace", "User", "SourceAndObject"} {
		if burst := bursts[kind]; burst > 0 {
			all = append(all, fmt.Sprintf("{type: %s, qps: 1, burst: %d}", kind, burst))
		}
	}
	out, _, err := convert(t, file(all...), "-")
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{Bytes: memory.MinBytes})
	// Without merging and spam filter, only the quota decides.
	alone := policy.Default()
	alone.Merge.Enabled, alone.SpamFilter.Enabled = false, false
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	return &admission.Gate{
		Policies: policy.NewCurrent(policy.NewSet(alone, policy.Rules{Quotas: []*policy.Quota{compiled(t, out)}}, nil)),
		Store:    store, Now: func() time.Time { return now }, MaxWriteInterval: time.Minute,
	}, &now
}

// requestNumber returns the i-th request. All have the same Event under different names.
func requestNumber(i int) *admission.Request {
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("e-", i)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0"},
		Source:         corev1.EventSource{Component: "kubelet"}, Type: corev1.EventTypeNormal, Reason: "Pulled",
	}
	kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	return &admission.Request{Object: e, Request: policy.Request{
		Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource, Name: e.Name, Namespace: "shop",
		Operation: admissionv1.Create,
	}}
}

// toEventsV1 makes the Event of r one of events.k8s.io, whose namespace can differ from that of its object.
func toEventsV1(r *admission.Request) {
	e := r.Object
	e.Source, e.EventTime = corev1.EventSource{}, metav1.NewMicroTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	e.ReportingController, e.ReportingInstance, e.Action = "kubelet", "node-1", "Pull"
	r.RequestKind.Group, r.RequestResource.Group = "events.k8s.io", "events.k8s.io"
}
