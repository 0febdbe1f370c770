package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/storm"
)

// testEmergencyBrake pulls the emergency brake during a storm, and releases it. Each takes one command.
func (e *setEnv) testEmergencyBrake() {
	e.Helper()
	a := newReplicaClient(e, e.namespace("asked"))
	e.waitPoliciesInForce(a)
	namespace, before := e.namespace("storm"), e.answered()
	end := storm.RunPaced(e.Context(), e.config, 2*pace, 2, func(int, int) (storm.Storm, error) {
		return storm.Storm{Namespace: namespace, Pods: 30, Events: 30, Repeating: 2, Similar: 2, Series: 1, Reasons: 2}, nil
	})
	defer func() { e.must(end()) }()
	e.eventually("the storm is under way", func() bool { return e.answered() > before+stormStartedAfter })

	e.brake("on", "--reason", "a storm")
	a.waitDrops("emergency-brake", true)
	for range 20 {
		for i := range e.set.Replicas {
			if !a.drops(i, corev1.EventTypeNormal, "emergency-brake") || !a.drops(i, "", "emergency-brake") {
				e.Errorf("replica %d admits an Event that is not a Warning", i)
			}
			if a.drops(i, corev1.EventTypeWarning, "emergency-brake") {
				e.Errorf("replica %d drops a Warning", i)
			}
		}
	}
	warning := coreEvent("asked", "warning", "braked", "stored despite the brake")
	if _, err := e.client.CoreV1().Events("asked").Create(e.Context(), warning, metav1.CreateOptions{}); err != nil {
		e.Errorf("create a Warning through the API server: %v", err)
	}
	waitForCalls := func() {
		calls := e.answered()
		e.eventually("the storm continues", func() bool { return e.answered() > calls+stormStartedAfter })
	}
	waitForCalls() // by then, Events admitted earlier are stored
	stored := e.storedNormals(namespace)
	waitForCalls()
	failed, err := e.cluster.WebhookFailures(e.Context()) // on a busy machine, the API server admits some Events without an answer
	e.must(err)
	if after := e.storedNormals(namespace); stored == 0 || after > stored+int(failed) {
		e.Errorf("%d Normal Events were stored when the brake came into force, and %d later; want some, and at most %d more for failed calls", stored, after, failed)
	}

	e.brake("off")
	a.waitDrops("emergency-brake", false)
}

// testBrakeEndsByItself pulls the brake for some seconds. The one replica has no Redis, so there is no election.
func (e *env) testBrakeEndsByItself() {
	e.Helper()
	namespace := e.namespace("braked")
	e.waitPoliciesGovern(namespace)
	n := 0
	// write writes an Event that is merged with no other.
	write := func(eventType string) error {
		n++
		event := coreEvent(namespace, fmt.Sprint("braked-", n), fmt.Sprint("web-", n), "written once")
		event.Type = eventType
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		return err
	}
	e.must(write(corev1.EventTypeNormal))

	const lasts = 15 * time.Second
	pulled := time.Now()
	e.brake("on", "--reason", "a story", "--for", lasts.String())
	e.eventually("the brake refuses Normal Events", func() bool {
		err := write(corev1.EventTypeNormal)
		if err != nil && !isDropped(err) {
			e.Fatal(err)
		}
		return err != nil
	})
	e.must(write(corev1.EventTypeWarning))

	e.eventually("Normal Events are stored again", func() bool { return write(corev1.EventTypeNormal) == nil })
	if took := time.Since(pulled); took < lasts-time.Second { // the end is in whole seconds
		e.Errorf("the brake ended after %s, want at least %s", took, lasts)
	}
	if status := e.brake("status"); status != "The emergency brake is off.\n" {
		e.Errorf("status after the end:\n%s", status)
	}
	if !strings.Contains(e.replica.Log(), "Released an emergency brake") {
		e.Error("the replica does not log that it released the brake")
	}
	if left := e.kubectl("", "get", "clustereventpolicy", "emergency-brake", "-o", "jsonpath={.metadata.annotations}"); strings.Contains(left, "brake-") {
		e.Errorf("annotations are left: %s", left)
	}
	e.brake("off")
}

// brake runs `eventquota brake`, and returns what it prints.
func (e *env) brake(args ...string) string {
	e.Helper()
	kubeconfig, err := e.cluster.Kubeconfig()
	e.must(err)
	out, err := exec.CommandContext(e.Context(), e.program(), append([]string{"brake", "--kubeconfig", kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		e.Fatalf("brake %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// waitPoliciesInForce waits until every replica has applied all policies on the API server. An API server that has
// just received the CRDs needs some time to serve them.
func (e *setEnv) waitPoliciesInForce(a *replicaClient) {
	e.Helper()
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: mark}\nspec: {tier: Admin, action: Drop}")
	for i := range e.set.Replicas {
		e.eventually("a replica applies policies", func() bool { return a.drops(i, corev1.EventTypeNormal, "mark") })
	}
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: mark}\nspec: {mode: Disabled}")
	a.waitDrops("mark", false)
}

// storedNormals counts the stored Normal Events except notices, which may arrive at any time.
func (e *setEnv) storedNormals(namespace string) (n int) {
	e.Helper()
	for _, event := range e.stored(namespace) {
		if event.Type == corev1.EventTypeNormal && !settler.IsNotice(&event) {
			n++
		}
	}
	return n
}

// waitDrops waits until every replica drops Normal Events by the named policy, or no longer does. It fails the test
// if that takes longer than inForceWithin after kubectl, which has just ended.
func (a *replicaClient) waitDrops(policy string, drops bool) {
	a.Helper()
	began := time.Now()
	for i := range a.set.Replicas {
		for a.drops(i, corev1.EventTypeNormal, policy) != drops {
			if time.Since(began) > inForceWithin {
				a.Fatalf("replica %d, %s after kubectl: policy %s drops Normal Events: %t, want %t", i, inForceWithin, policy, !drops, drops)
			}
		}
		a.Logf("replica %d: policy %s drops Normal Events: %t, %s after kubectl", i, policy, drops, time.Since(began).Round(time.Millisecond))
	}
}

// replicaClient sends reviews to a single replica, as the API server sends them to the Service. The Events in them
// are not stored.
type replicaClient struct {
	*setEnv

	client    *http.Client
	namespace string
	sent      int
}

// newReplicaClient makes a client that sends Events of a namespace.
func newReplicaClient(e *setEnv, namespace string) *replicaClient {
	e.Helper()
	webhooks := e.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	installed, err := webhooks.Get(e.Context(), cluster.MutatingWebhook, metav1.GetOptions{})
	e.must(err)
	called := installed.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(called.CABundle)
	return &replicaClient{setEnv: e, namespace: namespace, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots,
			ServerName: called.Service.Name + "." + called.Service.Namespace + ".svc",
		}},
	}}
}

// drops reports whether a replica drops a unique Event of a type by the named policy. Any answer other than that or
// an admission fails the test.
func (a *replicaClient) drops(replica int, eventType, policy string) bool {
	a.Helper()
	a.sent++
	event := coreEvent(a.namespace, fmt.Sprint("asked-", a.sent), fmt.Sprint("web-", a.sent), "asked once")
	event.Type = eventType
	object, err := json.Marshal(event)
	a.must(err)
	events := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(event.Name), Kind: kind, RequestKind: &kind, Resource: events, RequestResource: &events,
			Name: event.Name, Namespace: a.namespace, Operation: admissionv1.Create,
			UserInfo: authenticationv1.UserInfo{Username: "asker"}, Object: runtime.RawExtension{Raw: object},
		},
	})
	a.must(err)
	response := a.post(a.set.Replicas[replica].URL+"/mutate?timeout="+webhookTimeout.Round(time.Second).String(), review)
	if response.Allowed {
		return false
	}
	if !strings.HasSuffix(response.Result.Message, "ClusterEventPolicy "+policy+" drops it") {
		a.Fatalf("replica %d: %v", replica, response.Result)
	}
	return true
}

func (a *replicaClient) post(url string, review []byte) *admissionv1.AdmissionResponse {
	a.Helper()
	request, err := http.NewRequestWithContext(a.Context(), http.MethodPost, url, bytes.NewReader(review))
	a.must(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	a.must(err)
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	a.must(json.NewDecoder(response.Body).Decode(&answer))
	return answer.Response
}
