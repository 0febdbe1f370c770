package watch_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server shows what it says of kinds that it does not know
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
	return min(a.made["/apis/eventquota.io/v1alpha1/eventpolicies"], a.made["/apis/eventquota.io/v1alpha1/clustereventpolicies"])
}

func TestAnAPIServerThatDoesNotKnowPoliciesIsComplainedOfOnce(t *testing.T) {
	t.Parallel()
	api := cluster.ForTest(t, cluster.Options{NoAudit: true})
	tries := &attempts{made: map[string]int{}}
	config := rest.CopyConfig(api.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		tries.next = next
		return tries
	})
	policies, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := metadata.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := watch.New(watch.NewSources(policies, namespaces), policy.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
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
	eventually(t, "tried three times", func() bool { return tries.least() >= 3 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	slices.Sort(lines)
	if len(lines) != 2 || !strings.Contains(lines[0], `"clustereventpolicies"`) || !strings.Contains(lines[1], `"eventpolicies"`) {
		t.Errorf("logged, want one line for each kind:\n%s", strings.Join(lines, "\n"))
	}
}
