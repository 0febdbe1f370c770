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

// TestValidation holds admission/validation to the API server: what validation.Rejects says about the
// Event in a review of the mutating phase, and what the API server then does with it.
func TestValidation(t *testing.T) {
	if !isolated(t) {
		return
	}
	j := newValidationRig(t)
	t.Run("one rule at a time", j.testEachRule)
	t.Run("random Events", j.testRandomEvents)
	t.Run("PUT and apply", j.testPutAndApply)
	t.Run("protobuf", j.testProtobuf)
}

// writePath is how an Event is written.
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

// testEachRule changes one thing of a valid Event.
func (j *validationRig) testEachRule(t *testing.T) {
	for _, c := range validCases() {
		for _, w := range writePaths() {
			e := j.event(w)
			c.change(e)
			j.send(t, http.MethodPost, w, e).requireAgreement(t, c.name+", "+w.name, slices.Contains(c.hidden, w.name))
		}
	}
}

// testRandomEvents changes several things at once.
func (j *validationRig) testRandomEvents(t *testing.T) {
	const seed, n = 11, 800
	random := rand.New(rand.NewPCG(seed, seed))
	stored := 0
	for range n {
		w := writePaths()[random.IntN(3)]
		e := j.event(w)
		for range random.IntN(4) {
			changeAtRandom(e, random)
		}
		got := j.send(t, http.MethodPost, w, e)
		if got.refusal == nil {
			stored++
		}
		if !got.verdict && e.ObjectMeta.Size() > 4<<10 {
			continue // so large, metadata are not looked at
		}
		got.requireAgreement(t, w.name, !got.verdict && w.events && (e.EventTime.IsZero() || e.Series != nil && e.Series.LastObservedTime.IsZero()))
	}
	if stored < n/10 || stored > n*9/10 {
		t.Errorf("%d of %d random Events were stored, so that little was compared", stored, n)
	}
}

// testPutAndApply shows that what a PUT and server-side apply create is under the same rules, but for
// resourceVersion.
func (j *validationRig) testPutAndApply(t *testing.T) {
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
				e := j.event(w)
				c.change(e)
				got := j.send(t, method, w, e)
				if !got.reviewed && got.refusal != nil && method == http.MethodPatch {
					// Server-side apply refuses what it cannot merge before it asks anybody.
					continue
				}
				got.requireAgreement(t, method+" with "+c.name+", "+w.name, false)
			}
		}
	}
}

// testProtobuf has bytes that are not UTF-8, which a review shows as three bytes each.
func (j *validationRig) testProtobuf(t *testing.T) {
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
			e := j.event(w)
			c.change(e)
			j.post(t, w, e).requireAgreement(t, c.name+", "+w.name, false)
		}
	}
}

// validationRig is a control plane and a webhook in its mutating phase, which admits every Event and
// keeps what validation.Rejects says.
type validationRig struct {
	client kubernetes.Interface
	events int // made so far

	mu       sync.Mutex
	verdicts []bool // of the write under way
}

// validationOutcome is what was said about an Event, and what became of it.
type validationOutcome struct {
	reviewed bool  // the webhook was asked
	verdict  bool  // of validation.Rejects
	refusal  error // of the API server
}

// requireAgreement fails the test where the API server stored what is not valid, or refused what is;
// the latter must be so for an Event whose fault a review does not show.
func (o validationOutcome) requireAgreement(t *testing.T, what string, hidden bool) {
	t.Helper()
	switch {
	case !o.reviewed:
		t.Errorf("%s: refused before any webhook: %.300v", what, o.refusal)
	case hidden && (o.verdict || o.refusal == nil):
		t.Errorf("%s: a review shows what is wrong, or nothing is: valid.Refused says %t; the API server %.300v", what, o.verdict, o.refusal)
	case !o.verdict && isUncheckedRule(o.refusal):
	case !hidden && o.verdict != (o.refusal != nil):
		t.Errorf("%s: valid.Refused says %t; the API server %.300v", what, o.verdict, o.refusal)
	}
}

const (
	validNamespace = "valid"
	validUser      = "judged"
)

func newValidationRig(t *testing.T) *validationRig {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	j := &validationRig{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(j.review))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the API server ends with its connections open
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
	if j.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	_, err = j.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: validNamespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *validationRig) review(w http.ResponseWriter, request *http.Request) {
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
		j.mu.Lock()
		j.verdicts = append(j.verdicts, verdict)
		j.mu.Unlock()
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// send writes e as JSON.
func (j *validationRig) send(t *testing.T, method string, w writePath, e *corev1.Event) validationOutcome {
	t.Helper()
	body, err := json.Marshal(w.object(e))
	if err != nil {
		t.Fatal(err)
	}
	request := j.client.CoreV1().RESTClient().Verb(method).AbsPath(w.path(), "namespaces", e.Namespace, "events")
	contentType := runtime.ContentTypeJSON
	switch method {
	case http.MethodPatch:
		contentType = "application/apply-patch+yaml"
		request.Param("fieldManager", "judge")
		request.Name(e.Name)
	case http.MethodPut:
		request.Name(e.Name)
	}
	return j.outcome(t, request.SetHeader("Content-Type", contentType).Body(bytes.ReplaceAll(body, []byte(zeroTimeMarker), []byte(yearOne))))
}

// post creates e as protobuf.
func (j *validationRig) post(t *testing.T, w writePath, e *corev1.Event) validationOutcome {
	t.Helper()
	var body bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(w.object(e), &body); err != nil {
		t.Fatal(err)
	}
	request := j.client.CoreV1().RESTClient().Post().AbsPath(w.path(), "namespaces", e.Namespace, "events")
	return j.outcome(t, request.SetHeader("Content-Type", runtime.ContentTypeProtobuf).Body(body.Bytes()))
}

func (j *validationRig) outcome(t *testing.T, request *rest.Request) validationOutcome {
	t.Helper()
	j.mu.Lock()
	j.verdicts = nil
	j.mu.Unlock()
	err := request.Do(t.Context()).Error()
	if _, ok := err.(apierrors.APIStatus); err != nil && !ok {
		t.Fatal(err)
	}
	if apierrors.IsAlreadyExists(err) {
		err = nil // which is found out after validation
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch len(j.verdicts) {
	case 0:
		return validationOutcome{refusal: err}
	case 1:
		return validationOutcome{reviewed: true, verdict: j.verdicts[0], refusal: err}
	}
	t.Fatalf("the webhook was called %d times for one write", len(j.verdicts))
	return validationOutcome{}
}

// event is a valid Event with a name of its own.
func (j *validationRig) event(w writePath) *corev1.Event {
	e := w.base()
	j.events++
	e.Name = fmt.Sprint("web-0.", j.events)
	return e
}

func (w writePath) path() string {
	if w.events {
		return "/apis/events.k8s.io/v1"
	}
	return "/api/v1"
}

// object is e as w's API has it.
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
