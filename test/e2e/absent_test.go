package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
)

// TestTheAPIServerWorksWithoutTheWebhook holds I5 for what is shipped, where the webhook is
// absent, hangs or serves a certificate of another CA: Events are stored, a call costs no
// more than its timeout, and is made for Events alone. Then what was installed is taken
// away, while the webhook hangs.
func TestTheAPIServerWorksWithoutTheWebhook(t *testing.T) {
	if !isolated(t) {
		return
	}
	o := logged()
	o.Services = true
	e := &absentEnv{env: &env{T: t, cluster: cluster.ForTest(t, o)}}
	var err error
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	e.kubectl("", "apply", "--server-side", "-k", shippedOverlay)
	trusted := e.certificate()
	e.trust(trusted)
	namespace := e.namespace("absent")
	_, err = e.client.CoreV1().Events(namespace).Create(t.Context(), coreEvent(namespace, "probed", "web", "back-off"), metav1.CreateOptions{})
	e.must(err)
	e.eventually("the API server calls the webhook", func() bool {
		e.probe(namespace)
		calls := e.calls()
		return calls[cluster.MutatingWebhook].Total > 0 && calls[cluster.ValidatingWebhook].Total > 0
	})

	for _, tt := range []struct {
		name     string
		endpoint func(e *absentEnv) *stranger
		hangs    bool
	}{
		{"there is no endpoint", (*absentEnv).nobody, false},
		{"nobody listens at the endpoint", (*absentEnv).refuser, false},
		{"the certificate is of another CA", func(e *absentEnv) *stranger { return e.server(e.certificate()) }, false},
		{"the endpoint takes connections and is silent", (*absentEnv).silent, true},
		{"the endpoint takes reviews and does not answer", func(e *absentEnv) *stranger { return e.server(trusted) }, true},
	} {
		s := tt.endpoint(e) // the last one serves on
		e.route(s.addresses...)
		t.Run(tt.name, func(t *testing.T) {
			e := e.in(t)
			if s.listens {
				e.eventually("the API server calls the endpoint", func() bool {
					e.probe(namespace)
					return s.met.Load() > 0
				})
			}
			e.passes(namespace, tt.hangs)
		})
	}
	t.Run("what was installed is taken away while it hangs", func(t *testing.T) { e.in(t).uninstalls(namespace) })
}
