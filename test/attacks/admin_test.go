package attacks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store/engine"
)

// The administrator's quota for the tenant: a burst of tenantBurst Events, and one token in each tenantRefill.
const tenantBurst, tenantRefill = 100, 2 * time.Second

// applyTenantQuota applies the administrator's quota for the tenant.
func (a *arena) applyTenantQuota() {
	a.Helper()
	a.apply(fmt.Sprintf(`
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: tenants}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}
  limits: [{name: all, per: [Namespace], burst: %d, tokens: 1, interval: %s}]`, tenantNamespace, tenantBurst, tenantRefill))
	a.quotaSince = time.Now()
}

// maxStored returns the number of Event writes that storedWrites may have counted so far. It includes the replica's own writes, because
// storedWrites counts their resource versions if a PATCH without a change returns them.
func (a *arena) maxStored() int64 {
	a.Helper()
	replicaWrites, err := a.replica.Sum(a.Context(), "eventquota_settler_writes_total")
	a.must(err)
	return replicaWrites + (1+engine.FreeRetries)*(tenantBurst+1+int64(time.Since(a.quotaSince)/tenantRefill))
}

// runAdmin pulls and releases the emergency brake, and then writes and deletes a quota, while the tenant continues. After each change it
// waits until the change is in force for the neighbour.
func (a *arena) runAdmin(round int) {
	a.Helper()
	// Under another name, as the one that is installed stays.
	pulled := strings.NewReplacer("mode: Disabled", "mode: Enforce", "name: emergency-brake", "name: pulled-brake")
	a.applyAndDelete("emergency brake", pulled.Replace(string(manifests.EmergencyBrake())))
	a.applyAndDelete("quota", fmt.Sprintf(`
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: new-%d}
spec:
  match:
    reasons: [Probe]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  limits: [{name: new-%[1]d, burst: 1, tokens: 1, interval: 1h, warningReservePercent: 0}]`, round, neighbourNamespace))
}

// applyAndDelete applies a rule and waits until it refuses the neighbour's Events and is Ready. Then it deletes the rule and waits until
// the Events are admitted again.
func (a *arena) applyAndDelete(what, object string) {
	a.Helper()
	var u unstructured.Unstructured
	a.must(yaml.Unmarshal([]byte(object), &u.Object))
	resource := a.rules.Resource(v1alpha1.Resources()[u.GetKind()])
	for _, change := range []struct {
		title   string
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
		a.eventually(change.title+" is in force", func() bool { return a.probeRefused("Probe") == change.refuses })
		a.applyTimes[change.title] = append(a.applyTimes[change.title], time.Since(began))
		if change.refuses {
			a.waitForReady(resource, u.GetName())
		}
	}
}

// waitForReady waits until a rule is Ready at its current generation.
func (a *arena) waitForReady(rules dynamic.ResourceInterface, name string) {
	a.Helper()
	a.eventually(name+" is Ready", func() bool {
		u, err := rules.Get(a.Context(), name, metav1.GetOptions{})
		a.must(err)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == v1alpha1.ConditionReady && condition["status"] == string(metav1.ConditionTrue) &&
				condition["observedGeneration"] == u.GetGeneration()
		})
	})
}

// logTimes logs how long the administrator's changes took to come into force.
func (a *arena) logTimes() {
	a.Helper()
	for title, took := range a.applyTimes {
		a.Logf("in force under attack: median %s, worst %s: %s", median(took), slices.Max(took), title) // make bench reads this
	}
}

// probeRefused writes an Event of the neighbour about a new object, and reports whether it was refused.
func (a *arena) probeRefused(reason string) bool {
	a.Helper()
	a.probes++
	pod := fmt.Sprint("probe-", a.probes)
	return !a.tryCreate(newEvent(neighbourNamespace, pod, fmt.Sprint(pod, ".", reason), reason))
}

// newEvent returns an Event about a pod, as a kubelet writes it.
func newEvent(namespace, pod, name, reason string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Reason:         reason, Message: "something happened", Type: corev1.EventTypeNormal,
		Source: corev1.EventSource{Component: "kubelet"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
