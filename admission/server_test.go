package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
)

// server is an API server of Events behind a Gate, with a Settler. It lives in
// a bubble of package synctest, whose clock is every clock here.
type server struct {
	t      *testing.T
	client *fake.Clientset // of the Settler, for which there is no webhook
	gate   *admission.Gate
	stop   func() // ends the Settler, which writes all that is pending

	mu      sync.Mutex
	events  map[string]*corev1.Event
	version int
	writes  []write
}

// write is one write of a stored Event.
type write struct {
	at      time.Time
	name    string
	message string
}

func startServer(t *testing.T, p *applied) *server {
	t.Helper()
	m := newMemory(t)
	s := &server{t: t, client: fake.NewClientset(), gate: newGate(m, p), events: map[string]*corev1.Event{}}
	s.client.PrependReactor("*", "events", s.serve)
	ctx, cancel := context.WithCancel(t.Context())
	settled := make(chan error)
	go func() { settled <- settler.New(m, s.client.CoreV1(), settler.Options{}).Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-settled; err != nil {
			t.Error(err)
		}
	}
	return s
}

// serve does what the Settler asks for.
func (s *server) serve(action clientgotesting.Action) (bool, runtime.Object, error) {
	switch a := action.(type) {
	case clientgotesting.CreateAction:
		e, err := s.store(a.GetObject().(*corev1.Event), "")
		return true, e, err
	case clientgotesting.PatchAction:
		before, err := s.get(a.GetName())
		if err != nil {
			return true, nil, err
		}
		after, err := patched(before, a.GetPatch())
		if err != nil {
			return true, nil, err
		}
		if after.UID != before.UID {
			return true, nil, fmt.Errorf("patch of Event %s names another uid", a.GetName())
		}
		e, err := s.store(after, after.ResourceVersion)
		return true, e, err
	case clientgotesting.GetAction:
		e, err := s.get(a.GetName())
		return true, e, err
	}
	return true, nil, fmt.Errorf("settler wants to %s", action.GetVerb())
}

func (s *server) get(name string) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.events[name]; ok {
		return e.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("events"), name)
}

// store stores an Event in place of a version of it, or of none.
func (s *server) store(e *corev1.Event, version string) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.events[e.Name]
	switch {
	case version == "" && before != nil:
		return nil, apierrors.NewAlreadyExists(corev1.Resource("events"), e.Name)
	case version != "" && before.ResourceVersion != version:
		return nil, apierrors.NewConflict(corev1.Resource("events"), e.Name, errors.New("object has been modified"))
	}
	s.version++
	e = e.DeepCopy()
	if before == nil {
		e.UID, e.CreationTimestamp = types.UID(fmt.Sprint("uid-", s.version)), metav1.NewTime(time.Now().Truncate(time.Second))
	}
	e.ResourceVersion = fmt.Sprint(s.version)
	s.events[e.Name] = e
	s.writes = append(s.writes, write{time.Now(), e.Name, e.Message})
	return e.DeepCopy(), nil
}

// create is a client's CREATE of an Event.
func (s *server) create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	request := newRequest(time.Now(), e.Name, details{func(r *admission.Request) { r.Object = e.DeepCopy() }})
	answer := s.gate.Decide(ctx, s.gate.Mutate, request)
	if err := refusal(answer); err != nil {
		return nil, err
	}
	apply(s.t, request, answer)
	return s.store(request.Object, "")
}

// patch is a client's strategic merge patch of an Event. As the API server does, it begins
// again when the Event has changed since it was read.
func (s *server) patch(ctx context.Context, e *corev1.Event, data []byte) (*corev1.Event, error) {
	for {
		before, err := s.get(e.Name)
		if err != nil {
			return nil, err
		}
		request := newRequest(time.Now(), e.Name, nil)
		request.Operation, request.OldObject = admissionv1.Update, before
		if request.Object, err = patched(before, data); err != nil {
			return nil, err
		}
		if err := refusal(s.gate.Decide(ctx, s.gate.Validate, request)); err != nil {
			return nil, err
		}
		if after, err := s.store(request.Object, before.ResourceVersion); !apierrors.IsConflict(err) {
			return after, err
		}
	}
}

// patched is what a patch makes of an Event. For what is patched here, a merge patch does the same as a strategic one.
func patched(before *corev1.Event, patch []byte) (*corev1.Event, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := strategicpatch.StrategicMergePatch(was, patch, corev1.Event{})
	if err != nil {
		return nil, err
	}
	after := &corev1.Event{}
	return after, json.Unmarshal(is, after)
}

// refusal is the error that a client gets for an answer.
func refusal(a admission.Answer) error {
	if a.Response.Allowed {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *a.Response.Result}
}
