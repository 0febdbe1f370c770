package clients

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/test/cluster"
)

// TestEachRefusalIsFinalForEachClient has a webhook that refuses every CREATE, in each namespace with another row of admission.Refusals. Each
// client sends each occurrence once, and reacts as admission.Clients says.
func TestEachRefusalIsFinalForEachClient(t *testing.T) {
	t.Parallel()
	e := &env{T: t, cluster: planes.ForTest(t)}
	var err error
	e.config, e.kubeconfig, err = e.cluster.User(writer, "system:masters")
	e.must(err)
	e.client, err = kubernetes.NewForConfig(e.config)
	e.must(err)
	refused := map[string]admission.Refusal{} // by namespace
	s := &session{env: e, observed: &observations{}, sleeps: &sleeps{}}
	all := admission.Refusals()
	var clients errgroup.Group
	for _, d := range drivers() {
		for i, refusal := range all {
			refused[e.namespace(refusalNamespace(d, i))] = refusal
		}
	}
	e.installRefusing(refused)
	for _, d := range drivers() {
		clients.Go(func() error {
			c, err := d.start(s)
			if err != nil {
				return err
			}
			for i := range all {
				// Programs choose the name of the first, and not of the second.
				some := []occurrence{{"web", "Failed", "failed", 0}, {"web", "Failed", "failed", 3}}
				if err := c.publish(t.Context(), refusalNamespace(d, i), some); err != nil {
					return fmt.Errorf("%s: %w", d.name, err)
				}
			}
			return nil
		})
	}
	e.must(clients.Wait())
	e.waitRecorders()
	given := e.answers()
	for _, d := range drivers() {
		for i, refusal := range all {
			about, got := fmt.Sprintf("%s: %d %s", d.name, refusal.Code, refusal.Reason), given[refusalNamespace(d, i)]
			if n := got[answer{"create", int(refusal.Code), refusal.Reason}]; n != 2 || got.finals() != n {
				t.Errorf("%s: 2 occurrences were answered %q, want each refused once", about, got)
			}
			observed := s.observed.take(refusalNamespace(d, i))
			maps.Copy(observed, recorderLog.take(refusalNamespace(d, i)))
			if want := got.reactions(d.stated()); !maps.Equal(observed, want) {
				t.Errorf("%s: the client's reactions were %v, want %v", about, observed, want)
			}
		}
	}
	if n := s.sleeps.n.Load(); n != 0 {
		t.Errorf("plays waited %d times before they sent a request again, want 0", n)
	}
}

func refusalNamespace(d driver, i int) string { return fmt.Sprint("refused-", d.name, "-", i) }

// installRefusing installs a webhook that refuses the Events of each namespace.
func (e *env) installRefusing(refused map[string]admission.Refusal) {
	e.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if refusal, ok := refused[review.Request.Namespace]; ok {
			review.Response.Allowed = false
			review.Response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: refusal.Code, Reason: refusal.Reason, Message: "refused"}
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	e.Cleanup(server.Close)
	e.must(e.cluster.InstallWebhooks(e.Context(), cluster.Webhooks{
		URL: server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Mutating: true, TimeoutSeconds: webhookTimeout,
	}))
}
