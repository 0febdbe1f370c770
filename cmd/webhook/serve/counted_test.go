package serve

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

// TestMetricsOfAWebhookThatServes holds that what is asked and settled is counted.
func TestMetricsOfAWebhookThatServes(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*options) {})
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
	prom.Want(t, m.Gatherer, "eventquota_decisions_total",
		`{outcome="admit",phase="mutate"} 1`, `{outcome="merge",phase="mutate"} 2`)
	prom.Want(t, m.Gatherer, "eventquota_events_total",
		`{bucket="",event_namespace="shop",outcome="admit",policy="default"} 1`, `{bucket="",event_namespace="shop",outcome="merge",policy="default"} 2`)
	prom.Want(t, m.Gatherer, "eventquota_review_duration_seconds", `{phase="mutate"} 3`, `{phase="validate"} 0`)
	prom.Want(t, m.Gatherer, "eventquota_etcd_writes_saved_total", `{} 2`)
	prom.Want(t, m.Gatherer, "eventquota_settle_writes_total", `{result="written"} 1`)
	prom.Want(t, m.Gatherer, "eventquota_settle_lag_seconds", `{store="memory"} 1`)
	if v := prom.Values(t, m.Gatherer, "eventquota_store_duration_seconds"); v[`eventquota_store_duration_seconds{step="decide",store="memory"} 3`] != 3 {
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
	s := serving(t, a, func(*options) {})
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
	call(t, s.opts.Port, "mutate", "first", true)
	call(t, s.opts.Port, "mutate", "second", false)
	call(t, s.opts.Port, "mutate", "third", false)
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	prom.Want(t, s.metrics.Gatherer, "eventquota_settle_writes_total", `{result="given_up"} 1`)
	prom.Want(t, s.metrics.Gatherer, "eventquota_settle_given_up_total", "{} 2")
}

// TestAServerExplains holds that a replica that serves answers, and what it says of
// what it has merged.
func TestAServerExplains(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*options) {})
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
