package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/cluster"
)

// asker asks single replicas what they make of Events, as the API server asks the
// Service. What it asks about is written nowhere.
type asker struct {
	*setEnv

	client    *http.Client
	namespace string
	asked     int
}

// newAsker is an asker about Events of a namespace.
func newAsker(e *setEnv, namespace string) *asker {
	e.Helper()
	webhooks := e.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	installed, err := webhooks.Get(e.Context(), cluster.MutatingWebhook, metav1.GetOptions{})
	e.must(err)
	called := installed.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(called.CABundle)
	return &asker{setEnv: e, namespace: namespace, client: &http.Client{
		Timeout: webhookTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots,
			ServerName: called.Service.Name + "." + called.Service.Namespace + ".svc",
		}},
	}}
}

// drops tells whether a policy drops, at a replica, an Event of a type that is unlike
// all others. Anything but that and an admission fails the test.
func (a *asker) drops(replica int, eventType, policy string) bool {
	a.Helper()
	a.asked++
	event := coreEvent(a.namespace, fmt.Sprint("asked-", a.asked), fmt.Sprint("web-", a.asked), "asked once")
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
	if !strings.HasSuffix(response.Result.Message, fmt.Sprintf("policy %q drops it", "ClusterEventPolicy "+policy)) {
		a.Fatalf("replica %d: %v", replica, response.Result)
	}
	return true
}

func (a *asker) post(url string, review []byte) *admissionv1.AdmissionResponse {
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
