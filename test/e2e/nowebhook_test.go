package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/test/cluster"
)

// TestAPIServerWorksWithoutWebhook checks I5 for the shipped manifests while the webhook is absent, hangs or serves a
// certificate of another CA. Events must be stored, a call must cost no more than its timeout, and only Events may
// cause calls. Then it uninstalls everything while the webhook hangs.
func TestAPIServerWorksWithoutWebhook(t *testing.T) {
	t.Parallel()
	e := &noWebhookEnv{env: &env{T: t, cluster: planes.ForTest(t)}}
	var err error
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	e.kubectl("", "apply", "--server-side", "-f", crdDir)
	e.kubectl("", "wait", "--for=condition=Established", "--timeout=1m", "-f", crdDir)
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
		endpoint func(e *noWebhookEnv) *fakeEndpoint
		hangs    bool
	}{
		{"no endpoint", (*noWebhookEnv).noEndpoint, false},
		{"no process listens at the endpoint", (*noWebhookEnv).refusingEndpoint, false},
		{"the certificate is of another CA", func(e *noWebhookEnv) *fakeEndpoint { return e.hangingEndpoint(e.certificate()) }, false},
		{"the endpoint accepts connections and sends nothing", (*noWebhookEnv).silentEndpoint, true},
		{"the endpoint reads reviews and does not answer", func(e *noWebhookEnv) *fakeEndpoint { return e.hangingEndpoint(trusted) }, true},
	} {
		s := tt.endpoint(e) // the last endpoint serves until the test ends
		e.route(s.addresses...)
		t.Run(tt.name, func(t *testing.T) {
			e := e.forSubtest(t)
			if s.listens {
				e.eventually("the API server calls the endpoint", func() bool {
					e.probe(namespace)
					return s.connections.Load() > 0
				})
			}
			e.checkFailOpen(namespace, tt.hangs)
		})
	}
	t.Run("uninstall while the webhook hangs", func(t *testing.T) { e.forSubtest(t).checkUninstall(namespace) })
}

// checkUninstall follows docs/operations.md: it first deletes the webhook configurations, so that the API server
// stops calling the webhook, and then all the rest. Nothing that remains may block a write.
func (e *noWebhookEnv) checkUninstall(namespace string) {
	e.Helper()
	e.brake("on") // creates a policy, which is deleted too
	e.deleteConfigurations()
	e.eventually("the API server no longer calls the webhook", func() bool {
		before := e.calls()
		e.probe(namespace)
		after := e.calls()
		return before[cluster.MutatingWebhook].Total == after[cluster.MutatingWebhook].Total &&
			before[cluster.ValidatingWebhook].Total == after[cluster.ValidatingWebhook].Total
	})
	e.deleteManifests(shippedOverlay)
	before := e.calls()
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(),
		coreEvent(namespace, "afterwards", "web", "back-off"), metav1.CreateOptions{})
	e.must(err)
	if after := e.calls(); !maps.Equal(after, before) {
		e.Errorf("webhook calls after the uninstall: %v, want %v as before", after, before)
	}
}

const (
	shippedOverlay = "../../manifests/overlays/self-signed"
	// endpointPort is the port on which a pod of the shipped Deployment serves the webhook.
	endpointPort = 10250
)

// noWebhookEnv is a cluster with all shipped objects, but without a replica.
type noWebhookEnv struct {
	*env
	endpoints int
}

// forSubtest returns e for a subtest.
func (e *noWebhookEnv) forSubtest(t *testing.T) *noWebhookEnv {
	t.Helper()
	sub := *e
	sub.env = e.env.forSubtest(t)
	return &sub
}

// fakeEndpoint replaces the webhook at its endpoint.
type fakeEndpoint struct {
	addresses   []string
	listens     bool
	connections atomic.Int64 // accepted connections
}

// noEndpoint returns a fakeEndpoint without addresses.
func (e *noWebhookEnv) noEndpoint() *fakeEndpoint { return &fakeEndpoint{} }

// refusingEndpoint returns an endpoint whose process has ended.
func (e *noWebhookEnv) refusingEndpoint() *fakeEndpoint {
	e.endpoints++
	return &fakeEndpoint{addresses: []string{fmt.Sprintf("10.77.1.%d", e.endpoints)}}
}

// listeningEndpoint returns an endpoint that listens until the test ends.
func (e *noWebhookEnv) listeningEndpoint() (*fakeEndpoint, net.Listener) {
	e.Helper()
	s := e.refusingEndpoint()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", s.addresses[0], endpointPort))
	e.must(err)
	e.Cleanup(func() { _ = l.Close() })
	s.listens = true
	return s, l
}

// silentEndpoint returns an endpoint that accepts connections and sends nothing.
func (e *noWebhookEnv) silentEndpoint() *fakeEndpoint {
	e.Helper()
	s, l := e.listeningEndpoint()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			s.connections.Add(1)
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c) // until the API server closes the connection
			}()
		}
	}()
	return s
}

// hangingEndpoint returns an endpoint that serves with the certificate in dir, reads each review, and does not
// answer.
func (e *noWebhookEnv) hangingEndpoint(dir string) *fakeEndpoint {
	e.Helper()
	s, l := e.listeningEndpoint()
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.connections.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}),
	}
	e.Cleanup(func() { _ = srv.Close() })
	go func() { _ = srv.ServeTLS(l, filepath.Join(dir, certs.CertFile), filepath.Join(dir, certs.KeyFile)) }()
	return s
}

// certificate makes a CA and a serving certificate for the Service, and returns their directory.
func (e *noWebhookEnv) certificate() (dir string) {
	e.Helper()
	dir = e.TempDir()
	_, err := cluster.ServingCertificate(dir, cluster.ServiceName+"."+cluster.ServiceNamespace+".svc")
	e.must(err)
	return dir
}

// trust writes the CA in dir into the webhook configurations, as the creator of a certificate does.
func (e *noWebhookEnv) trust(dir string) {
	e.Helper()
	ca, err := os.ReadFile(filepath.Join(dir, certs.CAFile))
	e.must(err)
	for kind, name := range configurations() {
		e.kubectl("", "patch", kind, name, "--patch", fmt.Sprintf(
			`{"webhooks":[{"name":%q,"clientConfig":{"caBundle":%q}}]}`, name, base64.StdEncoding.EncodeToString(ca)))
	}
}

// configurations returns the names of the shipped webhook configurations, by kind.
func configurations() map[string]string {
	return map[string]string{
		"mutatingwebhookconfiguration":   cluster.MutatingWebhook,
		"validatingwebhookconfiguration": cluster.ValidatingWebhook,
	}
}

// route makes the addresses the ready endpoints of the shipped Service.
func (e *noWebhookEnv) route(addresses ...string) {
	e.Helper()
	e.must(cluster.SetEndpoints(e.Context(), e.client, map[string]int32{"webhook": endpointPort}, addresses))
}
