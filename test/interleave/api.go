package interleave

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
)

// storedEvent is an Event or notice that the API server stores.
type storedEvent struct {
	*corev1.Event

	kind           kind // zero for a notice
	bucket         string
	rejectsPatches bool // the API server rejects patches by settlers as invalid
	forbidden      bool // the API server forbids patches by settlers until all faults end
	recorder       bool
}

// api is a model of an API server. It stores Events with versions and UIDs.
type api struct {
	world      *world
	events     map[string]*storedEvent // by namespace/name
	version    int
	notFound   map[string]bool // keys of Events that a settler has not found
	storedLate int64           // occurrences of Events that were stored after a settler had not found them
}

func resource() schema.GroupResource { return corev1.Resource("events") }

// at returns the key of an Event in api.events.
func at(namespace, name string) string { return namespace + "/" + name }

// put stores an Event under a new version. It sets the UID of a new one.
func (a *api) put(s *storedEvent) {
	a.version++
	s.Event = s.DeepCopy()
	s.ResourceVersion = fmt.Sprint(a.version)
	if s.UID == "" {
		s.UID = types.UID(fmt.Sprint("uid-", a.version))
		s.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
		if a.notFound[at(s.Namespace, s.Name)] {
			a.storedLate += admission.Occurrences(s.Event)
		}
	}
	a.events[at(s.Namespace, s.Name)] = s
}

// create stores a notice of a settler.
func (a *api) create(e *corev1.Event) (*corev1.Event, error) {
	if a.events[at(e.Namespace, e.Name)] != nil {
		return nil, apierrors.NewAlreadyExists(resource(), e.Name)
	}
	if a.world.mix.Rejects && a.world.rng.IntN(3) == 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, e.Name, nil)
	}
	s := &storedEvent{Event: e, bucket: e.Message}
	a.put(s)
	a.world.note("the API server stores notice %s, count %d", a.world.alias(e.Name), e.Count)
	return s.Event, nil
}

// get returns an Event, and remembers that a settler has not found it.
func (a *api) get(namespace, name string) (*corev1.Event, error) {
	if s := a.events[at(namespace, name)]; s != nil {
		return s.Event, nil
	}
	a.notFound[at(namespace, name)] = true
	return nil, apierrors.NewNotFound(resource(), name)
}

// patch applies a merge patch of a settler. Its version and UID must match.
func (a *api) patch(namespace, name string, body []byte) (*corev1.Event, error) {
	s := a.events[at(namespace, name)]
	if s == nil {
		return nil, apierrors.NewNotFound(resource(), name)
	}
	updated := s.DeepCopy()
	if err := merge(body, updated); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch {
	case updated.UID != s.UID:
		immutable := field.Invalid(field.NewPath("metadata", "uid"), updated.UID, "field is immutable")
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, name, field.ErrorList{immutable})
	case updated.ResourceVersion != s.ResourceVersion:
		return nil, apierrors.NewConflict(resource(), name, errors.New("the object has been modified"))
	case s.forbidden && !a.world.faultsStopped:
		return nil, apierrors.NewForbidden(resource(), name, errors.New("a policy forbids it"))
	case s.rejectsPatches:
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, name, nil)
	}
	before, after := admission.Occurrences(s.Event), admission.Occurrences(updated)
	merged := admission.ReadStored(updated, "").Merged
	if after < before && merged >= 0 || after < 1 {
		a.world.reportViolation(kindLowered, "a settler sets %s from %d to %d (%d merged)", a.world.alias(name), before, after, merged)
	}
	s.Event = updated
	a.put(s)
	a.world.note("the API server sets %s from %d to %d", a.world.alias(name), before, after)
	return s.Event, nil
}

// merge applies the fields that settlers write. An annotation with a null value is deleted.
func merge(body []byte, e *corev1.Event) error {
	var annotations struct {
		Metadata struct{ Annotations map[string]*string }
	}
	if err := json.Unmarshal(body, &annotations); err != nil {
		return err
	}
	before := e.Annotations
	e.Annotations = nil
	var patched struct {
		*corev1.Event
		Metadata *struct {
			UID             types.UID
			ResourceVersion string
		} `json:"metadata"`
	}
	patched.Event = e
	if err := json.Unmarshal(body, &patched); err != nil {
		return err
	}
	if patched.Metadata != nil {
		e.UID, e.ResourceVersion = patched.Metadata.UID, patched.Metadata.ResourceVersion
	}
	e.Annotations = map[string]string{}
	maps.Copy(e.Annotations, before)
	for name, value := range annotations.Metadata.Annotations {
		if value == nil {
			delete(e.Annotations, name)
			continue
		}
		e.Annotations[name] = *value
	}
	return nil
}

// client is the API client of a settler for one namespace. It has only the methods that settlers use.
type client struct {
	typedcorev1.EventInterface

	world     *world
	settler   *leader
	namespace string
}

var _ settler.Events = (*clients)(nil)

// clients has the API clients of one settler.
type clients struct {
	world   *world
	settler *leader
}

// Events implements settler.Events.
func (c *clients) Events(namespace string) typedcorev1.EventInterface {
	return &client{world: c.world, settler: c.settler, namespace: namespace}
}

// request sends a request to the API server, and returns its answer once the schedule delivers it.
func (c *client) request(ctx context.Context, name string, run func(*api) (*corev1.Event, error)) (*corev1.Event, error) {
	if c.settler.dead.Load() {
		return nil, errDead
	}
	var e *corev1.Event
	var answerErr error
	o := &operation{by: c.settler.name, name: name, run: func() { e, answerErr = run(c.world.api) }}
	o.fail = func() { answerErr = apierrors.NewTimeoutError("the server could not finish in time", 0) }
	if err := c.world.ops.submit(ctx, o); err != nil {
		return nil, err
	}
	if answerErr != nil {
		return nil, answerErr
	}
	return e.DeepCopy(), nil
}

// Create stores an Event.
func (c *client) Create(ctx context.Context, e *corev1.Event, _ metav1.CreateOptions) (*corev1.Event, error) {
	return c.request(ctx, "CREATE of "+c.world.alias(e.Name), func(a *api) (*corev1.Event, error) { return a.create(e) })
}

// Get reads an Event.
func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Event, error) {
	return c.request(ctx, "GET of "+c.world.alias(name), func(a *api) (*corev1.Event, error) { return a.get(c.namespace, name) })
}

// Patch changes an Event.
func (c *client) Patch(
	ctx context.Context, name string, _ types.PatchType, body []byte, _ metav1.PatchOptions, _ ...string,
) (*corev1.Event, error) {
	return c.request(ctx, "PATCH of "+c.world.alias(name), func(a *api) (*corev1.Event, error) { return a.patch(c.namespace, name, body) })
}
