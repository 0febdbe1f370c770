// Package facts re-checks on a real API server what the design takes for granted about
// it. A failure here means that a new Kubernetes version behaves differently, and that
// whatever leans on the fact has to be looked at.
package facts

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
)

// exemptUser is the user whose writes the webhooks do not see.
const exemptUser = "exempt"

// rig is a control plane that asks a webhook which notes what it sees and answers what
// a test says.
type rig struct {
	*cluster.Cluster

	client kubernetes.Interface // the administrator's
	exempt kubernetes.Interface // the exempt user's, an administrator too

	mu      sync.Mutex
	calls   map[string][]call // by namespace, oldest first
	answers map[string]answer // by namespace
}

// call is one call of the webhook.
type call struct {
	path    string // /mutate or /validate
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
	url, ca := serveTLS(t, http.HandlerFunc(r.serve))
	err = r.InstallWebhooks(t.Context(), cluster.Webhooks{
		URL: url, CABundle: ca, ExemptUser: exemptUser, Mutating: true, Validating: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// namespace makes a namespace, in which respond decides about Events. Nil admits all.
func (r *rig) namespace(t *testing.T, name string, respond answer) {
	t.Helper()
	r.mu.Lock()
	r.answers[name] = respond
	r.mu.Unlock()
	_, err := r.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// seen returns the calls of path about Events in namespace since the last look, and
// fails the test unless there are n of them.
func (r *rig) seen(t *testing.T, namespace, path string, n int) []call {
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
	one := call{
		path: request.URL.Path, proto: request.Proto, timeout: request.URL.Query().Get("timeout"), request: review.Request,
	}
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
