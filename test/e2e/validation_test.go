package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/validation"
	"github.com/eventquota/eventquota/test/cluster"
)

// TestValidation compares admission/validation with the API server. validation.Rejects judges the Event in a review
// of the mutating phase, and the API server then accepts or refuses it.
func TestValidation(t *testing.T) {
	t.Parallel()
	r := newValidationRig(t)
	t.Run("one rule at a time", r.testEachRule)
	t.Run("random Events", r.testRandomEvents)
	t.Run("PUT and apply", r.testPutAndApply)
	t.Run("protobuf", r.testProtobuf)
}

// writePath is a way to write an Event.
type writePath struct {
	name   string
	events bool                 // through events.k8s.io/v1
	base   func() *corev1.Event // a valid Event
}

func writePaths() []writePath {
	return []writePath{
		{name: "core", base: validLegacy},
		{name: "core with eventTime", base: validCurrent},
		{name: "events", base: validCurrent, events: true},
	}
}

func validLegacy() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: validNamespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: validNamespace, Name: "web-0"},
		Reason:         "BackOff", Message: "back-off", Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: "kubelet"},
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
	}
}

func validCurrent() *corev1.Event {
	e := validLegacy()
	e.Source, e.FirstTimestamp, e.LastTimestamp, e.Count = corev1.EventSource{}, metav1.Time{}, metav1.Time{}, 0
	e.EventTime, e.Action, e.ReportingController, e.ReportingInstance = metav1.NowMicro(), "Restart", "kubelet", "node-1"
	return e
}

// testEachRule makes one change to a valid Event.
func (r *validationRig) testEachRule(t *testing.T) {
	for _, c := range validCases() {
		for _, w := range writePaths() {
			e := r.event(w)
			c.change(e)
			r.send(t, http.MethodPost, w, e).requireAgreement(t, c.name+", "+w.name, slices.Contains(c.hidden, w.name))
		}
	}
}

// testRandomEvents makes several random changes at once.
func (r *validationRig) testRandomEvents(t *testing.T) {
	const seed, n = 11, 400
	random := rand.New(rand.NewPCG(seed, seed))
	stored := 0
	for range n {
		w := writePaths()[random.IntN(3)]
		e := r.event(w)
		for range random.IntN(4) {
			changeAtRandom(e, random)
		}
		got := r.send(t, http.MethodPost, w, e)
		if got.refusal == nil {
			stored++
		}
		if !got.verdict && e.ObjectMeta.Size() > 4<<10 {
			continue // validation.Rejects does not check metadata of this size
		}
		got.requireAgreement(t, w.name, !got.verdict && w.events && (e.EventTime.IsZero() || e.Series != nil && e.Series.LastObservedTime.IsZero()))
	}
	if stored < n/10 || stored > n*9/10 {
		t.Errorf("%d of %d random Events were stored, want 10 to 90 %%", stored, n)
	}
}

// testPutAndApply checks that the same rules apply to creates by PUT and server-side apply, except for
// resourceVersion.
func (r *validationRig) testPutAndApply(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(e *corev1.Event)
	}{
		{"as sent", func(*corev1.Event) {}},
		{"a resourceVersion", func(e *corev1.Event) { e.ResourceVersion = "5" }},
		{"a name that is not a subdomain", func(e *corev1.Event) { e.Name = "A" + e.Name }},
		{"a generateName with a slash", func(e *corev1.Event) { e.GenerateName = "a/" }},
		{"a generateName with a slash before a dash", func(e *corev1.Event) { e.GenerateName = "/-" }},
		{"no reason", func(e *corev1.Event) { e.Reason = "" }},
		{"another namespace", func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }},
		{"an invalid label", func(e *corev1.Event) { e.Labels = map[string]string{"-": ""} }},
		{"a finalizer", func(e *corev1.Event) { e.Finalizers = []string{"-"} }},
		{"two controllers", func(e *corev1.Event) { e.OwnerReferences = []metav1.OwnerReference{owner("a"), owner("b")} }},
		{"the same controller twice", func(e *corev1.Event) { e.OwnerReferences = []metav1.OwnerReference{owner("a"), owner("a")} }},
	} {
		for _, w := range writePaths() {
			for _, method := range []string{http.MethodPut, http.MethodPatch} {
				e := r.event(w)
				c.change(e)
				got := r.send(t, method, w, e)
				if !got.reviewed && got.refusal != nil && method == http.MethodPatch {
					// The API server refuses an apply that it cannot merge before it calls any webhook.
					continue
				}
				got.requireAgreement(t, method+" with "+c.name+", "+w.name, false)
			}
		}
	}
}

// testProtobuf writes bytes that are not UTF-8. A review shows each as three bytes.
func (r *validationRig) testProtobuf(t *testing.T) {
	other := func(n int) string { return string(bytes.Repeat([]byte{0xff}, n)) }
	for _, c := range []struct {
		name   string
		change func(e *corev1.Event)
	}{
		{"as sent", func(*corev1.Event) {}},
		{"1,024 bytes of message", func(e *corev1.Event) { e.Message = other(1024) }},
		{"128 bytes of reason", func(e *corev1.Event) { e.Reason = other(128) }},
		{"128 bytes of action", func(e *corev1.Event) { e.Action = other(128) }},
		{"128 bytes of reportingInstance", func(e *corev1.Event) { e.ReportingInstance = other(128) }},
		{"a reportingController", func(e *corev1.Event) { e.ReportingController = other(1) }},
		{"256 KiB of an annotation", func(e *corev1.Event) { e.Annotations = map[string]string{"a": other(256<<10 - 1)} }},
		{"the name of a label", func(e *corev1.Event) { e.Labels = map[string]string{other(1): ""} }},
		{"a name", func(e *corev1.Event) { e.Name = other(1) }},
		{"a generateName", func(e *corev1.Event) { e.Name, e.GenerateName = "", other(100) }},
		{"a manager", func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Manager: other(128)})
		}},
		{"a subresource", func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Subresource: other(256)})
		}},
	} {
		for _, w := range writePaths() {
			e := r.event(w)
			c.change(e)
			r.post(t, w, e).requireAgreement(t, c.name+", "+w.name, false)
		}
	}
}

// validationRig is a control plane with a webhook in the mutating phase. The webhook admits every Event and records
// the verdict of validation.Rejects.
type validationRig struct {
	client kubernetes.Interface
	events int // number made so far

	mu       sync.Mutex
	verdicts []bool // of the current write
}

// validationOutcome is the verdict about an Event and the API server's answer.
type validationOutcome struct {
	reviewed bool  // the webhook was called
	verdict  bool  // of validation.Rejects: true if invalid
	refusal  error // of the API server
}

// requireAgreement fails the test if the API server stored an invalid Event or refused a valid one. If hidden, the
// review does not show the fault, so the API server must refuse an Event with a valid review.
func (o validationOutcome) requireAgreement(t *testing.T, what string, hidden bool) {
	t.Helper()
	switch {
	case !o.reviewed:
		t.Errorf("%s: refused before any webhook call: %.300v", what, o.refusal)
	case hidden && (o.verdict || o.refusal == nil):
		t.Errorf("%s: validation.Rejects returned %t and the API server %.300v, want false and an error", what, o.verdict, o.refusal)
	case !o.verdict && isUncheckedRule(o.refusal):
	case !hidden && o.verdict != (o.refusal != nil):
		t.Errorf("%s: validation.Rejects returned %t, but the API server %.300v", what, o.verdict, o.refusal)
	}
}

const (
	validNamespace = "valid"
	validUser      = "judged"
)

func newValidationRig(t *testing.T) *validationRig {
	t.Helper()
	c := planes.ForTest(t)
	r := &validationRig{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(r.review))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the API server exits without closing its connections
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := c.InstallWebhooks(t.Context(), cluster.Webhooks{URL: server.URL, CABundle: ca, Mutating: true, TimeoutSeconds: 30}); err != nil {
		t.Fatal(err)
	}
	config, _, err := c.User(validUser, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	_, err = r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: validNamespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *validationRig) review(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	var event corev1.Event
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(review.Request.Object.Raw, &event); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if review.Request.UserInfo.Username == validUser {
		verdict := validation.Rejects(&event, review.Request.Namespace, review.Request.RequestKind.Group == eventsv1.GroupName)
		r.mu.Lock()
		r.verdicts = append(r.verdicts, verdict)
		r.mu.Unlock()
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// send writes e as JSON.
func (r *validationRig) send(t *testing.T, method string, w writePath, e *corev1.Event) validationOutcome {
	t.Helper()
	body, err := json.Marshal(w.object(e))
	if err != nil {
		t.Fatal(err)
	}
	request := r.client.CoreV1().RESTClient().Verb(method).AbsPath(w.path(), "namespaces", e.Namespace, "events")
	contentType := runtime.ContentTypeJSON
	switch method {
	case http.MethodPatch:
		contentType = "application/apply-patch+yaml"
		request.Param("fieldManager", "judge")
		request.Name(e.Name)
	case http.MethodPut:
		request.Name(e.Name)
	}
	return r.outcome(t, request.SetHeader("Content-Type", contentType).Body(bytes.ReplaceAll(body, []byte(zeroTimeMarker), []byte(yearOne))))
}

// post creates e as protobuf.
func (r *validationRig) post(t *testing.T, w writePath, e *corev1.Event) validationOutcome {
	t.Helper()
	var body bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(w.object(e), &body); err != nil {
		t.Fatal(err)
	}
	request := r.client.CoreV1().RESTClient().Post().AbsPath(w.path(), "namespaces", e.Namespace, "events")
	return r.outcome(t, request.SetHeader("Content-Type", runtime.ContentTypeProtobuf).Body(body.Bytes()))
}

func (r *validationRig) outcome(t *testing.T, request *rest.Request) validationOutcome {
	t.Helper()
	r.mu.Lock()
	r.verdicts = nil
	r.mu.Unlock()
	err := request.Do(t.Context()).Error()
	if _, ok := err.(apierrors.APIStatus); err != nil && !ok {
		t.Fatal(err)
	}
	if apierrors.IsAlreadyExists(err) {
		err = nil // the API server checks that after validation
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch len(r.verdicts) {
	case 0:
		return validationOutcome{refusal: err}
	case 1:
		return validationOutcome{reviewed: true, verdict: r.verdicts[0], refusal: err}
	}
	t.Fatalf("the webhook was called %d times for one write, want once", len(r.verdicts))
	return validationOutcome{}
}

// event returns a valid Event with a new name.
func (r *validationRig) event(w writePath) *corev1.Event {
	e := w.base()
	r.events++
	e.Name = fmt.Sprint("web-0.", r.events)
	return e
}

func (w writePath) path() string {
	if w.events {
		return "/apis/events.k8s.io/v1"
	}
	return "/api/v1"
}

// object returns e in the version of w's API.
func (w writePath) object(e *corev1.Event) runtime.Object {
	if !w.events {
		e.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
		return e
	}
	n := &eventsv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"}, ObjectMeta: e.ObjectMeta,
		EventTime: e.EventTime, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Action: e.Action, Reason: e.Reason, Regarding: e.InvolvedObject, Related: e.Related, Note: e.Message, Type: e.Type,
		DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		n.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return n
}
