// Package controller makes a storm of Events with a controller of controller-runtime, whose object changes all the time.
package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/eventquota/eventquota/test/storm"
)

const (
	// Object is the name of the ConfigMap that the controller changes.
	Object = "shop"
	// ChangeAnnotation is the annotation of the Events with the number of the change, from 1.
	ChangeAnnotation = "example.com/change"

	name = "shop-controller"
	// answerTimeout limits the wait for the answers to the controller's Events.
	answerTimeout = 15 * time.Minute
)

// Storm is a storm of one controller. It changes a ConfigMap, records an Event about it, and reconciles again because it has
// changed. All its Events are the same, apart from the version of the object and an annotation.
type Storm struct {
	// Namespace gets the ConfigMap and the Events. It must exist.
	Namespace string
	// Changes is the number of changes, each with an Event. At most storm.MaxEvents.
	Changes int
	// Repeats is the number of changes, from the first, whose Event is recorded once more about the same version.
	Repeats int
}

// errDone stops the manager after the last change.
var errDone = errors.New("the storm is over")

// Run makes all changes and waits until the API server has answered every Event.
func (s Storm) Run(ctx context.Context, config *rest.Config) error {
	if s.Changes > storm.MaxEvents {
		return fmt.Errorf("the controller makes %d changes, allowed are at most %d", s.Changes, storm.MaxEvents)
	}
	r := &reconciler{Storm: s}
	config = rest.CopyConfig(config)
	config.Wrap(r.answers.watch)
	m, err := manager.New(config, manager.Options{
		Logger:  logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.Namespace: {}}},
	})
	if err != nil {
		return fmt.Errorf("make the controller's manager: %w", err)
	}
	r.client, r.recorder = m.GetClient(), m.GetEventRecorder(name)
	// A process may run several storms.
	options := ctrl.Options{SkipNameValidation: new(true)}
	if err := builder.ControllerManagedBy(m).Named(name).For(&corev1.ConfigMap{}).WithOptions(options).Complete(r); err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: Object}}
	if err := r.client.Create(ctx, object); err != nil {
		return fmt.Errorf("create the controller's object: %w", err)
	}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("run the controller: %w", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// reconciler makes one change at a time.
type reconciler struct {
	Storm

	client   client.Client
	recorder recorder.EventRecorder
	answers  answerCount
	stop     context.CancelCauseFunc
	changed  int
	recorded int64
}

// Reconcile implements reconcile.Reconciler. It stops the manager after the last change, or with an error.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if r.changed == r.Changes || request.Name != Object {
		return reconcile.Result{}, nil
	}
	err := r.change(ctx, request)
	if err == nil && r.changed == r.Changes {
		if err = r.waitAnswered(ctx); err == nil {
			err = errDone
		}
	}
	if err != nil {
		r.stop(err)
	}
	return reconcile.Result{}, nil
}

// change changes the object and records its Event.
func (r *reconciler) change(ctx context.Context, request reconcile.Request) error {
	object := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return err
	}
	r.changed++
	object.Data = map[string]string{"change": strconv.Itoa(r.changed)}
	if err := r.client.Update(ctx, object); err != nil {
		return err
	}
	r.record(object)
	if r.changed > r.Repeats {
		return nil
	}
	// While its Event is not stored, a recorder that repeats it waits ten seconds and tries again.
	if err := r.waitAnswered(ctx); err != nil {
		return err
	}
	r.record(object)
	return nil
}

// record records the Event about the present version of the object.
func (r *reconciler) record(object *corev1.ConfigMap) {
	r.recorded++
	r.recorder.AnnotatedEventf(object, nil, map[string]string{ChangeAnnotation: strconv.Itoa(r.changed)},
		corev1.EventTypeNormal, "Reconciled", "Reconcile", "shop is up to date")
}

// waitAnswered waits until the API server has answered all recorded Events.
func (r *reconciler) waitAnswered(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, answerTimeout, true, func(context.Context) (bool, error) {
		return r.answers.n.Load() >= r.recorded, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the answers to the controller's Events: %w", err)
	}
	return nil
}

// answerCount counts the Events that the API server has stored or refused for good.
type answerCount struct{ n atomic.Int64 }

// watch counts the answers to the requests of a client.
func (c *answerCount) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && isFinal(r, response) {
			c.n.Add(1)
		}
		return response, err
	})
}

// isFinal reports whether a recorder sends nothing more about the Event of a request. It creates an Event that it could not patch.
func isFinal(r *http.Request, response *http.Response) bool {
	if !strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") || response.Header.Get("Retry-After") != "" {
		return false
	}
	return r.Method == http.MethodPost || r.Method == http.MethodPatch && response.StatusCode != http.StatusNotFound
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
