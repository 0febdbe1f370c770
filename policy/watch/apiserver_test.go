package watch_test

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server shows what it says of kinds that it does not know, and how soon its watches do
)

// attempts counts the requests about policies that failed, by path.
type attempts struct {
	next http.RoundTripper
	mu   sync.Mutex
	made map[string]int
}

// RoundTrip implements http.RoundTripper.
func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusNotFound {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.made[r.URL.Path]++
	}
	return response, err
}

// least is how often that was asked for which was asked for least.
func (a *attempts) least() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	least := math.MaxInt
	for _, r := range v1alpha1.Resources() {
		least = min(least, a.made["/apis/eventquota.io/v1alpha1/"+r.Resource])
	}
	return least
}

func TestOnAnAPIServer(t *testing.T) {
	t.Parallel()
	api := cluster.ForTest(t, cluster.Options{NoAudit: true})
	tries := &attempts{made: map[string]int{}}
	config := rest.CopyConfig(api.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		tries.next = next
		return tries
	})
	rules, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := metadata.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	newCache := func(t *testing.T) *watch.Cache {
		t.Helper()
		c, err := watch.New(watch.NewSources(rules, namespaces), policy.Default(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	t.Run("that it does not know policies is logged once for each kind", func(t *testing.T) {
		c := newCache(t)
		var mu sync.Mutex
		var lines []string
		log := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "Cannot be watched") { // client-go says things of its own when it is stopped
				lines = append(lines, args)
			}
		}, funcr.Options{})
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), log))
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		eventually(t, "tried again", func() bool { return tries.least() >= 3 }) // an attempt may make two requests
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		slices.Sort(lines)
		if len(lines) != 4 || !strings.Contains(lines[0], `"clustereventpolicies"`) || !strings.Contains(lines[1], `"clustereventquotas"`) ||
			!strings.Contains(lines[2], `"eventpolicies"`) || !strings.Contains(lines[3], `"eventquotas"`) {
			t.Errorf("logged, want one line for each kind:\n%s", strings.Join(lines, "\n"))
		}
	})

	if _, err := envtest.InstallCRDs(api.Config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	t.Run("a policy governs within a second", func(t *testing.T) {
		c := newCache(t)
		run(t, c)
		eventually(t, "synced", c.HasSynced)
		within := func(what, want string) {
			t.Helper()
			begun := time.Now()
			eventually(t, what, func() bool { return governs(c, "default") == want })
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s took %v", what, took)
			}
		}

		admins := rules.Resource(v1alpha1.Resources()[v1alpha1.KindClusterEventPolicy])
		own := rules.Resource(v1alpha1.Resources()[v1alpha1.KindEventPolicy]).Namespace("default")
		u, err := own.Create(t.Context(), object(t, "default", "p", 0, "spamFilter: {burst: 3}"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		within("a new policy", "EventPolicy default/p@1")
		u.Object["spec"] = map[string]any{"action": "Exempt"}
		if _, err := own.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		within("a change", "EventPolicy default/p@2")
		brake := object(t, "", "brake", 0, "tier: Admin, action: Drop, match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}")
		if _, err := admins.Create(t.Context(), brake, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		within("a brake", "ClusterEventPolicy brake@1")
		if err := admins.Delete(t.Context(), "brake", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		within("its end", "EventPolicy default/p@2")
	})
}
