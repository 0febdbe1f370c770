package admission_test

import (
	"context"
	"encoding/json"
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
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// server is an API server of Events behind a Gate, with a Settler. It lives in
// a bubble of package synctest, whose clock is every clock here.
type server struct {
	t      *testing.T
	client *fake.Clientset
	gate   *admission.Gate
	stop   func() // ends the Settler, which settles all that is owed

	mu     sync.Mutex
	writes []write
}

// write is one write of a stored Event.
type write struct {
	at      time.Time
	name    string
	message string // empty for one that leaves the message alone
}

func startServer(t *testing.T, p policy.Policy) *server {
	t.Helper()
	memory, err := store.NewMemory(store.DefaultBytes)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, client: fake.NewClientset(), gate: newGate(memory, p)}
	s.client.PrependReactor("*", "events", s.note)
	ctx, cancel := context.WithCancel(t.Context())
	settled := make(chan error)
	go func() { settled <- settler.New(memory, s.client.CoreV1(), settler.Options{}).Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-settled; err != nil {
			t.Error(err)
		}
	}
	return s
}

// note keeps what is written, and leaves the writing to the fake.
func (s *server) note(action clientgotesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a := action.(type) {
	case clientgotesting.CreateAction:
		e := a.GetObject().(*corev1.Event)
		s.writes = append(s.writes, write{time.Now(), e.Name, e.Message})
	case clientgotesting.PatchAction:
		var patch struct{ Message string }
		if err := json.Unmarshal(a.GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		s.writes = append(s.writes, write{time.Now(), a.GetName(), patch.Message})
	}
	return false, nil, nil
}

// create is a client's CREATE of an Event.
func (s *server) create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	request := newRequest(time.Now(), e.Name, details{func(r *admission.Request) { r.Object = e.DeepCopy() }})
	answer := s.gate.Decide(ctx, s.gate.Mutate, request)
	if err := refusal(answer); err != nil {
		return nil, err
	}
	apply(s.t, request, answer)
	if err := refusal(s.gate.Decide(ctx, s.gate.Validate, request)); err != nil {
		return nil, err
	}
	return s.client.CoreV1().Events(e.Namespace).Create(ctx, request.Object, metav1.CreateOptions{})
}

// patch is a client's strategic merge patch of an Event.
func (s *server) patch(ctx context.Context, e *corev1.Event, data []byte) (*corev1.Event, error) {
	events := s.client.CoreV1().Events(e.Namespace)
	before, err := events.Get(ctx, e.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	request := newRequest(time.Now(), e.Name, nil)
	request.Operation, request.OldObject, request.Object = admissionv1.Update, before, &corev1.Event{}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := strategicpatch.StrategicMergePatch(was, data, corev1.Event{})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(is, request.Object); err != nil {
		return nil, err
	}
	if err := refusal(s.gate.Decide(ctx, s.gate.Validate, request)); err != nil {
		return nil, err
	}
	return events.Patch(ctx, e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

// refusal is the error that a client gets for an answer.
func refusal(a admission.Answer) error {
	if a.Response.Allowed {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *a.Response.Result}
}
