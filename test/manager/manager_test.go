// Package manager tests eventquota's handlers and server in a manager of controller-runtime, as webhooks of a kube-apiserver.
package manager

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/cluster"
)

// TestMain discards the logs of managers.
func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestManagersAnswerAsOwnServer sends the same writes to handlers that managers serve in each way, and to eventquota's server without a
// manager. Only a review of more than 7 MB is answered differently: webhook.Admission fails the call, so the API server stores the Event.
func TestManagersAnswerAsOwnServer(t *testing.T) {
	r := newRig(t)
	alone := r.newMount(t, "alone")
	alone.startAlone()
	want := alone.writeAll()
	if diff := cmp.Diff(wantAnswers(), want.inShort()); diff != "" {
		t.Errorf("answers of eventquota's server (-want +got):\n%s", diff)
	}
	for namespace, way := range map[string]struct {
		says  string
		start func(*mount)
		fails int64 // calls with a review of more than 7 MB
	}{
		"alone": {"eventquota's server, without a manager", nil, 0},
		"one":   {"webhook.Admission on the server of controller-runtime", func(m *mount) { m.startManager(m.crServer(), asAdmission) }, 1},
		"two":   {"the http.Handler on the server of controller-runtime", func(m *mount) { m.startManager(m.crServer(), asHandler) }, 0},
		"three": {"webhook.Admission on eventquota's server", func(m *mount) { m.startManager(m.ownServer(), asAdmission) }, 1},
		"four":  {"the http.Handler on eventquota's server", func(m *mount) { m.startManager(m.ownServer(), asHandler) }, 0},
	} {
		t.Run(way.says, func(t *testing.T) {
			m := alone
			if way.start != nil {
				m = r.newMount(t, namespace)
				way.start(m)
				if diff := cmp.Diff(want, m.writeAll()); diff != "" {
					t.Errorf("answers (-eventquota's server +this way):\n%s", diff)
				}
			}
			if failed := m.failedCalls(); failed != 0 {
				t.Errorf("%d webhook calls failed, want none:\n%s", failed, r.WebhookErrors())
			}
			if stored := m.writeHuge(); stored != (way.fails > 0) || m.failedCalls() != way.fails {
				t.Errorf("a review of more than 7 MB: the Event is stored: %t, with %d failed calls, want %d", stored, m.failedCalls(), way.fails)
			}
		})
	}
}

// failedCalls returns how many calls of the webhooks failed, so that the API server stored the Event.
func (m *mount) failedCalls() int64 {
	m.Helper()
	calls, err := m.WebhookCalls(m.Context())
	m.must(err)
	return calls[m.namespace+"."+cluster.MutatingWebhook].FailedOpen + calls[m.namespace+"."+cluster.ValidatingWebhook].FailedOpen
}
