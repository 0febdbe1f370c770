package watch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server has real lists and watches
)

// busyTenant changes the rules and labels of a namespace all the time.
type busyTenant struct {
	client  dynamic.Interface
	changes atomic.Int64
}

const (
	tenantNames = 400 // of rules of each kind
	writers     = 6
)

// change makes one change at random. Some fail, as another one has been before.
func (n *busyTenant) change(ctx context.Context, t *testing.T, i int) {
	t.Helper()
	kind, spec := v1alpha1.KindEventPolicy, fmt.Sprintf("precedence: %d, action: Drop, match: {reasons: [R%d]}", 1+i%10000, i)
	if rand.IntN(2) == 0 {
		kind, spec = v1alpha1.KindEventQuota, fmt.Sprintf("limits: [{name: a, burst: %d, tokens: 1}, {name: b, per: [InvolvedObject], burst: 1, tokens: 1}]", 1+i%1000)
	}
	u := ofKind(t, kind, "tenant", fmt.Sprint("r", rand.IntN(tenantNames)), 0, spec)
	u.SetUID("")
	of := n.client.Resource(v1alpha1.Resources()[kind]).Namespace("tenant")
	var err error
	switch rand.IntN(8) {
	case 0:
		err = of.Delete(ctx, u.GetName(), metav1.DeleteOptions{})
	case 1:
		labels := fmt.Appendf(nil, `{"metadata":{"labels":{"l%d":"%d"}}}`, i%100, i)
		_, err = n.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, "tenant", types.MergePatchType, labels, metav1.PatchOptions{})
	default:
		_, err = of.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "test", Force: true})
	}
	if err == nil {
		n.changes.Add(1)
	}
}

// TestClusterRulesApplyWhileTenantChangesRules uses a real API server. However much a tenant has changed, an
// emergency brake and a quota come into force before it can make a few more changes. Few of the tenant's rules are kept, and
// the oldest are in force.
func TestClusterRulesApplyWhileTenantChangesRules(t *testing.T) {
	t.Parallel()
	const before, soon, rounds = 1500, 100, 5
	s := newServer(t)
	n := &busyTenant{client: s.client}
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for w := range writers {
		busy.Go(func() {
			for i := w; ctx.Err() == nil; i += writers {
				n.change(ctx, t, i)
			}
		})
	}
	defer busy.Wait()
	defer stop()
	run(t, s.cache)
	eventually(t, "synced", s.cache.HasSynced)
	eventually(t, "changed a lot", func() bool { return n.changes.Load() > before })
	for i := range rounds {
		brake := s.clusterRule(t, v1alpha1.KindClusterEventPolicy, fmt.Sprint("brake-", i), fmt.Sprintf("tier: Admin, precedence: %d, action: Drop", 100-i))
		made := n.changes.Load()
		want := fmt.Sprintf("%s %s@1", brake.GetKind(), brake.GetName())
		eventually(t, want, func() bool { return activePolicy(s.cache, "calm") == want && activePolicy(s.cache, "tenant") == want })
		if after := n.changes.Load() - made; after > soon {
			t.Errorf("%s is in force after %d more changes, want at most %d", want, after, soon)
		}
		quota := s.clusterRule(t, v1alpha1.KindClusterEventQuota, fmt.Sprint("quota-", i), "limits: [{name: l"+fmt.Sprint(i)+", burst: 1, tokens: 1}]")
		made = n.changes.Load()
		eventually(t, quota.GetName(), func() bool { return slices.Contains(limits(s.cache, "calm"), "ClusterEventQuota "+quota.GetName()) })
		if after := n.changes.Load() - made; after > soon {
			t.Errorf("%s is in force after %d more changes, want at most %d", quota.GetName(), after, soon)
		}
		for _, kind := range []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota} {
			if kept := len(s.keptRules(kind)); kept > watch.MaxKeptRules {
				t.Errorf("%d rules of kind %s are kept", kept, kind)
			}
		}
	}
	stop()
	busy.Wait()
	t.Logf("%d changes", n.changes.Load())
	for _, kind := range []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota} {
		s.checkOldestInForce(t, kind)
	}
}

// server is an API server that knows the definitions, and a Cache of it.
type server struct {
	client dynamic.Interface
	cache  *watch.Cache
}

func newServer(t *testing.T) *server {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	crds, err := manifests.CRDs()
	if err == nil {
		_, err = envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: crds})
	}
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(c.Config)
	config.QPS = -1
	s := &server{}
	if s.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if s.cache, err = watch.New(sourcesOf(t, config), policy.Default(), nil); err != nil {
		t.Fatal(err)
	}
	namespaces := s.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	for _, name := range []string{"tenant", "calm"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		u.SetName(name)
		if _, err := namespaces.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// clusterRule makes a rule of the cluster.
func (s *server) clusterRule(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := ofKind(t, kind[len("Cluster"):], "", name, 0, spec)
	u.SetUID("")
	u, err := s.client.Resource(v1alpha1.Resources()[kind]).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// keptRules are the rules of the tenant of a kind that are kept.
func (s *server) keptRules(kind string) (all []watch.Report) {
	for _, report := range s.cache.Reports() {
		if report.Kind == kind && report.Namespace == "tenant" {
			all = append(all, report)
		}
	}
	return all
}

// checkOldestInForce holds that of the tenant's rules of a kind those that are in force are the oldest, in their last generation.
func (s *server) checkOldestInForce(t *testing.T, kind string) {
	t.Helper()
	list, err := s.client.Resource(v1alpha1.Resources()[kind]).Namespace("tenant").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		x := policy.Candidate{Created: a.GetCreationTimestamp().Time, Name: a.GetName()}
		return x.CompareAge(&policy.Candidate{Created: b.GetCreationTimestamp().Time, Name: b.GetName()})
	})
	most := policy.MaxRules
	if kind == v1alpha1.KindEventQuota {
		most = policy.MaxLimits / 2 // each has two
	}
	var want []string
	for _, u := range list.Items[:min(most, len(list.Items))] {
		want = append(want, fmt.Sprint(u.GetName(), "@", u.GetGeneration(), " ", u.GetUID()))
	}
	slices.Sort(want)
	var got []string
	err = poll(t, func() bool {
		got = nil
		for _, report := range s.keptRules(kind) {
			if report.ActiveGeneration > 0 {
				got = append(got, fmt.Sprint(report.Name, "@", report.ActiveGeneration, " ", report.UID))
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
	if err != nil {
		t.Errorf("of %d of kind %s in force:\n%v\nwant:\n%v", len(list.Items), kind, got, want)
	}
}
