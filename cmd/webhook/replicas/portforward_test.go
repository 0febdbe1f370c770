package replicas

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// configuration returns a webhook configuration of eventquota for services, each with an invalid CA.
func configuration(services ...string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: strings.Join(services, "-") + "-x", Labels: map[string]string{"app.kubernetes.io/name": "eventquota"}},
	}
	for _, s := range services {
		namespace, name, _ := strings.Cut(s, "/")
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name}, CABundle: []byte("no CA"),
		}})
	}
	return c
}

// pod returns a pod of the service, with a named port.
func pod(n int, ready corev1.ConditionStatus, port string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: fmt.Sprint("eventquota-", n), Labels: map[string]string{"app": "eventquota"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: port, ContainerPort: 8443}}}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// TestFindReplicaInCluster covers the objects that a cluster may have. test/kwok connects to a real replica.
func TestFindReplicaInCluster(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "eventquota"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "eventquota"}},
	}
	other := pod(9, corev1.ConditionTrue, "metrics")
	other.Labels["app"] = "other"
	leaving := pod(0, corev1.ConditionTrue, "metrics")
	leaving.DeletionTimestamp = &metav1.Time{}
	unlabeled := configuration("system/other")
	unlabeled.Labels = nil
	for name, test := range map[string]struct {
		objects   []runtime.Object
		want, err string
	}{
		"a ready replica":              {[]runtime.Object{configuration("system/eventquota", "system/eventquota"), unlabeled, service, leaving, pod(1, corev1.ConditionFalse, "metrics"), pod(2, corev1.ConditionTrue, "metrics"), other}, "eventquota-2 8443", ""},
		"not installed":                {[]runtime.Object{unlabeled, service}, "", "no validating webhook configuration with label app.kubernetes.io/name=eventquota names a service: is eventquota installed in this cluster?"},
		"installed twice":              {[]runtime.Object{configuration("a/eventquota"), configuration("b/eventquota")}, "", "webhook configurations name several services, in namespaces a and b"},
		"no service":                   {[]runtime.Object{configuration("system/eventquota")}, "", `services "eventquota" not found`},
		"no ready pod":                 {[]runtime.Object{configuration("system/eventquota"), service, pod(1, corev1.ConditionFalse, "metrics"), other}, "", "no ready pod has a port named metrics"},
		"a pod without a metrics port": {[]runtime.Object{configuration("system/eventquota"), service, pod(1, corev1.ConditionTrue, "webhook")}, "", "no ready pod has a port named metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(test.objects...)
			webhook, err := findService(t.Context(), client)
			got := ""
			if err == nil {
				var found string
				var port int32
				if found, port, err = findPod(t.Context(), client, webhook.Service); err == nil {
					got = fmt.Sprint(found, " ", port)
				}
			}
			if got != test.want || test.err == "" && err != nil || test.err != "" && (err == nil || err.Error() != test.err) {
				t.Errorf("found %q, error %v, want %q, error %q", got, err, test.want, test.err)
			}
		})
	}
}
