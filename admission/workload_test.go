package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// fleet knows the workload of one pod.
type fleet struct{ namespace, name, uid string }

// Find implements admission.Workloads.
func (f fleet) Find(namespace, kind, name, uid string) (store.Object, bool) {
	if kind != "Pod" || namespace != f.namespace || name != f.name || uid != "" && uid != f.uid {
		return store.Object{}, false
	}
	return deployment(), true
}

func deployment() store.Object {
	return store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web", UID: "deployment-uid"}
}

// TestAWorkloadIsThatOfAPodOfTheNamespace has Events about objects of other namespaces, or of none, which anyone may write about.
func TestAWorkloadIsThatOfAPodOfTheNamespace(t *testing.T) {
	t.Parallel()
	about := func(change func(*corev1.ObjectReference)) details {
		return details{event(func(e *corev1.Event) { change(&e.InvolvedObject) })}
	}
	for says, tt := range map[string]struct {
		details details
		want    store.Object
	}{
		"a pod":                      {nil, deployment()},
		"a pod without a uid":        {about(func(o *corev1.ObjectReference) { o.UID = "" }), deployment()},
		"an older pod of the name":   {about(func(o *corev1.ObjectReference) { o.UID = "older" }), store.Object{}},
		"a pod of another namespace": {about(func(o *corev1.ObjectReference) { o.Namespace = "other" }), store.Object{}},
		"a pod of no namespace":      {about(func(o *corev1.ObjectReference) { o.Namespace = "" }), store.Object{}},
		"another kind":               {about(func(o *corev1.ObjectReference) { o.Kind = "Node" }), store.Object{}},
		"nothing":                    {about(func(o *corev1.ObjectReference) { *o = corev1.ObjectReference{} }), store.Object{}},
	} {
		r := newRig(t, defaults())
		var decided admission.Decided
		r.gate.Workloads, r.gate.Recorder = fleet{"default", "web", "web-uid"}, onDecision(func(d admission.Decided) { decided = d })
		if got := r.asks(tt.details).Write.Workload; got != tt.want {
			t.Errorf("%s: the store is asked about %s, want %s", says, got, tt.want)
		}
		if decided.Workload != tt.want {
			t.Errorf("%s: decided for %s, want %s", says, decided.Workload, tt.want)
		}
	}
}
