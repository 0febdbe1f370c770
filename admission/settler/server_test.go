package settler_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/validation"
)

// fakeAPIServer is an API server of core/v1 Events, as far as a settler sees it: with uids, resourceVersions, and what comes
// of a patch that names others. It is a transport, so that the client in front of it is a real one.
type fakeAPIServer struct {
	started time.Time
	// answer is asked about each request first. What it returns is the answer: a status, or else
	// an error of the connection. With errLost the request is carried out before.
	answer func(*request) error

	mu              sync.Mutex
	events          map[string]*corev1.Event // by namespace/name
	version         int
	requests        []*request
	loweringPatches []string // patches that have lowered a count
}

// request is one request that has reached the server.
type request struct {
	after  time.Duration
	text   string        // verb, namespace and name
	body   string        // of a patch
	event  *corev1.Event // of a CREATE
	number int           // of all, from 1
}

func (r *request) verb() string { return strings.Fields(r.text)[0] }

var errLost = errors.New("connection reset by peer")

// resource is the resource that the server's errors name.
func resource() schema.GroupResource { return corev1.Resource("events") }

func newFakeAPIServer() *fakeAPIServer {
	return &fakeAPIServer{started: time.Now(), answer: func(*request) error { return nil }, events: map[string]*corev1.Event{}}
}

func (s *fakeAPIServer) client(t *testing.T) typedcorev1.EventsGetter {
	t.Helper()
	config := &rest.Config{Host: "http://api", Transport: s, QPS: -1}
	config.ContentType = "application/json"
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.CoreV1()
}

// put stores an Event as a write of another client does.
func (s *fakeAPIServer) put(e *corev1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(e)
}

func (s *fakeAPIServer) store(e *corev1.Event) *corev1.Event {
	s.version++
	e = e.DeepCopy()
	e.ResourceVersion = fmt.Sprint(s.version)
	if e.UID == "" {
		e.UID = types.UID(fmt.Sprint("uid-", s.version))
	}
	if e.CreationTimestamp.IsZero() {
		e.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	}
	s.events[e.Namespace+"/"+e.Name] = e
	return e
}

// remove deletes an Event.
func (s *fakeAPIServer) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.events, namespace+"/"+name)
}

// get returns a stored Event, or nil.
func (s *fakeAPIServer) get(namespace, name string) *corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[namespace+"/"+name].DeepCopy()
}

// requestTexts returns the requests as texts.
func (s *fakeAPIServer) requestTexts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var did []string
	for _, r := range s.requests {
		did = append(did, r.text)
	}
	return did
}

// RoundTrip implements http.RoundTripper.
func (s *fakeAPIServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	namespace, name := path[0], strings.Join(path[2:], "/")
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	seen := &request{after: time.Since(s.started)}
	switch r.Method {
	case http.MethodGet:
		seen.text = fmt.Sprintf("get %s/%s", namespace, name)
	case http.MethodPatch:
		seen.text, seen.body = fmt.Sprintf("patch %s/%s", namespace, name), string(body)
	case http.MethodPost:
		seen.event = &corev1.Event{}
		if err := json.Unmarshal(body, seen.event); err != nil {
			return nil, err
		}
		name = seen.event.Name
		seen.text = fmt.Sprintf("create %s/%s", namespace, name)
	}
	s.mu.Lock()
	s.requests = append(s.requests, seen)
	seen.number = len(s.requests)
	s.mu.Unlock()
	err := s.answer(seen)
	if err == nil || errors.Is(err, errLost) {
		e, carriedOut := s.carryOut(seen, namespace+"/"+name)
		if err == nil {
			return respond(e, carriedOut)
		}
	}
	return respond(nil, err)
}

func (s *fakeAPIServer) carryOut(r *request, at string) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.events[at]
	switch r.verb() {
	case "create":
		if ok {
			return nil, apierrors.NewAlreadyExists(resource(), at)
		}
		if validation.Rejects(r.event, r.event.Namespace, false) {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, at, nil)
		}
		return s.store(r.event), nil
	case "get":
		if ok {
			return e, nil
		}
		return nil, apierrors.NewNotFound(resource(), at)
	}
	if !ok {
		return nil, apierrors.NewNotFound(resource(), at)
	}
	var names struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(r.body), &names); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch m := names.Metadata; {
	case m.UID != string(e.UID):
		immutable := field.Invalid(field.NewPath("metadata", "uid"), m.UID, "field is immutable")
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, at, field.ErrorList{immutable})
	case m.ResourceVersion != e.ResourceVersion:
		return nil, apierrors.NewConflict(resource(), at, errors.New("the object has been modified"))
	}
	was, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	is, err := strategicpatch.StrategicMergePatch(was, []byte(r.body), corev1.Event{})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var patched corev1.Event
	if err := json.Unmarshal(is, &patched); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if patched.Count < e.Count {
		s.loweringPatches = append(s.loweringPatches, r.body)
	}
	return s.store(&patched), nil
}

// respond returns the answer over HTTP. An err without an API status becomes an error of the connection.
func respond(e *corev1.Event, err error) (*http.Response, error) {
	code, answer := http.StatusOK, any(e)
	if e != nil {
		e = e.DeepCopy()
		e.APIVersion, e.Kind = "v1", "Event"
		answer = e
	}
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		said := status.Status()
		said.APIVersion, said.Kind = "v1", "Status"
		code, answer = int(said.Code), said
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
