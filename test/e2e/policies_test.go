package e2e

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/eventtest"
)

// inForceWithin bounds the time until a policy is in force, on a busy machine. Tests log the actual time.
const inForceWithin = 5 * time.Second

// apply creates or replaces a policy.
func (e *env) apply(policy string) {
	e.Helper()
	u := &unstructured.Unstructured{}
	e.must(yaml.UnmarshalStrict([]byte("apiVersion: eventquota.io/v1alpha1\n"+policy), &u.Object))
	client, err := dynamic.NewForConfig(e.config)
	e.must(err)
	_, err = client.Resource(v1alpha1.Resources()[u.GetKind()]).Namespace(u.GetNamespace()).Apply(e.Context(), u.GetName(), u,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
	e.must(err)
}

// write creates an Event that no other is similar to. kind is its type.
func (e *env) write(namespace, kind string, n int) error {
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", strings.ToLower(kind), n)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprint("web-", n)},
		Source:         corev1.EventSource{Component: "kubelet"},
		Type:           kind, Reason: "Started", Message: fmt.Sprint("started ", n), Count: 1,
	}, metav1.CreateOptions{})
	return err
}

// writeUntil writes Events until answered returns true for the result of one, and logs the elapsed time. It returns
// the number of the next Event.
func (e *env) writeUntil(namespace, kind string, from int, answered func(error) bool) (n int) {
	e.Helper()
	began := time.Now()
	for n = from; ; n++ {
		err := e.write(namespace, kind, n)
		if answered(err) {
			e.Logf("in force after %v", time.Since(began).Round(time.Millisecond))
			return n + 1
		}
		if time.Since(began) > time.Minute {
			e.Fatalf("not in force within a minute: %v", err)
		}
	}
}

// waitPoliciesGovern waits until the policies applied so far are in force, and returns the number of the next Event.
// An API server that has just received the CRDs needs some time to serve them. Policies come into force in the order
// of their changes.
func (e *env) waitPoliciesGovern(namespace string) (n int) {
	e.Helper()
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: mark}\n" +
		"spec: {tier: Admin, action: Drop, match: {types: [Warning]}}")
	n = e.writeUntil(namespace, corev1.EventTypeWarning, 0, isDroppedBy("ClusterEventPolicy mark"))
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: mark}\nspec: {mode: Disabled}")
	return e.writeUntil(namespace, corev1.EventTypeWarning, n, isStored)
}

func isDroppedBy(policy string) func(error) bool {
	return func(err error) bool {
		return isDropped(err) && strings.Contains(err.Error(), policy+" drops it")
	}
}

func isStored(err error) bool { return err == nil }

func isMerged(err error) bool { return eventtest.Refusal(err) == admission.Merged }

func isDropped(err error) bool { return eventtest.Refusal(err) == admission.Dropped }

// isRefusedUnmerged reports whether eventquota refused a write without merging it.
func isRefusedUnmerged(err error) bool {
	return eventtest.Refusal(err) != "" && !isMerged(err)
}
