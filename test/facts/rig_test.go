// Package facts re-checks on a real API server what the design takes for granted about
// it. A failure here means that a new Kubernetes version behaves differently, and that
// whatever leans on the fact has to be looked at.
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

// exemptUser is the user whose writes the webhooks do not see.
const exemptUser = "exempt"

// webhookTimeout is in seconds, and long: no fact is about a webhook that is late.
const webhookTimeout int32 = 20

// rig is a control plane that asks a webhook which notes what it sees and answers what
// a test says.
type rig struct {
	*cluster.Cluster

	client kubernetes.Interface // the administrator's
	exempt kubernetes.Interface // the exempt user's, an administrator too

	policies dynamic.Interface // the administrator's; nil before the API server serves policies

	url string // where the webhooks are served
	ca  []byte // PEM certificate to trust there

	mu      sync.Mutex
	calls   map[string][]call // by namespace, oldest first
	answers map[string]answer // by namespace
}

// call is one call of the webhook.
type call struct {
	path    string // /mutate, /validate or /other
	proto   string // HTTP version, such as HTTP/2.0
	timeout string // what the API server said in the URL
	request *admissionv1.AdmissionRequest
}

// answer decides about a call. It runs without the rig's lock and may write Events.
type answer func(call) *admissionv1.AdmissionResponse

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
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the API server ends with its connections open
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url, r.ca = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	r.installBoth(t)
	return r
}

// namespace makes a namespace, in which respond decides about Events. Nil admits all.
func (r *rig) namespace(t *testing.T, name string, respond answer) {
	t.Helper()
	r.respond(name, respond)
	_, err := r.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// respond lets answer decide about Events in namespace from now on. Nil admits all.
func (r *rig) respond(namespace string, answer answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[namespace] = answer
}

// takePaths returns the paths that were called about Events in namespace since the last look,
// sorted.
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

// takeCalls returns the calls of path about Events in namespace since the last look, and
// fails the test unless there are n of them.
func (r *rig) takeCalls(t *testing.T, namespace, path string, n int) []call {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen, other []call
	for _, c := range r.calls[namespace] {
		if c.path == path {
			seen = append(seen, c)
		} else {
			other = append(other, c)
		}
	}
	r.calls[namespace] = other
	if len(seen) != n {
		t.Fatalf("%s was called %d times, want %d", path, len(seen), n)
	}
	return seen
}

func (r *rig) serve(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	one := call{path: request.URL.Path, proto: request.Proto, timeout: request.URL.Query().Get("timeout"), request: review.Request}
	r.mu.Lock()
	r.calls[one.request.Namespace] = append(r.calls[one.request.Namespace], one)
	respond := r.answers[one.request.Namespace]
	r.mu.Unlock()

	review.Response = &admissionv1.AdmissionResponse{Allowed: true}
	if respond != nil {
		review.Response = respond(one)
	}
	review.Response.UID, review.Request = one.request.UID, nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
