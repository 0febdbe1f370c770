package facts

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a client writes in events.k8s.io/v1 arrives converted to core/v1, once in each
// phase, and says so.
func (r *rig) oneRuleSeesBothAPIs(t *testing.T) {
	r.namespace(t, "f2", nil)
	core := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	events := metav1.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
	check := func(sent metav1.GroupVersionKind) {
		t.Helper()
		for _, path := range []string{"/mutate", "/validate"} {
			request := r.seen(t, "f2", path, 1)[0].request
			if request.Kind != core || request.RequestKind == nil || *request.RequestKind != sent {
				t.Errorf("%s: kind is %v and requestKind %v, want %v and %v", path, request.Kind, request.RequestKind, core, sent)
			}
			var object corev1.Event
			if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
				t.Fatal(err)
			}
			if object.InvolvedObject.Name != "web-0" || object.Message == "" {
				t.Errorf("%s: the object is no core/v1 Event: %s", path, request.Object.Raw)
			}
		}
	}

	if _, err := r.client.CoreV1().Events("f2").Create(t.Context(), coreEvent("f2", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(core)
	if _, err := r.client.EventsV1().Events("f2").Create(t.Context(), newEvent("f2", "b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(events)
}

// uid and creationTimestamp are filled in between the phases, whatever the client sent.
func (r *rig) mutatingSeesNoUID(t *testing.T) {
	r.namespace(t, "f4", nil)
	event := coreEvent("f4", "a")
	event.UID, event.CreationTimestamp = "sent", metav1.Unix(1, 0)
	created, err := r.client.CoreV1().Events("f4").Create(t.Context(), event, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mutating := metadataOf(r.seen(t, "f4", "/mutate", 1)[0])
	if mutating.UID != "" || !mutating.CreationTimestamp.IsZero() {
		t.Errorf("the mutating phase sees uid %q and creationTimestamp %s", mutating.UID, mutating.CreationTimestamp)
	}
	validating := metadataOf(r.seen(t, "f4", "/validate", 1)[0])
	if validating.UID != created.UID || !validating.CreationTimestamp.Equal(&created.CreationTimestamp) {
		t.Errorf("the validating phase sees uid %q and creationTimestamp %s, want %q and %s",
			validating.UID, validating.CreationTimestamp, created.UID, created.CreationTimestamp)
	}
}

func (r *rig) callsAreHTTP2(t *testing.T) {
	r.namespace(t, "f6", nil)
	if _, err := r.client.CoreV1().Events("f6").Create(t.Context(), coreEvent("f6", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/mutate", "/validate"} {
		if got := r.seen(t, "f6", path, 1)[0]; got.proto != "HTTP/2.0" || got.timeout != "20s" {
			t.Errorf("%s was called by %s with timeout %q", path, got.proto, got.timeout)
		}
	}
}

// The mutating phase does not know the name that the API server will generate. It can
// give one.
func (r *rig) generatedName(t *testing.T) {
	named := func(c call) *admissionv1.AdmissionResponse {
		response := &admissionv1.AdmissionResponse{Allowed: true}
		if c.path == "/mutate" && metadataOf(c).GenerateName == "named-" {
			response.PatchType = new(admissionv1.PatchTypeJSONPatch)
			response.Patch = []byte(`[{"op": "add", "path": "/metadata/name", "value": "named-by-webhook"}]`)
		}
		return response
	}
	r.namespace(t, "f20", named)
	for _, prefix := range []string{"unnamed-", "named-"} {
		event := coreEvent("f20", "")
		event.GenerateName = prefix
		created, err := r.client.CoreV1().Events("f20").Create(t.Context(), event, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mutating := r.seen(t, "f20", "/mutate", 1)[0]
		if mutating.request.Name != "" || metadataOf(mutating).Name != "" {
			t.Errorf("the mutating phase sees name %q and metadata.name %q", mutating.request.Name, metadataOf(mutating).Name)
		}
		validating := r.seen(t, "f20", "/validate", 1)[0]
		if validating.request.Name != created.Name || metadataOf(validating).Name != created.Name {
			t.Errorf("the validating phase sees name %q and metadata.name %q, want %q",
				validating.request.Name, metadataOf(validating).Name, created.Name)
		}
		if prefix == "named-" && created.Name != "named-by-webhook" {
			t.Errorf("the Event is called %q", created.Name)
		}
	}
}

// metadataOf is the metadata of the object in a call, empty if it has none.
func metadataOf(c call) metav1.ObjectMeta {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(c.request.Object.Raw, &object) != nil {
		return metav1.ObjectMeta{}
	}
	return object.ObjectMeta
}
