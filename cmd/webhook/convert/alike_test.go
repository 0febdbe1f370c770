package convert

import (
	"cmp"
	"fmt"
	"slices"
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

// request is one request of a case: an Event of a namespace, user and some other detail, and whether it is
// refused.
type request struct {
	namespace, user string
	change          func(*corev1.Event)
	other           bool // no Event at all
	later           time.Duration
	refused         bool
}

func namespaced(names ...string) (all []request) {
	for _, name := range names {
		all = append(all, request{namespace: name})
	}
	return all
}

func reportedBy(components ...string) (all []request) {
	for _, name := range components {
		all = append(all, request{change: func(e *corev1.Event) { e.Source.Component = name }})
	}
	return all
}

func writtenBy(users ...string) (all []request) {
	for _, name := range users {
		all = append(all, request{user: name})
	}
	return all
}

// then is all, and the last one again: refused and, for a refill, once more a second later.
func then(all []request, last request, refill bool) []request {
	last.refused = true
	all = append(all, last)
	if refill {
		last.refused, last.later = false, time.Second
		all = append(all, last)
	}
	return all
}

// inKey are two Events that share one token, and a third, which differs, with its own.
func inKey(change func(e *corev1.Event, value string)) []request {
	one := func(value string) request { return request{change: func(e *corev1.Event) { change(e, value) }} }
	again := one("a")
	again.refused = true
	return []request{one("a"), again, one("b")}
}

// TestAConvertedQuotaDecidesAsThePlugin runs the cases that the plugin's own test has, but for two: that it forgets
// the buckets of a namespace, and of a source and object, when its cache is full. Quotas have no such caches.
func TestAConvertedQuotaDecidesAsThePlugin(t *testing.T) {
	const server, namespace, user, object = "Server", "Namespace", "User", "SourceAndObject"
	var event, other request
	other.other = true
	three := func(one ...request) []request { return slices.Repeat(one, 3) }
	for says, test := range map[string]struct {
		bursts   map[string]int
		requests []request
	}{
		"an Event passes while there are tokens":         {map[string]int{server: 3}, []request{event}},
		"what is no Event passes":                        {map[string]int{server: 3}, []request{other}},
		"an Event is refused when there are none":        {map[string]int{server: 3}, then(three(event), event, false)},
		"what is no Event passes when there are none":    {map[string]int{server: 3}, append(three(event), other)},
		"what is no Event takes no token":                {map[string]int{server: 3}, []request{event, event, other, event}},
		"a token comes back":                             {map[string]int{server: 3}, then(three(event), event, true)},
		"a namespace has its limit":                      {map[string]int{server: 100, namespace: 3}, then(namespaced("a", "a", "a"), request{namespace: "a"}, false)},
		"another namespace passes":                       {map[string]int{server: 100, namespace: 3}, namespaced("a", "a", "a", "b")},
		"another namespace takes no token of it":         {map[string]int{server: 100, namespace: 3}, namespaced("a", "a", "b", "a")},
		"a token of a namespace comes back":              {map[string]int{server: 100, namespace: 3}, then(namespaced("a", "a", "a"), request{namespace: "a"}, true)},
		"another namespace gives it no token":            {map[string]int{server: 100, namespace: 3}, then(namespaced("a", "a", "a", "b"), request{namespace: "a"}, false)},
		"a source and object has its limit":              {map[string]int{server: 100, object: 3}, then(reportedBy("a", "a", "a"), reportedBy("a")[0], false)},
		"another source and object passes":               {map[string]int{server: 100, object: 3}, reportedBy("a", "a", "a", "b")},
		"another source and object takes no token of it": {map[string]int{server: 100, object: 3}, reportedBy("a", "a", "b", "a")},
		"a token of a source and object comes back":      {map[string]int{server: 100, object: 3}, then(reportedBy("a", "a", "a"), reportedBy("a")[0], true)},
		"another source and object gives it no token":    {map[string]int{server: 100, object: 3}, then(reportedBy("a", "a", "a", "b"), reportedBy("a")[0], false)},
		"each host of a source has its tokens":           {map[string]int{server: 100, object: 1}, inKey(func(e *corev1.Event, v string) { e.Source.Host = v })},
		"each kind of an object has its tokens":          {map[string]int{server: 100, object: 1}, inKey(func(e *corev1.Event, v string) { e.InvolvedObject.Kind = v })},
		"each namespace of an object has its tokens":     {map[string]int{server: 100, object: 1}, inKey(func(e *corev1.Event, v string) { modern(e); e.InvolvedObject.Namespace = v })},
		"each name of an object has its tokens":          {map[string]int{server: 100, object: 1}, inKey(func(e *corev1.Event, v string) { e.InvolvedObject.Name = v })},
		"each UID of an object has its tokens":           {map[string]int{server: 100, object: 1}, inKey(func(e *corev1.Event, v string) { e.InvolvedObject.UID = types.UID(v) })},
		"each API version of an object has its tokens":   {map[string]int{server: 100, object: 1}, inKey(func(e *corev1.Event, v string) { e.InvolvedObject.APIVersion = v })},
		"a user has its limit":                           {map[string]int{user: 3}, then(writtenBy("a", "a", "a"), request{user: "a"}, false)},
		"another user passes":                            {map[string]int{user: 3}, writtenBy("a", "a", "a", "b")},
		"another user takes no token of it":              {map[string]int{user: 3}, writtenBy("a", "a", "b", "a")},
	} {
		t.Run(says, func(t *testing.T) {
			gate, now := gateOf(t, test.bursts)
			for i, r := range test.requests {
				*now = now.Add(r.later)
				a := gate.Decide(t.Context(), gate.Mutate, r.asked(i))
				want := map[bool]admission.Outcome{false: admission.Admitted, true: admission.Dropped}[r.refused]
				if r.other {
					want = admission.Ignored
				}
				if a.Outcome != want || a.Response.Allowed == r.refused || r.refused && a.Response.Result.Code != 429 {
					t.Fatalf("request %d: %s (%+v), want %s", i, a.Outcome, a.Response, want)
				}
			}
		})
	}
}

// gateOf decides under what convert makes of limits with some bursts and one token a second.
func gateOf(t *testing.T, bursts map[string]int) (*admission.Gate, *time.Time) {
	t.Helper()
	var all []string
	for _, kind := range []string{"Server", "Namespace", "User", "SourceAndObject"} {
		if burst := bursts[kind]; burst > 0 {
			all = append(all, fmt.Sprintf("{type: %s, qps: 1, burst: %d}", kind, burst))
		}
	}
	out, _, err := convert(t, limits(all...), "-")
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{Bytes: memory.MinBytes})
	// It neither merges nor limits by source, and so leaves all to the quota.
	alone := policy.Default()
	alone.Merge.Enabled, alone.SpamFilter.Enabled = false, false
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	return &admission.Gate{
		Policies: policy.InForce(policy.NewSet(alone, policy.Rules{Quotas: []*policy.Quota{compiled(t, out)}}, nil)),
		Store:    store, Now: func() time.Time { return now }, MaxWriteInterval: time.Minute,
	}, &now
}

// asked is the i-th request. All are the same Event under different names, but for what r says.
func (r *request) asked(i int) *admission.Request {
	namespace := cmp.Or(r.namespace, "shop")
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("e-", i)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "web-0"},
		Source:         corev1.EventSource{Component: "kubelet"}, Type: corev1.EventTypeNormal, Reason: "Pulled",
	}
	if r.change != nil {
		r.change(e)
	}
	kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	if r.other {
		kind.Kind, resource.Resource = "Pod", "pods"
	}
	a := &admission.Request{Object: e, Request: policy.Request{
		Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource, Name: e.Name, Namespace: namespace,
		Operation: admissionv1.Create, UserInfo: policy.UserInfo{Username: r.user},
	}}
	if !e.EventTime.IsZero() {
		a.RequestKind.Group, a.RequestResource.Group = "events.k8s.io", "events.k8s.io"
	}
	return a
}

// modern makes e one of events.k8s.io, which may be in another namespace than its object.
func modern(e *corev1.Event) {
	e.Source, e.EventTime = corev1.EventSource{}, metav1.NewMicroTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	e.ReportingController, e.ReportingInstance, e.Action = "kubelet", "node-1", "Pull"
}
