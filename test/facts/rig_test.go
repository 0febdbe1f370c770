// Package facts checks facts about the API server that the design depends on. A failure means that a new Kubernetes version behaves
// differently, and that code that depends on the fact needs a review.
package facts

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
)

// exemptUser is a user whose writes the webhooks do not review.
const exemptUser = "exempt"

// webhookTimeout is the timeout of the webhooks in seconds. It is long, because no fact is about a late webhook.
const webhookTimeout int32 = 20

// rig is a control plane with webhooks that record their calls and answer as a test specifies.
type rig struct {
	*cluster.Cluster

	client kubernetes.Interface // client of the administrator
	exempt kubernetes.Interface // client of exemptUser, also an administrator

	policies dynamic.Interface // client of the administrator; nil until the CRDs are installed

	url string // base URL of the webhooks
	ca  []byte // their CA certificate in PEM

	mu      sync.Mutex
	calls   map[string][]call // by namespace, oldest first
	answers map[string]answer // by namespace
}

// call is a call of a webhook.
type call struct {
	path    string // /mutate, /validate or /other
	proto   string // HTTP version, such as HTTP/2.0
	timeout string // timeout parameter of the URL
	request *admissionv1.AdmissionRequest
}

// answer returns the response to a call. The rig calls it without holding its mutex, so that it may write Events.
type answer func(call) *admissionv1.AdmissionResponse

// newRig starts a control plane and installs /mutate and /validate.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		Cluster: cluster.ForTest(t, cluster.Options{NoAudit: true}),
		calls:   map[string][]call{},
		answers: map[string]answer{},
	}
	config, _, err := r.User(exemptUser, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if r.client, err = kubernetes.NewForConfig(r.Config); err != nil {
		t.Fatal(err)
	}
	if r.exempt, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the API server exits with open connections
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url, r.ca = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	r.installBoth(t)
	return r
}

// namespace creates a namespace whose Event writes are answered by respond. A nil respond admits all.
func (r *rig) namespace(t *testing.T, name string, respond answer) {
	t.Helper()
	r.respond(name, respond)
	_, err := r.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// respond sets the answer to Event writes in a namespace. A nil answer admits all.
func (r *rig) respond(namespace string, answer answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[namespace] = answer
}

// takePaths removes the recorded calls for a namespace and returns their paths, sorted.
func (r *rig) takePaths(namespace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var paths []string
	for _, c := range r.calls[namespace] {
		paths = append(paths, c.path)
	}
	delete(r.calls, namespace)
	slices.Sort(paths)
	return paths
}

// takeCalls removes the recorded calls of a path for a namespace and returns them. It ends the test unless there are n.
func (r *rig) takeCalls(t *testing.T, namespace, path string, n int) []call {
	t.Helper()
	taken := r.takePath(namespace, path)
	if len(taken) != n {
		t.Fatalf("%s was called %d times, want %d", path, len(taken), n)
	}
	return taken
}

// takePath removes the recorded calls of a path for a namespace and returns them.
func (r *rig) takePath(namespace, path string) (taken []call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var other []call
	for _, c := range r.calls[namespace] {
		if c.path == path {
			taken = append(taken, c)
		} else {
			other = append(other, c)
		}
	}
	r.calls[namespace] = other
	return taken
}

// serve records a call and answers it.
func (r *rig) serve(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := call{path: request.URL.Path, proto: request.Proto, timeout: request.URL.Query().Get("timeout"), request: review.Request}
	r.mu.Lock()
	r.calls[c.request.Namespace] = append(r.calls[c.request.Namespace], c)
	respond := r.answers[c.request.Namespace]
	r.mu.Unlock()

	review.Response = &admissionv1.AdmissionResponse{Allowed: true}
	if respond != nil {
		review.Response = respond(c)
	}
	review.Response.UID, review.Request = c.request.UID, nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
