package watch_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// TestKindsThatAreNotServedHaveNoObjects holds that an API server that does not know the definitions keeps no replica from
// being ready, and that each kind is asked for again and again, and logged once.
func TestKindsThatAreNotServedHaveNoObjects(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked, lines := map[string]int{}, []string{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
		http.NotFound(w, r)
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, QPS: -1}
	sources, err := watch.NewSources(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := watch.New(sources, policy.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, "Cannot be watched") { // client-go says things of its own when it is stopped
			lines = append(lines, args)
		}
	}, funcr.Options{})
	ctx, stop := context.WithCancel(logr.NewContext(t.Context(), log))
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	eventually(t, "synced", c.HasSynced)
	eventually(t, "tried again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		least := 2
		for _, n := range asked {
			least = min(least, n)
		}
		return len(asked) == 5 && least == 2
	})
	stop()
	running.Wait()
	slices.Sort(lines)
	for i, resource := range []string{"ClusterEventPolicy", "ClusterEventQuota", "EventPolicy", "EventQuota", "Namespace"} {
		if len(lines) != 5 || !strings.Contains(lines[i], `"`+resource+`"`) {
			t.Fatalf("logged, want one line for each kind:\n%s", strings.Join(lines, "\n"))
		}
	}
}
