package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// onePodWorkload knows the workload of one pod.
type onePodWorkload struct{ namespace, name, uid string }

// Find implements admission.Workloads.
func (f onePodWorkload) Find(namespace, kind, name, uid string) (store.Object, bool) {
	if kind != "Pod" || namespace != f.namespace || name != f.name || uid != "" && uid != f.uid {
		return store.Object{}, false
	}
	return deployment(), true
}

func deployment() store.Object {
	return store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web", UID: "deployment-uid"}
}

// TestWorkloadIsFoundWithinNamespaceOnly has Events about objects of other namespaces, or of none, which anyone may write about.
func TestWorkloadIsFoundWithinNamespaceOnly(t *testing.T) {
	t.Parallel()
	about := func(change func(*corev1.ObjectReference)) details {
		return details{changeEvent(func(e *corev1.Event) { change(&e.InvolvedObject) })}
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
		var decided admission.DecidedWrite
		r.gate.Workloads, r.gate.Observer = onePodWorkload{"default", "web", "web-uid"}, decisionFunc(func(d admission.DecidedWrite) { decided = d })
		if got := r.captureCreate(tt.details).Write.Workload; got != tt.want {
			t.Errorf("%s: the store is asked about %s, want %s", says, got, tt.want)
		}
		if decided.Workload != tt.want {
			t.Errorf("%s: decided for %s, want %s", says, decided.Workload, tt.want)
		}
	}
}
