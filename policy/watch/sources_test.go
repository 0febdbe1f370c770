package watch_test

import (
	"context"
	"fmt"
	"io"
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
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

func sourcesOf(t *testing.T, config *rest.Config) watch.Sources {
	t.Helper()
	sources, err := watch.NewSources(config)
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// TestUnservedKindsAreEmpty checks that a replica becomes ready although the API server does not serve the kinds
// yet. The replica must retry each kind, and log it once.
func TestUnservedKindsAreEmpty(t *testing.T) {
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
	c, err := watch.New(sourcesOf(t, &rest.Config{Host: api.URL, QPS: -1}), policy.Default(), nil)
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

// TestExpiredListsAreRestarted has an API server that expires first the continue token of a list, and then the watched
// resource version. Objects deleted in the meantime must disappear, and new ones must be found.
func TestExpiredListsAreRestarted(t *testing.T) {
	t.Parallel()
	a := &expiringAPIServer{}
	api := httptest.NewServer(a)
	t.Cleanup(api.Close)
	c, err := watch.New(sourcesOf(t, &rest.Config{Host: api.URL, QPS: -1}), policy.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	eventually(t, "the third list is in force", func() bool { return activePolicy(c, "a") == "ClusterEventPolicy third@1" })
	var kept []string
	for _, r := range c.Reports() {
		kept = append(kept, r.Name)
	}
	slices.Sort(kept)
	if want := []string{"all", "third"}; !slices.Equal(kept, want) {
		t.Errorf("kept: %v, want %v", kept, want)
	}
}

// expiringAPIServer is an API server that has policies of the cluster only. Each of its lists has two pages.
type expiringAPIServer struct {
	mu    sync.Mutex
	lists int
}

// ServeHTTP implements http.Handler.
func (f *expiringAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	const gone = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	if !strings.HasSuffix(r.URL.Path, "/clustereventpolicies") {
		if q.Get("watch") == "" {
			_, _ = io.WriteString(w, "{"+kindOfList(r)+`,"metadata":{"resourceVersion":"1"},"items":[]}`)
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case q.Get("watch") != "" && f.lists < 3:
		_, _ = io.WriteString(w, `{"type":"ERROR","object":`+gone+"}\n")
	case q.Get("watch") != "":
		f.mu.Unlock()
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		f.mu.Lock()
	case q.Get("continue") == "":
		f.lists++
		_, _ = io.WriteString(w, list("all", 5, "more"))
	case f.lists == 1:
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, gone)
	default:
		_, _ = io.WriteString(w, list(map[int]string{2: "second", 3: "third"}[f.lists], 1, ""))
	}
}

// list is a page with one policy.
func list(name string, precedence int, next string) string {
	return fmt.Sprintf(`{"kind":"ClusterEventPolicyList","apiVersion":"eventquota.io/v1alpha1","metadata":{"resourceVersion":"1","continue":%q},"items":[{"kind":"ClusterEventPolicy",`+
		`"apiVersion":"eventquota.io/v1alpha1","metadata":{"name":%q,"uid":%[2]q,"generation":1},"spec":{"precedence":%d}}]}`, next, name, precedence)
}

// kindOfList returns the kind and apiVersion of a requested list, as the first fields of its JSON.
func kindOfList(r *http.Request) string {
	for kind, of := range v1alpha1.Resources() {
		if strings.HasSuffix(r.URL.Path, "/"+of.Resource) {
			return fmt.Sprintf(`"kind":"%sList","apiVersion":%q`, kind, of.GroupVersion())
		}
	}
	return `"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`
}
