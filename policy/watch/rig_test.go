package watch_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// rig is a Cache with sources that a test fills.
type rig struct {
	*watch.Cache

	policies, clusterPolicies, quotas, clusterQuotas, namespaces *source

	mu       sync.Mutex
	reported []watch.Report
	synced   []bool // HasSynced at the time of each
}

// source is a Source that a test fills.
type source struct {
	*fcache.FakeControllerSource

	pageSize int // or what is asked for, if that is less
	// during, if set, is called after a page of one namespace is read, and before it is taken.
	during func()
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{FakeControllerSource: fcache.NewFakeControllerSource(), pageSize: 1000}
	t.Cleanup(s.Shutdown)
	return s
}

// Add adds an object.
func (s *source) Add(o runtime.Object) { s.FakeControllerSource.Add(asRead(o)) }

// Modify changes an object.
func (s *source) Modify(o runtime.Object) { s.FakeControllerSource.Modify(asRead(o)) }

// Delete takes an object away.
func (s *source) Delete(o runtime.Object) { s.FakeControllerSource.Delete(asRead(o)) }

// asRead is an object as it is read from an API server.
func asRead(o runtime.Object) runtime.Object {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o
	}
	document, err := u.MarshalJSON()
	r := &watch.Rule{}
	if err == nil {
		err = r.UnmarshalJSON(document)
	}
	if err != nil {
		panic(err) // it was made by a test
	}
	return r
}

// List implements watch.Source. A continue token is the key of the object that was last.
func (s *source) List(ctx context.Context, namespace string, o metav1.ListOptions, take func(metav1.Object)) (found metav1.ListMeta, err error) {
	if err := ctx.Err(); err != nil {
		return found, err
	}
	list, err := s.FakeControllerSource.List(metav1.ListOptions{})
	if err != nil {
		return found, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return found, err
	}
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return found, err
	}
	all := map[string]metav1.Object{}
	for _, item := range items {
		m := item.(metav1.Object)
		key := m.GetNamespace() + "/" + m.GetName()
		if (namespace == "" || m.GetNamespace() == namespace) && key > o.Continue && selector.Matches(fields.Set{metav1.ObjectNameField: m.GetName()}) {
			all[key] = m
		}
	}
	if (namespace != "" || !selector.Empty()) && s.during != nil {
		s.during()
	}
	found.ResourceVersion = list.(metav1.ListInterface).GetResourceVersion()
	for i, key := range slices.Sorted(maps.Keys(all)) {
		if i == min(s.pageSize, int(o.Limit)) {
			return found, nil
		}
		found.Continue = key
		take(all[key])
	}
	found.Continue = ""
	return found, nil
}

// Watch implements watch.Source.
func (s *source) Watch(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	return s.FakeControllerSource.Watch(o)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{policies: newSource(t), clusterPolicies: newSource(t), quotas: newSource(t), clusterQuotas: newSource(t), namespaces: newSource(t)}
	rules := map[string]watch.Source{
		v1alpha1.KindEventPolicy: r.policies, v1alpha1.KindClusterEventPolicy: r.clusterPolicies,
		v1alpha1.KindEventQuota: r.quotas, v1alpha1.KindClusterEventQuota: r.clusterQuotas,
	}
	c, err := watch.New(watch.Sources{Rules: rules, Namespaces: r.namespaces}, policy.Default(), func(report watch.Report) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reported = append(r.reported, report)
		r.synced = append(r.synced, r.HasSynced())
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Cache = c
	return r
}

// start runs the Cache until the test ends.
func (r *rig) start(t *testing.T) {
	t.Helper()
	run(t, r.Cache)
	eventually(t, "synced", r.HasSynced)
}

func run(t *testing.T, c *watch.Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// reports are those so far, each as one line.
func (r *rig) reports() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, t := range r.reported {
		all = append(all, fmt.Sprintf("%s: %d of %d governs, valid %v", t.Identity, t.ActiveGeneration, t.Generation, t.Err == nil))
	}
	return all
}

// pending is how many rules are not compiled yet.
func (r *rig) pending() (n int) {
	for _, report := range r.Reports() {
		if report.Pending {
			n++
		}
	}
	return n
}

// activePolicy says which generation of which policy governs a namespace.
func activePolicy(c *watch.Cache, namespace string) string {
	p := c.Current().Resolve(context.Background(), namespace, &corev1.Event{}, nil).Policy
	return fmt.Sprintf("%s@%d", p.Name, p.Identity.Generation)
}

func (r *rig) wantActivePolicy(t *testing.T, namespace, want string) {
	t.Helper()
	got := ""
	err := poll(t, func() bool {
		got = activePolicy(r.Cache, namespace)
		return got == want
	})
	if err != nil {
		t.Fatalf("%s governs namespace %s, want %s", got, namespace, want)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if err := poll(t, is); err != nil {
		t.Fatalf("not %s in time", what)
	}
}

func poll(t *testing.T, is func() bool) error {
	t.Helper()
	return wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return is(), nil })
}

// object is a policy; of the cluster if namespace is empty.
func object(t *testing.T, namespace, name string, generation int64, spec string) *unstructured.Unstructured {
	t.Helper()
	return ofKind(t, v1alpha1.KindEventPolicy, namespace, name, generation, spec)
}

// quota is a quota; of the cluster if namespace is empty.
func quota(t *testing.T, namespace, name string, generation int64, spec string) *unstructured.Unstructured {
	t.Helper()
	return ofKind(t, v1alpha1.KindEventQuota, namespace, name, generation, spec)
}

func ofKind(t *testing.T, kind, namespace, name string, generation int64, spec string) *unstructured.Unstructured {
	t.Helper()
	if namespace == "" {
		kind = "Cluster" + kind
	}
	document, err := yaml.YAMLToJSON(fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nspec: {%s}", v1alpha1.GroupVersion(), kind, spec))
	u := &unstructured.Unstructured{}
	if err == nil {
		err = u.UnmarshalJSON(document)
	}
	if err != nil {
		t.Fatal(err)
	}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID("uid of " + name))
	u.SetGeneration(generation)
	return u
}

func namespace(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}
}
