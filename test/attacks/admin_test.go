package attacks

import (
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store/rules"
)

// What the admin lets the tenant store: so many Events at once, and one more in each refill.
const admitted, refill = 100, 2 * time.Second

// limitsTheTenant applies the admin's quota.
func (a *arena) limitsTheTenant() {
	a.Helper()
	a.applies(fmt.Sprintf(`
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: tenants}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}
  limits: [{name: all, per: [Namespace], burst: %d, tokens: 1, interval: %s}]`, tenantsNamespace, admitted, refill))
	a.since = time.Now()
}

// mayStore is how many writes of the tenant's may have been stored until now. It takes some that the replica wrote for its own: those
// that a PATCH which changes nothing has found.
func (a *arena) mayStore() int64 {
	a.Helper()
	settled, err := a.replica.Total(a.Context(), "eventquota_settle_writes_total")
	a.must(err)
	return settled + (1+rules.FreeRepeats)*(admitted+1+int64(time.Since(a.since)/refill))
}

// brake is the file of the emergency brake that is shipped.
const brake = "../../manifests/examples/emergency-brake.yaml"

// adminActs pulls the emergency brake and releases it, and writes a quota and deletes it, while the tenant goes on. The test
// waits until each is in force for the neighbour.
func (a *arena) adminActs(round int) {
	a.Helper()
	content, err := os.ReadFile(brake)
	a.must(err)
	a.changes("emergency brake", string(content))
	a.changes("quota", fmt.Sprintf(`
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: new-%d}
spec:
  match:
    reasons: [Probe]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  limits: [{name: new-%[1]d, burst: 1, tokens: 1, interval: 1h, warningReservePercent: 0}]`, round, neighboursNamespace))
}

// changes applies a rule of the cluster until it refuses Events of the neighbour and its status says so, and deletes it until it does
// not.
func (a *arena) changes(what, object string) {
	a.Helper()
	var u unstructured.Unstructured
	a.must(yaml.Unmarshal([]byte(object), &u.Object))
	resource := a.rules.Resource(v1alpha1.Resources()[u.GetKind()])
	for _, change := range []struct {
		says    string
		do      func() error
		refuses bool
	}{
		{what, func() error {
			_, err := resource.Apply(a.Context(), u.GetName(), &u, metav1.ApplyOptions{FieldManager: "admin"})
			return err
		}, true},
		{what + " taken back", func() error { return resource.Delete(a.Context(), u.GetName(), metav1.DeleteOptions{}) }, false},
	} {
		a.must(change.do())
		began := time.Now()
		a.eventually(change.says+" is in force", func() bool { return a.refused("Probe") == change.refuses })
		a.took[change.says] = append(a.took[change.says], time.Since(began))
		if change.refuses {
			a.ready(resource, u.GetName())
		}
	}
}

// ready waits until the status of a rule says that it is in force as it is now.
func (a *arena) ready(of dynamic.ResourceInterface, name string) {
	a.Helper()
	a.eventually(name+" is Ready", func() bool {
		u, err := of.Get(a.Context(), name, metav1.GetOptions{})
		a.must(err)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == v1alpha1.ConditionReady && condition["status"] == string(metav1.ConditionTrue) &&
				condition["observedGeneration"] == u.GetGeneration()
		})
	})
}

// tellTimes says how long the admin's rules have taken to be in force.
func (a *arena) tellTimes() {
	a.Helper()
	for what, took := range a.took {
		a.Logf("in force under attack: median %s, worst %s: %s", median(took), slices.Max(took), what) // make bench reads this
	}
}

// refused writes an Event of the neighbour about another object than all others, and reports whether it was refused.
func (a *arena) refused(reason string) bool {
	a.Helper()
	a.probes++
	pod := fmt.Sprint("probe-", a.probes)
	return !a.stores(newEvent(neighboursNamespace, pod, fmt.Sprint(pod, ".", reason), reason))
}

func newEvent(namespace, pod, name, reason string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Reason:         reason, Message: "something happened", Type: corev1.EventTypeNormal,
		Source: corev1.EventSource{Component: "kubelet"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
