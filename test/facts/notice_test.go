package facts

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// What makes a notice valid, and whether `kubectl describe` of its object shows it.
func (r *rig) notices(t *testing.T) {
	r.namespace(t, "f38", nil)
	namespace, err := r.client.CoreV1().Namespaces().Get(t.Context(), "f38", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ofNamespace := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "f38", UID: namespace.UID}
	ofCluster := reference(r.policy(t, v1alpha1.KindClusterEventPolicy, "", "f38"))
	inNamespace := reference(r.policy(t, v1alpha1.KindEventPolicy, "f38", "f38"))
	in := func(namespace string, object corev1.ObjectReference) corev1.ObjectReference {
		object.Namespace = namespace
		return object
	}
	noUID := ofCluster
	noUID.UID = ""
	eventTime := func(e *corev1.Event) { e.EventTime = metav1.NowMicro() }
	complete := func(e *corev1.Event) {
		eventTime(e)
		e.ReportingController, e.ReportingInstance, e.Action = "eventquota.io/webhook", "webhook-1", "Drop"
	}

	tests := []struct {
		name      string
		in        string // namespace of the notice
		about     corev1.ObjectReference
		change    func(e *corev1.Event) // nil for a notice as it is written
		invalid   string
		described bool
	}{
		{name: "about a namespace, in it, with its name", in: "f38", about: in("f38", ofNamespace)},
		{name: "about a namespace, in it, without", in: "f38", about: ofNamespace, invalid: "involvedObject.namespace"},
		{name: "about a namespace, in default", in: "default", about: ofNamespace},

		{name: "about an object of a namespace", in: "f38", about: in("f38", inNamespace), described: true},

		{name: "about an object of the cluster, in default", in: "default", about: ofCluster, described: true},
		{name: "about an object of the cluster, in default, with that namespace", in: "default", about: in("default", ofCluster)},
		{name: "about an object of the cluster, in default, without uid", in: "default", about: noUID},
		{name: "about an object of the cluster, in a namespace", in: "f38", about: ofCluster, invalid: "involvedObject.namespace"},
		{name: "about an object of the cluster, in kube-system", in: "kube-system", about: ofCluster, invalid: "involvedObject.namespace"},

		{name: "with eventTime only", in: "kube-system", about: ofCluster, change: eventTime,
			invalid: "reportingComponent reportingInstance action"},
		{name: "with eventTime and what belongs to it, in kube-system", in: "kube-system", about: ofCluster, change: complete, described: true},
		{name: "with eventTime and what belongs to it, in a namespace", in: "f38", about: ofCluster, change: complete,
			invalid: "involvedObject.namespace"},
	}
	for i, test := range tests {
		notice := coreEvent(test.in, fmt.Sprintf("notice-%d", i))
		notice.InvolvedObject, notice.Message = test.about, test.name+"."
		notice.Source = corev1.EventSource{Component: "eventquota"}
		if test.change != nil {
			test.change(notice)
		}
		_, err := r.client.CoreV1().Events(test.in).Create(t.Context(), notice, metav1.CreateOptions{})
		if got := invalid(t, err); got != test.invalid {
			t.Errorf("%s: %q is invalid, want %q: %v", test.name, got, test.invalid, err)
		}
	}

	described := r.kubectl(t, "describe", "namespace", "f38") +
		r.kubectl(t, "describe", v1alpha1.KindClusterEventPolicy, "f38") +
		r.kubectl(t, "describe", v1alpha1.KindEventPolicy, "f38", "--namespace=f38")
	for _, test := range tests {
		if got := strings.Contains(described, test.name+"."); got != test.described {
			t.Errorf("%s: described is %t, want %t:\n%s", test.name, got, test.described, described)
		}
	}
	for _, args := range [][]string{
		{"get", "events", "--namespace=f38"},
		{"events", "--namespace=f38", "--for=namespace/f38"},
	} {
		if got := r.kubectl(t, args...); !strings.Contains(got, tests[0].name+".") {
			t.Errorf("kubectl %s does not show what is about a namespace:\n%s", strings.Join(args, " "), got)
		}
	}
}

// Without lastTimestamp and eventTime `kubectl events` does not know when an Event that has
// been counted was last seen. `kubectl get events` shows firstTimestamp then, if there is one.
func (r *rig) lastSeen(t *testing.T) {
	r.namespace(t, "f38-seen", nil)
	for name, test := range map[string]struct {
		change      func(e *corev1.Event)
		get, events bool // the time is unknown to these
	}{
		"both":  {change: func(*corev1.Event) {}},
		"first": {change: func(e *corev1.Event) { e.LastTimestamp = metav1.Time{} }, events: true},
		"none": {change: func(e *corev1.Event) { e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{} },
			get: true, events: true},
	} {
		event := coreEvent("f38-seen", name)
		event.InvolvedObject.Name, event.Count = name, 2
		test.change(event)
		if _, err := r.client.CoreV1().Events("f38-seen").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		get := r.kubectl(t, "get", "events", "--namespace=f38-seen", "--field-selector=metadata.name="+name, "--no-headers")
		if got := strings.HasPrefix(get, "<unknown>"); got != test.get {
			t.Errorf("%s: unknown to get is %t, want %t: %s", name, got, test.get, get)
		}
		events := r.kubectl(t, "events", "--namespace=f38-seen", "--for=pod/"+name, "--no-headers")
		if got := strings.HasPrefix(events, "<unknown> (x2"); got != test.events {
			t.Errorf("%s: unknown to events is %t, want %t: %s", name, got, test.events, events)
		}
	}
}

func reference(object *unstructured.Unstructured) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(),
	}
}
