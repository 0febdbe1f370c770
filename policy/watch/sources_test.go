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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
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
	rules, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := watch.New(watch.NewSources(rules, namespaces), policy.Default(), nil)
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
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	eventually(t, "synced", c.HasSynced)
	eventually(t, "tried again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		least := 3 // an attempt may make two requests
		for _, n := range asked {
			least = min(least, n)
		}
		return len(asked) == 5 && least == 3
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	slices.Sort(lines)
	for i, resource := range []string{"namespaces", "clustereventpolicies", "clustereventquotas", "eventpolicies", "eventquotas"} {
		if len(lines) != 5 || !strings.Contains(lines[i], `"`+resource+`"`) {
			t.Fatalf("logged, want one line for each kind:\n%s", strings.Join(lines, "\n"))
		}
	}
}
