package manager

import (
	"context"
	"crypto/tls"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/server"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/ports"
)

// rig is a control plane, and a serving certificate for all mounts.
type rig struct {
	*cluster.Cluster

	client  kubernetes.Interface
	certDir string
	ca      []byte
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Cluster: cluster.ForTest(t, cluster.Options{}), certDir: t.TempDir()}
	var err error
	if r.ca, err = cluster.ServingCertificate(r.certDir, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if r.client, err = kubernetes.NewForConfig(r.Config); err != nil {
		t.Fatal(err)
	}
	return r
}

// mount is a namespace whose Event writes are decided by handlers of its own.
type mount struct {
	*testing.T
	*rig

	namespace string
	port      int
	json      kubernetes.Interface // sends JSON
	protobuf  kubernetes.Interface // sends protobuf
	audit     cluster.AuditLog
	handlers  map[string]*admission.Handler // by path
}

// newMount creates a namespace, and handlers with the default policy, a memory store and a clock that stands still.
func (r *rig) newMount(t *testing.T, namespace string) *mount {
	t.Helper()
	m := &mount{T: t, rig: r, namespace: namespace, audit: cluster.AuditLog{Path: r.AuditLog}}
	_, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	m.must(err)
	m.port, err = ports.Acquire()
	m.must(err)
	config, _, err := r.User("writer", "system:masters")
	m.must(err)
	m.json, err = kubernetes.NewForConfig(config)
	m.must(err)
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	m.protobuf, err = kubernetes.NewForConfig(config)
	m.must(err)
	gate := &admission.Gate{
		Policies: policy.NewCurrent(policy.NewSet(policy.Default(), policy.Rules{}, nil)),
		Store:    memory.New(memory.Options{Bytes: memory.DefaultBytes, NoSettler: true}),
		Now:      at,
	}
	inFlight := admission.NewSemaphore(256)
	m.handlers = map[string]*admission.Handler{
		"/mutate":   {Name: "mutate", Gate: gate, Phase: gate.Mutate, InFlight: inFlight, Deadline: 10 * time.Second}, // for a busy machine
		"/validate": {Name: "validate", Gate: gate, Phase: gate.Validate, InFlight: inFlight, Deadline: 10 * time.Second},
	}
	return m
}

// must fails the test if there is an error.
func (m *mount) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// asHandler and asAdmission make what a server serves of a Handler.
func asHandler(h *admission.Handler) http.Handler   { return h }
func asAdmission(h *admission.Handler) http.Handler { return &webhook.Admission{Handler: h} }

// ownServer returns eventquota's server.
func (m *mount) ownServer() webhook.Server {
	m.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(m.certDir, "tls.crt"), filepath.Join(m.certDir, "tls.key"))
	m.must(err)
	return server.New(server.Options{
		Address:        ports.Address(m.port),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
	})
}

// crServer returns the server of controller-runtime.
func (m *mount) crServer() webhook.Server {
	return webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: m.port, CertDir: m.certDir})
}

// startAlone serves the handlers without a manager.
func (m *mount) startAlone() {
	m.Helper()
	s := m.ownServer()
	m.register(s, asHandler)
	m.run(s, s.Start)
}

// startManager serves what as makes of the handlers on the webhook server of a manager.
func (m *mount) startManager(s webhook.Server, as func(*admission.Handler) http.Handler) {
	m.Helper()
	manager, err := ctrl.NewManager(m.Config, ctrl.Options{
		Logger:        logr.Discard(),
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: s,
	})
	m.must(err)
	m.register(manager.GetWebhookServer(), as)
	m.run(s, manager.Start)
}

func (m *mount) register(s webhook.Server, as func(*admission.Handler) http.Handler) {
	for path, h := range m.handlers {
		s.Register(path, as(h))
	}
}

// run runs start until the test ends. It returns once the API server calls the webhooks for Events of the namespace, by the shipped
// configuration.
func (m *mount) run(s webhook.Server, start func(context.Context) error) {
	m.Helper()
	ctx, stop := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	m.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			m.Errorf("the server or manager failed: %v", err)
		}
	})
	cli.Eventually(m.T, "the server has started", func() bool { return s.StartedChecker()(nil) == nil })
	m.must(m.InstallWebhooks(m.Context(), cluster.Webhooks{
		URL: "https://" + ports.Address(m.port), CABundle: m.ca, Mutating: true, Validating: true, Namespace: m.namespace, TimeoutSeconds: 20,
	}))
	m.must(m.audit.ReadNew(func([]byte) error { return nil }))
}
