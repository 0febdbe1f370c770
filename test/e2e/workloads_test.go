package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/settler"
)

// workloadRules refuse nearly all Events: in shop with one notice, in mix with combined notices, and in probe by a
// policy whose status shows that the webhook knows workloads.
const workloadRules = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: fair}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}
  limits: [{name: namespace, per: [Namespace], burst: 1, tokens: 1, interval: 24h, warningReservePercent: 0}]
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: mixed}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mix}}}
  limits: [{name: namespace, per: [Namespace], burst: 1, tokens: 1, interval: 24h, warningReservePercent: 0}]
  notices: Combined
---
apiVersion: eventquota.io/v1alpha1
kind: EventPolicy
metadata: {name: probe, namespace: probe}
spec: {action: Drop}
`

// workloads is a cluster with workload objects. No controller reconciles them.
type workloads struct {
	*env

	sent, refused int64
}

// TestNoticesNameWorkloads runs a storm with Deployments whose pods come and go, pods with a forged owner, and
// clients whose Events look like notices. kubectl must show the dropped Events on one line, and every occurrence must
// be reported once.
func TestNoticesNameWorkloads(t *testing.T) {
	t.Parallel()
	e := &workloads{env: newEnv(t, "--workloads", "--status-interval=1s")}
	for _, namespace := range []string{"shop", "mix", "probe"} {
		e.namespace(namespace)
	}
	e.kubectl("", "apply", "-f", filepath.Join("..", "..", "manifests", "components", "workloads", "rbac.yaml"))
	e.kubectl(workloadRules, "apply", "-f", "-")
	for _, rule := range []string{"clustereventquota/fair", "clustereventquota/mixed", "eventpolicy/probe"} {
		e.kubectl("", "wait", rule, "-n", "probe", "--for=condition=Ready", "--timeout=2m")
	}
	const pods = 30
	for _, namespace := range []string{"shop", "mix"} {
		set := e.deployment(namespace, "web")
		for i := range pods {
			e.pod(namespace, fmt.Sprintf("web-1-%02d", i), set)
		}
		// No ReplicaSet connects this pod to the Deployment that it names.
		e.pod(namespace, "liar", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "innocent", UID: "x", Controller: new(true)})
	}
	probe := e.pod("probe", "db-0", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s", Controller: new(true)})
	e.eventually("the status of a policy names the workload of a pod", func() bool {
		e.event("probe", probe, "Killing", fmt.Sprint("probe ", e.sent))
		return strings.Contains(e.kubectl("", "get", "eventpolicy", "probe", "-n", "probe", "-o", "jsonpath={.status.topSources[*].involvedObject}"), "StatefulSet probe/db")
	})

	for _, namespace := range []string{"shop", "mix"} {
		for i := range pods {
			pod, err := e.client.CoreV1().Pods(namespace).Get(t.Context(), fmt.Sprintf("web-1-%02d", i), metav1.GetOptions{})
			e.must(err)
			e.event(namespace, pod, "Created", "created")
			if i%2 == 0 { // the next Events are about a deleted pod
				e.must(e.client.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
			}
			e.event(namespace, pod, "Killing", "stopping")
			e.event(namespace, pod, "Killing", "stopping again")
		}
	}
	for _, namespace := range []string{"shop", "mix"} {
		forged := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "forged", Annotations: map[string]string{settler.AnnotationDropped: "{}"}},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "liar"}, Reason: "Created", Message: "forged",
			Source: corev1.EventSource{Component: "eventquota"}, ReportingController: "eventquota", Type: corev1.EventTypeNormal,
		}
		if _, err := e.client.CoreV1().Events(namespace).Create(t.Context(), forged, metav1.CreateOptions{}); !isDropped(err) {
			t.Errorf("create an Event that looks like a notice: %v, want it refused like others", err)
		}
		e.sent, e.refused = e.sent+1, e.refused+1
	}
	e.stopReplica()

	line := e.kubectl("", "get", "events", "-n", "shop", "--field-selector", "reason=EventsDropped")
	t.Logf("kubectl get events -n shop:\n%s", line)
	want := fmt.Sprintf(`%d dropped: Killing, Created of %d Pods of Deployment shop/web; from kubelet, eventquota; by limit "namespace" of ClusterEventQuota fair since `, 3*pods, pods+1)
	if !strings.Contains(line, want) {
		t.Errorf("the output does not contain %q", want)
	}
	line = e.kubectl("", "get", "events", "-n", "mix")
	t.Logf("kubectl get events -n mix:\n%s", line)
	for _, want := range []string{
		fmt.Sprintf("(combined from %d Events about %d Pods of Deployment mix/web) dropped by limit", 2*pods, pods),
		fmt.Sprintf("(combined from %d Events about %d Pods of Deployment mix/web) dropped by limit", pods, pods),
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the output does not contain %q", want)
		}
	}
	if description := e.kubectl("", "describe", "deployment", "web", "-n", "mix"); !strings.Contains(description, "Killing") || !strings.Contains(description, "(combined from") {
		t.Errorf("kubectl describe deployment does not show the notices:\n%s", description)
	}
	if all := e.kubectl("", "get", "events", "-A"); strings.Contains(all, "innocent") {
		t.Errorf("an Event names the Deployment of a forged owner:\n%s", all)
	}
	// The API server writes Events of its own in default, such as ClusterIPNotAllocated while it starts.
	reported := e.reportedOccurrences("shop") + e.reportedOccurrences("mix") + e.reportedOccurrences("probe")
	if reported != e.sent {
		t.Errorf("%d occurrences are reported, want the %d sent:\n%s", reported, e.sent, e.kubectl("", "get", "events", "-A", "-o", "wide"))
	}
	e.checkNoneFailed()
}

// kubectl runs kubectl and returns its stdout.
func (e *workloads) kubectl(input string, args ...string) string {
	e.Helper()
	stdout, stderr, err := e.cluster.Kubectl(e.Context(), input, args...)
	if err != nil {
		e.Fatalf("kubectl %v: %v\n%s", args, err, stderr)
	}
	return stdout
}

// deployment creates a Deployment and its ReplicaSet, and returns a controller reference to the ReplicaSet.
func (e *workloads) deployment(namespace, name string) metav1.OwnerReference {
	e.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()}
	d, err := e.client.AppsV1().Deployments(namespace).Create(e.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	e.must(err)
	set, err := e.client.AppsV1().ReplicaSets(namespace).Create(e.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	e.must(err)
	return *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
}

// pod creates a pod with a controller.
func (e *workloads) pod(namespace, name string, controller metav1.OwnerReference) *corev1.Pod {
	e.Helper()
	pod, err := e.client.CoreV1().Pods(namespace).Create(e.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{controller}}, Spec: podSpec(),
	}, metav1.CreateOptions{})
	e.must(err)
	return pod
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}, AutomountServiceAccountToken: new(false)}
}

// event writes an Event about a pod and counts it. It may be refused.
func (e *workloads) event(namespace string, pod *corev1.Pod, reason, message string) {
	e.Helper()
	e.sent++
	now := metav1.NewTime(time.Now())
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("e%d", e.sent)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID},
		Reason:         reason, Message: message, Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "kubelet", Host: "node"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	switch {
	case isDropped(err):
		e.refused++
	case err != nil:
		e.Fatal(err)
	}
}
