package brake_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/test/cli"
)

// server is an API server with the emergency brakes of the cluster and of namespaces.
type server struct {
	*testing.T

	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	user    string
	refuses map[string]int // HTTP status by method
	// before, if set, is called once, before the next write.
	before    func()
	notServed bool
	writes    []string
}

const (
	clusterPath = "/apis/eventquota.io/v1alpha1/clustereventpolicies"
	shopPath    = "/apis/eventquota.io/v1alpha1/namespaces/shop/eventpolicies"
	brakePath   = clusterPath + "/emergency-brake"
)

// ServeHTTP does what an API server does with the requests of the command.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason string, details map[string]any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason + " by the test", "details": details,
		})
	}
	if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
		if code := s.refuses["review"]; code != 0 {
			fail(code, "Forbidden", nil)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": map[string]any{"userInfo": map[string]any{"username": s.user}},
		})
		return
	}
	if s.notServed {
		w.Header().Set("Content-Type", "text/plain")
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	if code := s.refuses[r.Method]; code != 0 {
		fail(code, "Forbidden", nil)
		return
	}
	if r.Method != http.MethodGet {
		if before := s.before; before != nil {
			s.before = nil
			before()
		}
	}
	path := r.URL.Path
	var sent map[string]any
	if len(body) > 0 {
		if err := json.Unmarshal(body, &sent); err != nil {
			s.Errorf("%s %s: %v", r.Method, path, err)
		}
	}
	switch r.Method {
	case http.MethodPost:
		path += fmt.Sprint("/", nested(sent, "metadata")["name"])
		if s.objects[path] != nil {
			fail(http.StatusConflict, "AlreadyExists", nil)
			return
		}
		s.store(path, sent)
	case http.MethodPatch:
		if s.objects[path] == nil {
			fail(http.StatusNotFound, "NotFound", map[string]any{"name": "emergency-brake"})
			return
		}
		if nested(sent, "metadata")["resourceVersion"] != nested(s.objects[path], "metadata")["resourceVersion"] {
			fail(http.StatusConflict, "Conflict", nil)
			return
		}
		s.store(path, merge(s.objects[path], sent))
	case http.MethodGet:
		if s.objects[path] == nil {
			fail(http.StatusNotFound, "NotFound", map[string]any{"name": "emergency-brake"})
			return
		}
	default:
		s.Errorf("%s %s", r.Method, path)
	}
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+path+"?fieldManager="+r.URL.Query().Get("fieldManager"))
	}
	_ = json.NewEncoder(w).Encode(s.objects[path])
}

// store stores an object with a new version. The caller holds s.mu.
func (s *server) store(path string, o map[string]any) {
	s.version++
	nested(o, "metadata")["resourceVersion"] = fmt.Sprint(s.version)
	s.objects[path] = o
}

// change changes the brake of the cluster. The caller holds s.mu.
func (s *server) change(patch string) {
	var p map[string]any
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		s.Fatal(err)
	}
	s.store(brakePath, merge(s.objects[brakePath], p))
}

// nested returns the map in an object at a path.
func nested(o map[string]any, path ...string) map[string]any {
	for _, field := range path {
		o, _ = o[field].(map[string]any)
	}
	return o
}

// merge is a merge patch.
func merge(into, patch map[string]any) map[string]any {
	merged := map[string]any{}
	maps.Copy(merged, into)
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(merged, k)
		case map[string]any:
			below, _ := merged[k].(map[string]any)
			merged[k] = merge(below, v)
		default:
			merged[k] = v
		}
	}
	return merged
}

// newServer is an API server on which the brake is installed.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t, user: "alice", objects: map[string]map[string]any{}, refuses: map[string]int{}}
	s.change(`{"apiVersion":"eventquota.io/v1alpha1","kind":"ClusterEventPolicy","metadata":{"name":"emergency-brake","generation":1,"annotations":{"mine":"kept"}},
		"spec":{"mode":"Disabled","action":"Drop","tier":"Admin","precedence":1,"match":{"types":["Normal"]}}}`)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u, namespace: elsewhere}}]\ncurrent-context: c\n", web.URL)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	return s
}

// run runs the command, which must succeed.
func (s *server) run(args ...string) string {
	s.Helper()
	out, errs, err := cli.Run(s.T, cli.WithRoot(brake.Command()), cli.EndlessReader{}, append([]string{"brake"}, args...)...)
	if err != nil || errs != "" {
		s.Fatalf("brake %q: %v; %s", args, err, errs)
	}
	return out
}

// wantError runs the command, which must fail with one line.
func (s *server) wantError(want string, args ...string) {
	s.Helper()
	cli.WantError(s.T, cli.WithRoot(brake.Command()), want, append([]string{"brake"}, args...)...)
}

// status runs `brake status -o json`, and decodes its output.
func (s *server) status(args ...string) (status brake.Status) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.run(append([]string{"status", "-o", "json"}, args...)...)), &status); err != nil {
		s.Fatal(err)
	}
	return status
}

// annotations are those of the brake of a path, and its mode.
func (s *server) annotations(path string) (map[string]any, any) {
	return nested(s.objects[path], "metadata", "annotations"), nested(s.objects[path], "spec")["mode"]
}

// wantContains checks that a text has each of the parts.
func wantContains(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
}
