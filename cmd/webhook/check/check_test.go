package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// check runs eventquota check against an API server that answers every write of an Event
// after the first n with a status.
func check(t *testing.T, admits int64, answer metav1.Status, args ...string) (written int64, stdout string, err error) {
	t.Helper()
	var writes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/default/events" {
			t.Errorf("%s %s was called", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		if writes.Add(1) <= admits {
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Event"})
			return
		}
		answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer.Status = metav1.StatusFailure
		w.WriteHeader(int(answer.Code))
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	kubeconfig := file(t, `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
clusters: [{name: a, cluster: {server: "`+server.URL+`"}}]}`)
	var out bytes.Buffer
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"--kubeconfig=" + kubeconfig}, args...))
	err = cmd.ExecuteContext(t.Context())
	return writes.Load(), out.String(), err
}

func TestCheckSucceedsOnceTheWebhookRefusesAnEvent(t *testing.T) {
	for says, test := range map[string]struct {
		admits int64
		answer metav1.Status
	}{
		"the second, merged": {1, metav1.Status{
			Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
			Message: `admission webhook "mutate.events.eventquota.io" denied the request: merged into a stored Event, 2 occurrences so far`,
		}},
		"one past the tokens": {25, metav1.Status{
			Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: `admission webhook "validate.events.eventquota.io" denied the request: bucket SpamFilter is empty`,
		}},
	} {
		t.Run(says, func(t *testing.T) {
			written, stdout, err := check(t, test.admits, test.answer)
			if err != nil {
				t.Fatal(err)
			}
			if written != test.admits+1 {
				t.Errorf("%d Events were written, want no more after the refusal of number %d", written, test.admits+1)
			}
			if !strings.Contains(stdout, test.answer.Message) {
				t.Errorf("it said %q, want the webhook's own words", stdout)
			}
		})
	}
}

func TestCheckFailsWhereNoRefusalIsTheWebhooks(t *testing.T) {
	forbidden := metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "events is forbidden"}
	another := metav1.Status{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: `admission webhook "policy.example.org" denied the request: no "validate.events.eventquota.io" here`,
	}
	for says, test := range map[string]struct {
		admits, written int64
		answer          metav1.Status
		args            []string
		says            string
	}{
		"all are admitted":         {100, 60, forbidden, nil, "60 equal Events were admitted in namespace default"},
		"all of a few":             {100, 5, forbidden, []string{"--events=5"}, "5 equal Events were admitted"},
		"no right to write Events": {0, 1, forbidden, nil, "write an Event in namespace default: events is forbidden"},
		"another webhook refuses":  {0, 1, another, nil, `admission webhook "policy.example.org" denied`},
	} {
		t.Run(says, func(t *testing.T) {
			written, stdout, err := check(t, test.admits, test.answer, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v, want %q", err, test.says)
			}
			if written != test.written || stdout != "" {
				t.Errorf("%d Events were written and %q said, want %d and nothing", written, stdout, test.written)
			}
		})
	}
}

func TestNoEarlierCheckCounts(t *testing.T) {
	if a, b := newEvent("default"), newEvent("default"); a.InvolvedObject == b.InvolvedObject {
		t.Errorf("two checks are about one object, %v", a.InvolvedObject)
	}
	if _, refused := refusalOf(errors.New("x")); refused {
		t.Error("an error that is no answer counts as the webhook's")
	}
}
