package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/eventquota/eventquota/admission/release"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

// rig is an API server with emergency brakes. Its clock is that of the bubble.
type rig struct {
	*testing.T

	client  *dynamicfake.FakeDynamicClient
	cluster *source
	tenants *source

	mu       sync.Mutex
	fails    error // what the API server answers to patches; nil for success
	patches  []string
	released []string // with the time since the start
	log      []string
	began    time.Time
}

// source has the policies of one kind.
type source struct{ *fcache.FakeControllerSource }

var _ feed.Source = (*source)(nil)

func (s *source) List(_ context.Context, _ string, _ metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	list, err := s.FakeControllerSource.List(metav1.ListOptions{})
	if err != nil {
		return metav1.ListMeta{}, err
	}
	items, err := meta.ExtractList(list)
	for _, item := range items {
		take(item.(metav1.Object))
	}
	return metav1.ListMeta{ResourceVersion: list.(metav1.ListInterface).GetResourceVersion()}, err
}

func (s *source) Watch(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	return s.FakeControllerSource.Watch(o)
}

// get returns the stored metadata of a policy, or nil.
func (s *source) get(namespace, name string) (found *metav1.PartialObjectMetadata) {
	_, _ = s.List(context.Background(), "", metav1.ListOptions{}, func(o metav1.Object) {
		if o.GetNamespace() == namespace && o.GetName() == name {
			found = o.(*metav1.PartialObjectMetadata)
		}
	})
	return found
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, began: time.Now(), cluster: &source{fcache.NewFakeControllerSource()}, tenants: &source{fcache.NewFakeControllerSource()}}
	r.client = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	r.client.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		return true, &unstructured.Unstructured{Object: map[string]any{}}, r.patch(patch)
	})
	return r
}

// patch applies a patch as the API server does.
func (r *rig) patch(a clienttesting.PatchAction) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patches = append(r.patches, string(a.GetPatch()))
	if r.fails != nil {
		return r.fails
	}
	var body struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]*string
		}
		Spec struct{ Mode string }
	}
	if err := json.Unmarshal(a.GetPatch(), &body); err != nil {
		return err
	}
	from := r.cluster
	if a.GetNamespace() != "" {
		from = r.tenants
	}
	resource := a.GetResource().GroupResource()
	stored := from.get(a.GetNamespace(), a.GetName())
	switch {
	case stored == nil:
		return apierrors.NewNotFound(resource, a.GetName())
	case stored.ResourceVersion != body.Metadata.ResourceVersion:
		return apierrors.NewConflict(resource, a.GetName(), errors.New("the object has been modified"))
	case body.Spec.Mode != "Disabled":
		return fmt.Errorf("spec.mode %q", body.Spec.Mode)
	}
	changed := stored.DeepCopy()
	for name, value := range body.Metadata.Annotations {
		if value == nil {
			delete(changed.Annotations, name)
		}
	}
	from.Modify(changed)
	r.released = append(r.released, fmt.Sprintf("%s after %s", strings.TrimPrefix(a.GetNamespace()+"/"+a.GetName(), "/"), time.Since(r.began).Round(time.Second)))
	return nil
}

// start runs a Releaser, as the next leader does. It stops at the end of the returned function.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ctx = logr.NewContext(ctx, funcr.New(func(_, args string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, args)
	}, funcr.Options{}))
	releaser := release.New(map[string]feed.Source{v1alpha1.KindClusterEventPolicy: r.cluster, v1alpha1.KindEventPolicy: r.tenants}, r.client)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := releaser.Run(ctx); err != nil {
			r.Errorf("Run: %v", err)
		}
	}()
	synctest.Wait()
	return func() { cancel(); <-ended }
}

// brakeUntil is a brake with an annotation.
func brakeUntil(namespace, until string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.BrakeName, Namespace: namespace, UID: "uid",
		Annotations: map[string]string{v1alpha1.AnnotationBrakeUntil: until, v1alpha1.AnnotationBrakeBy: "alice", "other": "kept"},
	}}
}

func (r *rig) in(d time.Duration) string { return r.began.Add(d).UTC().Format(time.RFC3339) }

func (r *rig) wantReleased(want ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.released) != fmt.Sprint(want) {
		r.Errorf("after %s, %v are released, want %v; log: %q", time.Since(r.began), r.released, want, r.log)
	}
}

// pass lets time pass in the bubble.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // of the bubble, whose clock goes on at once
	synctest.Wait()
}

// logged returns how many log lines have a text.
func (r *rig) logged(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// run runs a test in a bubble.
func run(t *testing.T, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		test(r)
		r.cluster.Shutdown()
		r.tenants.Shutdown()
		synctest.Wait()
	})
}
