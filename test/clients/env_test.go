package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

const (
	// writer is the user of all clients.
	writer = "writer"
	// validatingOnly is the component without a mutating webhook.
	validatingOnly = "components/validating-only"
	// webhookTimeout is so long that no test depends on the load of the machine, in seconds.
	webhookTimeout int32 = 10
	// policyMetric counts the policies and quotas of a replica.
	policyMetric = "eventquota_policies"
)

// env is a cluster whose API server calls the replicas of a set.
type env struct {
	*testing.T
	cluster    *cluster.Cluster
	set        *replica.Set
	config     *rest.Config // of the writer
	kubeconfig string       // path of the same
	client     kubernetes.Interface
	installed  string
	running    []int // replicas, by index
	rules      int64 // policies and quotas
}

// newEnv starts n replicas, which stop when the test ends, and installs the webhooks, as a component of manifests does.
func newEnv(t *testing.T, installed string, n int, flags ...string) *env {
	t.Helper()
	e := &env{T: t, cluster: planes.ForTest(t), installed: installed}
	for i := range n {
		e.running = append(e.running, i)
	}
	var err error
	e.config, e.kubeconfig, err = e.cluster.User(writer, "system:masters")
	e.must(err)
	e.client, err = kubernetes.NewForConfig(e.config)
	e.must(err)
	program, err := replica.Build(t.Context())
	e.must(err)
	e.set, err = replica.StartSet(t.Context(), e.cluster, program, n, flags...)
	e.must(err)
	t.Cleanup(func() {
		for i, r := range e.set.Replicas {
			if t.Failed() {
				t.Logf("log of replica %d:\n%s", i, r.Log())
			}
		}
		e.set.Close()
	})
	if installed == validatingOnly {
		e.installValidatingOnly()
	} else {
		e.must(e.set.Install(t.Context()))
	}
	e.rules = e.metric(0, policyMetric)
	if n == 1 {
		return e // it writes all counts when it stops
	}
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: clients}\nspec: {merge: {writeInterval: 1s, maxWriteInterval: 2s}}")
	return e
}

// installValidatingOnly makes the API server call the Service with the component.
func (e *env) installValidatingOnly() {
	e.Helper()
	objects, err := shipped.Objects(shipped.Base, validatingOnly)
	e.must(err)
	if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "MutatingWebhookConfiguration" }) {
		e.Fatalf("%s has a mutating webhook", validatingOnly)
	}
	var hooks admissionregistrationv1.ValidatingWebhookConfiguration
	e.must(shipped.FindInto(objects, "ValidatingWebhookConfiguration", cluster.ValidatingWebhook, &hooks))
	for i := range hooks.Webhooks {
		hooks.Webhooks[i].ClientConfig.CABundle = e.set.Replicas[0].CA()
		hooks.Webhooks[i].TimeoutSeconds = new(webhookTimeout)
	}
	e.must(e.cluster.InstallValidating(e.Context(), &hooks, metav1.NamespaceDefault))
}

// must fails the test if there is an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// namespace creates a namespace.
func (e *env) namespace(name string) string {
	e.Helper()
	_, err := e.client.CoreV1().Namespaces().Create(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	e.must(err)
	return name
}

// apply creates a policy or quota.
func (e *env) apply(rule string) {
	e.Helper()
	u := &unstructured.Unstructured{}
	e.must(yaml.UnmarshalStrict([]byte("apiVersion: eventquota.io/v1alpha1\n"+rule), &u.Object))
	client, err := dynamic.NewForConfig(e.config)
	e.must(err)
	_, err = client.Resource(v1alpha1.Resources()[u.GetKind()]).Namespace(u.GetNamespace()).Create(e.Context(), u, metav1.CreateOptions{})
	e.must(err)
	e.rules++
}

// limit gives a namespace a quota of a few Events, which does not refill during a test.
func (e *env) limit(namespace string) {
	e.Helper()
	e.apply(fmt.Sprintf("kind: EventQuota\nmetadata: {name: few, namespace: %s}\nspec: {limits: [{name: all, burst: %d, tokens: 1, interval: 12h}]}", namespace, quotaBurst))
}

// waitRules waits until the replicas that run have all policies and quotas.
func (e *env) waitRules() {
	e.Helper()
	cli.Eventually(e.T, "every replica has all policies and quotas", func() bool {
		have := e.each(policyMetric)
		return slices.Min(have) == e.rules && slices.Max(have) == e.rules
	})
}

// checkCalls checks that no webhook call has failed so far, apart from one for each replica that was stopped. A replica may close an idle
// connection at the moment at which the API server begins a call on it.
func (e *env) checkCalls(stopped int64) {
	e.Helper()
	if failed, err := e.cluster.WebhookFailures(e.Context()); err != nil || failed > stopped {
		e.Errorf("%d webhook calls failed (%v), want at most %d:\n%s", failed, err, stopped, e.cluster.WebhookErrors())
	}
}

// each returns a metric of each replica that runs.
func (e *env) each(metric string) (values []int64) {
	e.Helper()
	for _, i := range e.running {
		values = append(values, e.metric(i, metric))
	}
	return values
}

// metric returns the sum of a metric of a replica.
func (e *env) metric(i int, name string) int64 {
	e.Helper()
	n, err := e.set.Replicas[i].Sum(e.Context(), name)
	e.must(err)
	return n
}

// stored returns how many occurrences the stored Events of each namespace report, including notices.
func (e *env) stored() map[string]int64 {
	e.Helper()
	list, err := e.client.CoreV1().Events("").List(e.Context(), metav1.ListOptions{})
	e.must(err)
	sums := map[string]int64{}
	for i := range list.Items {
		event := &list.Items[i]
		n := int64(max(event.Count, 1))
		if event.Series != nil {
			n = int64(event.Series.Count)
		}
		sums[event.Namespace] += n
	}
	return sums
}

// describe lists the stored Events of a namespace.
func (e *env) describe(namespace string) string {
	e.Helper()
	list, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{})
	e.must(err)
	var text strings.Builder
	for i := range list.Items {
		event := &list.Items[i]
		fmt.Fprintf(&text, "%s: count %d, series %v, %s %s, %v\n", event.Name, event.Count, event.Series, event.Reason, event.Message, event.Annotations)
	}
	return text.String()
}
