package recommend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/cli"
)

// cluster starts an API server without the CRDs and returns the path of a kubeconfig file for it. The server lists Events in
// pages of 100. If fails is set, the last page fails.
func cluster(t *testing.T, pages int, fails bool) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &page) // the first page has none
		switch {
		case r.URL.Path == "/api/v1/namespaces":
			answer(w, http.StatusOK, corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}})
		case r.URL.Path != "/api/v1/events":
			answer(w, http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 404, Reason: metav1.StatusReasonNotFound})
		case fails && page == pages-1:
			answer(w, http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 403, Message: "not yours"})
		default:
			list := corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
			if page < pages-1 {
				list.Continue = fmt.Sprint(page + 1)
			}
			for i := range 100 {
				at := metav1.NewTime(time.Date(2026, 11, 1, 12, page, i%60, 0, time.UTC))
				name := fmt.Sprint("pod-", page, "-", i)
				list.Items = append(list.Items, corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1"},
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: name}, Source: corev1.EventSource{Component: "kubelet", Host: "n"},
					Type: "Normal", Reason: "Started", Message: "m", Count: 1, FirstTimestamp: at, LastTimestamp: at,
				})
			}
			answer(w, http.StatusOK, list)
		}
	}))
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		server.Close()
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client waits for it
}

// TestClusterWithoutEventquota checks that all pages are read, and decided by the policies of the default installation.
func TestClusterWithoutEventquota(t *testing.T) {
	out, notes, err := cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), "recommend", "--kubeconfig", cluster(t, 7, false))
	if err != nil || notes != "" || !strings.HasPrefix(out, "In 7 minutes, 700 writes take tokens from quotas. There is no storm.\n") {
		t.Errorf("error %v, standard error %q, output %q, want 700 Events of 7 pages", err, notes, out)
	}
}

// TestFailedListFails checks that there is no recommendation from an incomplete list.
func TestFailedListFails(t *testing.T) {
	out, _, err := cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), "recommend", "--kubeconfig", cluster(t, 3, true))
	if err == nil || !strings.Contains(err.Error(), "not yours") || strings.Contains(err.Error(), "\n") || out != "" {
		t.Errorf("error %v and output %q, want only the API server's error", err, out)
	}
}

func TestUnmatchedExpectedOriginIsReported(t *testing.T) {
	out, _, err := cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), "recommend", "--sample", "quiet", "--expected", "shop/kublet,team-1")
	if err != nil || !strings.Contains(out, `- --expected shop/kublet: the recording has no such Events.`) || strings.Contains(out, "team-1: the recording") {
		t.Errorf("error %v, output %q, want that only shop/kublet has no Events", err, out)
	}
}
