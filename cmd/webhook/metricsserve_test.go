package main

import (
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
)

// TestMetricsOfAWebhookThatServes holds that what is asked and settled is counted.
func TestMetricsOfAWebhookThatServes(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*serveOptions) {})
	o := s.opts
	eventually(t, "ready", func() bool { return get(t, "http://"+o.HealthAddress+"/readyz") == http.StatusOK })
	call(t, o.Port, "mutate", "first", true)
	call(t, o.Port, "validate", "first", true)
	call(t, o.Port, "mutate", "second", false)
	call(t, o.Port, "mutate", "third", false)
	eventually(t, "pending counts are shown", func() bool {
		return strings.Contains(body(t, "http://"+o.MetricsAddress+"/metrics"), `eventquota_settle_pending{store="memory"} 1`)
	})
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	m := s.metrics
	wantLines(t, m, "eventquota_decisions_total",
		`{outcome="admit",phase="mutate"} 1`, `{outcome="admit",phase="validate"} 1`, `{outcome="merge",phase="mutate"} 2`)
	wantLines(t, m, "eventquota_events_total",
		`{bucket="",event_namespace="shop",outcome="admit",policy="default"} 1`, `{bucket="",event_namespace="shop",outcome="merge",policy="default"} 2`)
	wantLines(t, m, "eventquota_review_duration_seconds", `{phase="mutate"} 3`, `{phase="validate"} 1`)
	wantLines(t, m, "eventquota_etcd_writes_saved_total", `{} 2`)
	wantLines(t, m, "eventquota_settle_writes_total", `{result="told"} 1`)
	wantLines(t, m, "eventquota_settle_lag_seconds", `{store="memory"} 1`)
	if v := values(t, m, "eventquota_store_duration_seconds"); v[`eventquota_store_duration_seconds{step="merge",store="memory"} 3`] != 3 {
		t.Errorf("calls of the store: %v, want 3 merges", v)
	}
}

func TestMessagesThatAreCutAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	p := policy.Default()
	memory, err := store.NewMemory(store.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	gate := &admission.Gate{
		Policies: admission.Current(func() *policy.Set { return policy.NewSet(&p, nil, nil) }), Store: memory, Now: time.Now,
	}
	phase := m.cuts(gate.Mutate)
	review := func(name, message string, dryRun bool) {
		t.Helper()
		r := &admission.Request{Object: &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Message: message,
		}}
		r.DryRun = dryRun
		r.Kind, r.Operation, r.Namespace = metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, admissionv1.Create, "shop"
		a, err := phase(t.Context(), r)
		if err == nil && a.Response.Allowed {
			_, err = gate.Validate(t.Context(), r)
		}
		if err != nil {
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
