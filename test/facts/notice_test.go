package facts

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/eventtest"
)

// validNotices checks which notices the API server accepts, and which ones kubectl describe of their object shows.
func (r *rig) validNotices(t *testing.T) {
	r.namespace(t, "f38", nil)
	namespace, err := r.client.CoreV1().Namespaces().Get(t.Context(), "f38", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ofNamespace := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "f38", UID: namespace.UID}
	ofCluster := reference(r.policy(t, v1alpha1.KindClusterEventPolicy, "", "f38"))
	inNamespace := reference(r.policy(t, v1alpha1.KindEventPolicy, "f38", "f38"))
	withNamespace := func(namespace string, object corev1.ObjectReference) corev1.ObjectReference {
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
		namespace string // of the notice
		about     corev1.ObjectReference
		change    func(e *corev1.Event) // nil for a notice as eventquota writes it
		invalid   string                // fields that the API server refuses
		described bool
	}{
		{name: "about a namespace, in it, with involvedObject.namespace", namespace: "f38", about: withNamespace("f38", ofNamespace)},
		{name: "about a namespace, in it, without involvedObject.namespace", namespace: "f38", about: ofNamespace, invalid: "involvedObject.namespace"},

		{name: "about an object of a namespace", namespace: "f38", about: withNamespace("f38", inNamespace), described: true},

		{name: "about an object of the cluster, in default", namespace: "default", about: ofCluster, described: true},
		{name: "about an object of the cluster, in default, without uid", namespace: "default", about: noUID},
		{name: "about an object of the cluster, in a namespace", namespace: "f38", about: ofCluster, invalid: "involvedObject.namespace"},

		{name: "with eventTime only", namespace: "kube-system", about: ofCluster, change: eventTime,
			invalid: "reportingComponent reportingInstance action"},
		{name: "with eventTime and its required fields, in kube-system", namespace: "kube-system", about: ofCluster, change: complete, described: true},
		{name: "with eventTime and its required fields, in a namespace", namespace: "f38", about: ofCluster, change: complete,
			invalid: "involvedObject.namespace"},
	}
	for i, test := range tests {
		notice := eventtest.Core(test.namespace, fmt.Sprintf("notice-%d", i))
		notice.InvolvedObject, notice.Message = test.about, test.name+"."
		notice.Source = corev1.EventSource{Component: "eventquota"}
		if test.change != nil {
			test.change(notice)
		}
		_, err := r.client.CoreV1().Events(test.namespace).Create(t.Context(), notice, metav1.CreateOptions{})
		if got := invalidFields(t, err); got != test.invalid {
			t.Errorf("%s: got invalid fields %q, want %q (error %v)", test.name, got, test.invalid, err)
		}
	}

	described := r.kubectl(t, "describe", "namespace", "f38") +
		r.kubectl(t, "describe", v1alpha1.KindClusterEventPolicy, "f38") +
		r.kubectl(t, "describe", v1alpha1.KindEventPolicy, "f38", "--namespace=f38")
	for _, test := range tests {
		if got := strings.Contains(described, test.name+"."); got != test.described {
			t.Errorf("%s: shown by kubectl describe: got %t, want %t:\n%s", test.name, got, test.described, described)
		}
	}
	for _, args := range [][]string{
		{"get", "events", "--namespace=f38"},
		{"events", "--namespace=f38", "--for=namespace/f38"},
	} {
		if got := r.kubectl(t, args...); !strings.Contains(got, tests[0].name+".") {
			t.Errorf("kubectl %s does not show the notice about a namespace:\n%s", strings.Join(args, " "), got)
		}
	}
}

// reference returns a reference to an object of the cluster.
func reference(object *unstructured.Unstructured) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(),
	}
}
