package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/cmd/webhook/brake"
)

// cluster is an API server that has a brake in a mode, or none. It records the writes that it gets.
type cluster struct {
	mu     sync.Mutex
	mode   string // empty for no brake
	sent   []string
	refuse bool
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	status := func(code int, reason string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason})
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		_, _ = w.Write([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview","status":{"userInfo":{"username":"alice"}}}`))
		return
	case r.Method == http.MethodGet && c.mode == "":
		status(http.StatusNotFound, "NotFound")
		return
	case r.Method != http.MethodGet && c.refuse:
		status(http.StatusForbidden, "Forbidden")
		return
	case r.Method != http.MethodGet:
		c.sent = append(c.sent, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" "+string(body))
		c.mode = "Enforce"
		if strings.Contains(string(body), `"mode":"Disabled"`) {
			c.mode = "Disabled"
		}
	}
	_, _ = fmt.Fprintf(w, `{"apiVersion":"eventquota.io/v1alpha1","kind":"ClusterEventPolicy","metadata":{"name":"emergency-brake","resourceVersion":"7",
		"annotations":{"eventquota.io/brake-by":"alice\u001b[2J","eventquota.io/brake-since":"2026-01-02T15:04:05Z"}},
		"spec":{"mode":%q,"action":"Drop","match":{"types":["Normal"]}}}`, c.mode)
}

// TestBrakeNeedsConfirmation checks that only the whole word and then enter change anything. It also checks the requests.
func TestBrakeNeedsConfirmation(t *testing.T) {
	for namespace, path := range map[string]string{
		"": "/apis/eventquota.io/v1alpha1/clustereventpolicies", "shop": "/apis/eventquota.io/v1alpha1/namespaces/shop/eventpolicies",
	} {
		c := &cluster{}
		s := httptest.NewServer(c)
		r := newRig(t, 80, 24)
		r.opts.Brake = func() (*brake.Brake, error) { return brake.New(&rest.Config{Host: s.URL}, namespace) }
		for _, keys := range [][]string{
			{"b", "esc"}, {"b", "enter"}, {"b", "y", "enter"}, {"b", "b", "r", "a", "k", "enter"}, {"b", "b", "r", "a", "k", "e", "esc"},
			{"b", "b", "r", "a", "k", "e", "backspace", "enter"}, {"b", "r", "e", "l", "e", "a", "s", "e", "enter"},
		} {
			r.press(keys...)
			if r.overlay != nil {
				r.press("esc")
			}
			if len(c.sent) > 0 {
				t.Fatalf("keys %v sent %q, want nothing", keys, c.sent)
			}
		}
		r.press("b")
		question := r.screenText()
		kind, where := "ClusterEventPolicy", "in all namespaces"
		if namespace != "" {
			kind, where = "EventPolicy", "in namespace shop"
		}
		for _, want := range []string{"kind: " + kind + "\n", "action: Drop", "precedence: 1", "- Normal", "all Events except Warnings " + where, "kubectl eventquota brake off", "Type brake and press enter", "mode: Enforce", "or creates it, with your rights"} {
			if !strings.Contains(strings.ReplaceAll(question, " \n", "\n"), want) {
				t.Errorf("the question lacks %q:\n%s", want, question)
			}
		}
		if strings.Contains(question, "tier: Admin") != (namespace == "") {
			t.Errorf("only a cluster-scoped policy may have a tier:\n%s", question)
		}
		r.press("b", "r", "a", "k", "e", "enter")
		if got := r.screenText(); !strings.Contains(got, "The emergency brake is pulled") || !strings.Contains(got, "kubectl eventquota brake off") {
			t.Errorf("the screen is not as expected after the brake was pulled:\n%s", got)
		}
		r.press("esc", "b")
		if got := r.screenText(); !strings.Contains(got, "Type release and press enter") ||
			!strings.Contains(got, "set by alice\ufffd[2J") || !strings.Contains(got, "since  2026-01-02T15:04:05Z") {
			t.Errorf("the screen does not ask whether to release the brake, or not who has pulled it:\n%s", got)
		}
		r.press("r", "e", "l", "e", "a", "s", "e", "enter", "esc")
		if len(c.sent) != 2 || !strings.HasPrefix(c.sent[0], "POST "+path+"?fieldManager=eventquota-brake application/json ") ||
			!strings.Contains(c.sent[0], `"action":"Drop"`) || !strings.Contains(c.sent[0], `"mode":"Enforce"`) || !strings.Contains(c.sent[0], `"eventquota.io/brake-by":"alice"`) ||
			!strings.HasPrefix(c.sent[1], "PATCH "+path+"/emergency-brake?fieldManager=eventquota-brake application/merge-patch+json ") {
			t.Errorf("sent %q, want a POST and a PATCH", c.sent)
		}
		c.refuse = true
		r.press("b", "b", "r", "a", "k", "e", "enter")
		if got := r.screenText(); !strings.Contains(got, "Nothing was changed: pull the emergency brake: it takes the verbs get and patch") {
			t.Errorf("the screen is not as expected without the right:\n%s", got)
		}
		s.Close()
	}
}
