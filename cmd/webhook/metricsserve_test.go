package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/cli"
)

// TestMetricsOfAWebhookThatServes holds that what is asked and settled is counted.
func TestMetricsOfAWebhookThatServes(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*serveOptions) {})
	o := s.opts
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+o.HealthAddress+"/readyz") == http.StatusOK })
	call(t, o.Port, "mutate", "first", true)
	call(t, o.Port, "mutate", "second", false)
	call(t, o.Port, "mutate", "third", false)
	cli.Eventually(t, "pending counts are shown", func() bool {
		return strings.Contains(body(t, "http://"+o.MetricsAddress+"/metrics"), `eventquota_settle_pending{store="memory"} 1`)
	})
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	m := s.metrics
	wantLines(t, m, "eventquota_decisions_total",
		`{outcome="admit",phase="mutate"} 1`, `{outcome="merge",phase="mutate"} 2`)
	wantLines(t, m, "eventquota_events_total",
		`{bucket="",event_namespace="shop",outcome="admit",policy="default"} 1`, `{bucket="",event_namespace="shop",outcome="merge",policy="default"} 2`)
	wantLines(t, m, "eventquota_review_duration_seconds", `{phase="mutate"} 3`, `{phase="validate"} 0`)
	wantLines(t, m, "eventquota_etcd_writes_saved_total", `{} 2`)
	wantLines(t, m, "eventquota_settle_writes_total", `{result="written"} 1`)
	wantLines(t, m, "eventquota_settle_lag_seconds", `{store="memory"} 1`)
	if v := values(t, m, "eventquota_store_duration_seconds"); v[`eventquota_store_duration_seconds{step="decide",store="memory"} 3`] != 3 {
		t.Errorf("calls of the store: %v, want 3 that decide", v)
	}
}

// TestWhatIsGivenUpIsCounted has an API server that deletes the namespace of what was merged.
func TestWhatIsGivenUpIsCounted(t *testing.T) {
	a := newAPIServer(t)
	terminating := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(terminating.Code))
		_ = json.NewEncoder(w).Encode(terminating)
	})
	s := serving(t, a, func(*serveOptions) {})
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
	call(t, s.opts.Port, "mutate", "first", true)
	call(t, s.opts.Port, "mutate", "second", false)
	call(t, s.opts.Port, "mutate", "third", false)
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	wantLines(t, s.metrics, "eventquota_settle_writes_total", `{result="given_up"} 1`)
	wantLines(t, s.metrics, "eventquota_settle_given_up_total", "{} 2")
}

func TestMessagesThatAreCutAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	p := policy.Default()
	own, err := memory.New(memory.Options{Bytes: memory.MinBytes})
	if err != nil {
		t.Fatal(err)
	}
	gate := &admission.Gate{
		Policies: admission.Current(func() *policy.Set { return policy.NewSet(&p, nil, nil) }), Store: own, Now: time.Now,
	}
	phase := m.cuts(gate.Mutate)
	review := func(name, message string, dryRun bool) {
		t.Helper()
		r := &admission.Request{Object: new(backOff(name))}
		r.Object.Message = message
		r.DryRun = dryRun
		r.Kind, r.Operation, r.Namespace = metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, admissionv1.Create, "shop"
		if _, err := phase(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 2000)
	review("short", "short", false)
	review("dry", long, true)
	review("long", long, false)
	review("again", long, false) // is merged
	wantLines(t, m, "eventquota_messages_truncated_total", `{} 1`)
}

func TestPoliciesAreCountedAsTheyAre(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	m.policies(reported{{Governing: 1}, {Err: errors.New("no")}, {Governing: 2, Err: errors.New("no")}, {Governing: 2}, {Governing: 3}})
	wantLines(t, m, "eventquota_policies", `{result="accepted"} 3`, `{result="rejected"} 2`)
}

type reported []watch.Report

func (r reported) Reports() []watch.Report { return r }

// TestAServerExplains holds that a replica that serves answers, and what it says of
// what it has merged.
func TestAServerExplains(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*serveOptions) {})
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
	status, said := page(t, "http://"+s.opts.MetricsAddress+"/explain?group="+store.KeyOf("nobody").String())
	if status != http.StatusOK || !strings.Contains(said, `"store":"memory"`) {
		t.Errorf("%d %s, want what its store has", status, said)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
