package e2e

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cluster"
)

// uninstalls takes away what was installed, as docs/operations.md says: first the API server is
// told not to call any more, then everything goes. Nothing that is left may block a write.
func (e *absentEnv) uninstalls(namespace string) {
	e.Helper()
	e.kubectl("", "apply", "-f", exampleDir+"/emergency-brake.yaml") // a policy, which goes along
	for kind, name := range configurations() {
		e.kubectl("", "delete", kind, name)
	}
	e.eventually("the API server does not call any more", func() bool {
		before := e.calls()
		e.probe(namespace)
		after := e.calls()
		return before[cluster.MutatingWebhook].Total == after[cluster.MutatingWebhook].Total &&
			before[cluster.ValidatingWebhook].Total == after[cluster.ValidatingWebhook].Total
	})
	// No controller runs here that would empty the namespace, so kubectl does not wait for it.
	e.kubectl("", "delete", "--ignore-not-found", "--wait=false", "-k", shippedOverlay)
	e.eventually("all is gone but the namespace, which a controller would empty", func() bool {
		left := e.kubectl("", "get", "--ignore-not-found", "-o", "name", "-k", shippedOverlay)
		return strings.TrimSpace(left) == "namespace/"+cluster.ServiceNamespace
	})
	ending, err := e.client.CoreV1().Namespaces().Get(e.Context(), cluster.ServiceNamespace, metav1.GetOptions{})
	e.must(err)
	if ending.DeletionTimestamp == nil || len(ending.Finalizers) > 0 {
		e.Errorf("the namespace is not on its way: deleted at %v, finalizers %q", ending.DeletionTimestamp, ending.Finalizers)
	}
	for _, group := range []string{"eventquota.io", "admissionregistration.k8s.io"} {
		kinds := e.kubectl("", "api-resources", "--api-group="+group, "--no-headers", "-o", "name")
		for kind := range strings.FieldsSeq(kinds) {
			if left := e.kubectl("", "get", kind, "-A", "-o", "name"); strings.Contains(left, "eventquota") {
				e.Errorf("%s is left", left)
			}
		}
	}
	before := e.calls()
	_, err = e.client.CoreV1().Events(namespace).Create(e.Context(),
		coreEvent(namespace, "afterwards", "web", "back-off"), metav1.CreateOptions{})
	e.must(err)
	if after := e.calls(); !maps.Equal(after, before) {
		e.Errorf("webhooks were called %v times, want %v as before", after, before)
	}
}
