package check

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/test/cli"
)

// file writes a temporary file, and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfig writes a kubeconfig for an API server, and returns its path.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	return file(t, `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
clusters: [{name: a, cluster: {server: "`+server+`"}}]}`)
}

func TestBadInputReturnsOneError(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	empty, none, down := t.TempDir(), file(t, "nonsense\n"), kubeconfig(t, "https://127.0.0.1:1")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an argument":                      {[]string{"pods"}, `unknown command "pods" for "eventquota check"`},
		"no kubeconfig outside of a pod":   {nil, "--kubeconfig: no kubeconfig at /nowhere"},
		"a missing kubeconfig":             {[]string{"--kubeconfig=/missing"}, "--kubeconfig: stat /missing: no such file or directory"},
		"a kubeconfig that is a directory": {[]string{"--kubeconfig=" + empty}, `--kubeconfig: error loading config file "` + empty + `": read ` + empty + ": is a directory"},
		"an invalid kubeconfig":            {[]string{"--kubeconfig=" + none}, `--kubeconfig: error loading config file "` + none + `": couldn't get version/kind`},
		"an API server that is down":       {[]string{"--kubeconfig=" + down}, "check: write an Event in namespace default: Post "},
		"an empty namespace":               {[]string{"--namespace="}, `--namespace "": a lowercase RFC 1123 label`},
		"an invalid namespace":             {[]string{"--namespace=a/b"}, `--namespace "a/b": a lowercase RFC 1123 label`},
		"one Event":                        {[]string{"--events=1"}, "--events 1: must be at least 2"},
		"no time":                          {[]string{"--timeout=999ms"}, "--timeout 999ms: must be at least 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			cli.WantError(t, cli.WithRoot(Command()), test.want, append([]string{"check"}, test.args...)...)
		})
	}
}

// TestCheckSucceedsWhenWebhookRefuses checks that only a refusal by the webhook is a success.
func TestCheckSucceedsWhenWebhookRefuses(t *testing.T) {
	refusal := func(code int32, reason metav1.StatusReason, message string) metav1.Status {
		return metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		}
	}
	forbidden := refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "events is forbidden")
	for name, test := range map[string]struct {
		admits, written int64 // the number of Events admitted before the refusal, and of all that check writes
		answer          metav1.Status
		args            []string
		stdout, err     string
	}{
		"the second is merged": {
			1, 2, refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists, `admission webhook "mutate.events.eventquota.io" denied the request: merged`),
			nil, `"mutate.events.eventquota.io" denied the request: merged`, "",
		},
		"a bucket is empty": {
			25, 26, refusal(http.StatusBadRequest, admission.ReasonDropped, `admission webhook "validate.events.eventquota.io" denied the request: empty`),
			nil, `"validate.events.eventquota.io" denied the request: empty`, "",
		},
		"all are admitted":         {100, 60, forbidden, nil, "", "60 equal Events were admitted in namespace default"},
		"all of a few":             {100, 5, forbidden, []string{"--events=5"}, "", "5 equal Events were admitted"},
		"no right to write Events": {0, 1, forbidden, nil, "", "write an Event in namespace default: events is forbidden"},
		"another webhook refuses": {
			0, 1, refusal(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "policy.example.org" denied the request: no "validate.events.eventquota.io" here`),
			nil, "", `admission webhook "policy.example.org" denied`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet:
					answer(w, &forbidden)
				case r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/default/events" || r.URL.Query().Has("dryRun"):
					t.Errorf("unexpected call %s %s", r.Method, r.URL)
				case written.Add(1) <= test.admits:
					answer(w, &corev1.Event{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}})
				default:
					answer(w, &test.answer)
				}
			}))
			t.Cleanup(server.Close)
			stdout, _, err := cli.Run(t, cli.WithRoot(Command()), nil, append([]string{"check", "--kubeconfig=" + kubeconfig(t, server.URL)}, test.args...)...)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			const success = "The API server calls the webhook"
			if written.Load() != test.written || strings.Contains(stdout, success) != (test.stdout != "") || !strings.Contains(stdout, test.stdout) {
				t.Errorf("wrote %d Events and printed %q, want %d Events and the message %q", written.Load(), stdout, test.written, test.stdout)
			}
			if !strings.HasSuffix(stdout, "not checked: the priority levels of Event writes: grant list on flowschemas and "+
				"prioritylevelconfigurations in flowcontrol.apiserver.k8s.io\n") {
				t.Errorf("printed %q, want at the end that the priority levels could not be read", stdout)
			}
		})
	}
}

// answer writes a Kubernetes object, with its own code if it is a Status.
func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if status, ok := object.(*metav1.Status); ok {
		w.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(w).Encode(object)
}

func TestEarlierChecksDoNotCount(t *testing.T) {
	if a, b := newEvent("default"), newEvent("default"); a.InvolvedObject == b.InvolvedObject {
		t.Errorf("two Events of check are about the same object %v", a.InvolvedObject)
	}
	if _, refused := refusalMessage(errors.New("x")); refused {
		t.Error("an error without a status counts as a refusal by the webhook")
	}
}
