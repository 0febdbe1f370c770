package facts

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/eventtest"
)

// createIsReviewedOnce checks that each phase reviews a CREATE once. An Event written through events.k8s.io/v1 arrives converted to core/v1,
// and requestKind has the original kind. The API server sets uid and creationTimestamp between the phases, whatever the client sent.
func (r *rig) createIsReviewedOnce(t *testing.T) {
	r.namespace(t, "create", nil)
	core := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	events := metav1.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
	check := func(sent metav1.GroupVersionKind, created metav1.Object) {
		t.Helper()
		for path, uid := range map[string]string{"/mutate": "", "/validate": string(created.GetUID())} {
			call := r.takeCalls(t, "create", path, 1)[0]
			if call.proto != "HTTP/2.0" || call.timeout != "20s" {
				t.Errorf("%s was called over %s with timeout %q, want HTTP/2.0 and 20s", path, call.proto, call.timeout)
			}
			if request := call.request; request.Kind != core || request.RequestKind == nil || *request.RequestKind != sent {
				t.Errorf("%s: got kind %v and requestKind %v, want %v and %v", path, request.Kind, request.RequestKind, core, sent)
			}
			object := eventOf(t, call.request.Object.Raw)
			if object.InvolvedObject.Name != "web-0" || object.Message == "" {
				t.Errorf("%s: the object is not the core/v1 Event: %s", path, call.request.Object.Raw)
			}
			if string(object.UID) != uid || object.CreationTimestamp.IsZero() != (uid == "") {
				t.Errorf("%s: got uid %q and creationTimestamp %s, want uid %q and a time only with it", path, object.UID, object.CreationTimestamp, uid)
			}
		}
	}

	event := eventtest.Core("create", "a")
	event.UID, event.CreationTimestamp = "sent", metav1.Unix(1, 0)
	viaCore, err := r.client.CoreV1().Events("create").Create(t.Context(), event, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(core, viaCore)
	viaEvents, err := r.client.EventsV1().Events("create").Create(t.Context(), eventtest.New("create", "b"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(events, viaEvents)
}

// generatedName checks that the mutating phase does not see the name that the API server generates, and that it can set a name itself.
func (r *rig) generatedName(t *testing.T) {
	setName := func(c call) *admissionv1.AdmissionResponse {
		response := &admissionv1.AdmissionResponse{Allowed: true}
		if c.path == "/mutate" && eventOf(t, c.request.Object.Raw).GenerateName == "named-" {
			response.PatchType = new(admissionv1.PatchTypeJSONPatch)
			response.Patch = []byte(`[{"op": "add", "path": "/metadata/name", "value": "named-by-webhook"}]`)
		}
		return response
	}
	r.namespace(t, "names", setName)
	for _, prefix := range []string{"unnamed-", "named-"} {
		event := eventtest.Core("names", "")
		event.GenerateName = prefix
		created, err := r.client.CoreV1().Events("names").Create(t.Context(), event, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for path, name := range map[string]string{"/mutate": "", "/validate": created.Name} {
			request := r.takeCalls(t, "names", path, 1)[0].request
			if object := eventOf(t, request.Object.Raw); request.Name != name || object.Name != name {
				t.Errorf("%s: got name %q and metadata.name %q, want %q", path, request.Name, object.Name, name)
			}
		}
		if prefix == "named-" && created.Name != "named-by-webhook" {
			t.Errorf("got Event name %q, want named-by-webhook", created.Name)
		}
	}
}

// eventOf decodes the Event of a review.
func eventOf(t *testing.T, raw []byte) (e corev1.Event) {
	t.Helper()
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Error(err)
	}
	return e
}
