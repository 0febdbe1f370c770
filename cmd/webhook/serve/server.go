package serve

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/access"
	"github.com/eventquota/eventquota/admission/callers"
	"github.com/eventquota/eventquota/admission/connections"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/admission/sink"
	"github.com/eventquota/eventquota/admission/workload"
	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

const (
	// serviceName is the Service by which the API server calls the webhook, and certificateSecret the Secret of the
	// self-managed certificate for it. Both are in the namespace of the pod.
	serviceName       = "eventquota"
	certificateSecret = "eventquota-serving-cert" //nolint:gosec // the name of a Secret, not what is in it
	// reportLogRate and reportLogBurst bound the log lines about policies and quotas of namespaces, a second and in a burst.
	reportLogRate, reportLogBurst = 10, 1000
	// namespaceFile is where a pod finds its namespace.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// server is all that serve runs.
type server struct {
	opts     *options
	log      logr.Logger
	clients  *clients
	metrics  *metrics.Metrics
	traces   *traces    // nil for none
	sink     *sink.Sink // nil for none
	policies *watch.Cache
	state    *state
	// workloads are those of pods; nil unless --workloads.
	workloads *workload.Cache
	certs     *certs.Serving
	managed   *certs.Managed // those certs; nil if they are mounted
	// guard is of metrics, and namespaces of what is known of one; both are nil for none.
	guard      *access.Guard
	namespaces *access.NamespaceGuard
	clientCA   *callers.CertificateVerifier // nil if callers need no certificate
	webhook    http.Handler

	reportLimiter *rate.Limiter // of the rules of namespaces
	listening     atomic.Bool   // the webhook is
	draining      atomic.Bool
}

func newServer(o *options, log logr.Logger) (*server, error) {
	s := &server{opts: o, log: log, metrics: metrics.New(o.version), reportLimiter: rate.NewLimiter(reportLogRate, reportLogBurst)}
	config, err := apiserver.Config(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if s.clients, err = newClients(config); err != nil {
		return nil, err
	}
	if s.traces, err = newTraces(o.TraceEndpoint, o.version); err != nil {
		return nil, err
	}
	sources, err := watch.NewSources(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if s.policies, err = watch.New(sources, policy.Default(), s.logReport); err != nil {
		return nil, err
	}
	if o.Workloads {
		watched, err := workload.NewSources(config)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		s.workloads = workload.New(watched, time.Now)
	}
	if s.state, err = s.newState(); err != nil {
		return nil, err
	}
	if s.sink, err = s.newSink(); err != nil {
		return nil, err
	}
	if o.ClientCAFile != "" {
		if s.clientCA, err = callers.NewCertificateVerifier(o.ClientCAFile, o.ClientNames, s.countRefused("certificate")); err != nil {
			return nil, fmt.Errorf("--client-ca-file: must have PEM certificates: %w", err)
		}
	}
	service := certs.Service{Namespace: podNamespace(namespaceFile), Name: serviceName}
	if o.SelfManaged {
		s.managed = certs.NewManaged(s.clients.typed.CoreV1(), s.clients.dynamic, service, certificateSecret)
		s.certs = &s.managed.Serving
	} else if s.certs, err = certs.NewMounted(o.CertDir, s.clients.dynamic, service); err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	if o.MetricsSecure {
		s.guard, s.namespaces = access.New(s.clients.typed), access.NewNamespaceGuard(s.clients.typed)
	}
	s.metrics.RegisterPolicies(s.policies.Reports)
	s.metrics.Busiest = s.state.busiest.Counter
	s.metrics.RegisterCertificate(s.certs.GetCertificate)
	s.webhook = s.newWebhook()
	return s, nil
}

// clients are those of the API server.
type clients struct {
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

// newClients sets no rate: what asks often has one of its own.
func newClients(config *rest.Config) (c *clients, err error) {
	c = &clients{config: config}
	if c.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return c, nil
}

// podNamespace is the namespace of the pod, by the file that a pod has it in, or that of an installation by default.
func podNamespace(file string) string {
	content, err := os.ReadFile(file)
	if name := strings.TrimSpace(string(content)); err == nil && name != "" {
		return name
	}
	return "eventquota-system"
}

// logReport logs the state of a generation of a policy or quota; of those of namespaces no more than so many, as tenants may
// change them all the time. The statuses say the same.
func (s *server) logReport(r watch.Report) {
	if r.Namespace != "" && !s.reportLimiter.Allow() {
		return
	}
	log := s.log.WithValues("rule", r.String(), "generation", r.Generation)
	if r.Err != nil {
		log.Error(r.Err, "Not accepted", "governing", r.ActiveGeneration)
		return
	}
	if r.Excluded != nil {
		log.Error(r.Excluded, "Not in force")
		return
	}
	log.Info("Accepted", "mode", r.Mode)
}

// newWebhook makes what answers reviews, at a path that only the API server knows where certificates are self-managed.
func (s *server) newWebhook() http.Handler {
	if s.managed != nil {
		s.metrics.RegisterRepairs(s.managed.Repairs)
		return callers.RequirePath(s.managed.Accepts, s.countRefused("path"), connections.MarkServed(s.reviewMux(s.managed.ReportFailedCall)))
	}
	if s.clientCA == nil {
		s.log.Info("Anyone who reaches the port can send reviews. Set --client-ca-file where the API server has a client certificate for webhooks, or --self-managed-certificates", "port", s.opts.Port)
	}
	return connections.MarkServed(s.reviewMux(nil)) // with --client-ca-file, nobody else comes so far
}

// countRefused counts and logs callers that are refused as they lack something.
func (s *server) countRefused(by string) func(error) {
	count, sometimes := s.metrics.CallersRefused.WithLabelValues(by), &rate.Sometimes{Interval: 10 * time.Second}
	return func(why error) {
		count.Inc()
		sometimes.Do(func() { s.log.Info("Refused a caller that is not the API server", "by", by, "reason", why.Error()) })
	}
}

// reviewMux answers the reviews of both phases. failed, unless nil, is called after one that the API server counts as failed.
func (s *server) reviewMux(failed func()) http.Handler {
	gate := &admission.Gate{
		Policies:         s.policies.Current(),
		Store:            s.state.store,
		StoreID:          s.state.id,
		AuditStore:       s.state.audit,
		Observer:         s.metrics,
		Sink:             s.admissionSink(),
		MaxWriteInterval: s.state.maxWriteInterval,
		Now:              time.Now,
		UndecidedLimiter: admission.NewLimiter(s.opts.LocalRate, time.Second),
		Log:              s.log,
		LogLimiter:       admission.NewLimiter(10, 10*time.Second),
	}
	if s.workloads != nil { // or else nothing is asked
		gate.Workloads = s.workloads
	}
	inFlight := admission.NewSemaphore(s.opts.MaxInFlight)
	mux := http.NewServeMux()
	for name, phase := range map[string]admission.Phase{"mutate": gate.Mutate, "validate": gate.Validate} {
		h := connections.Recycle(s.withTracing(name, &admission.Handler{
			Name:      name,
			Gate:      gate,
			Phase:     phase,
			InFlight:  inFlight,
			Deadline:  s.opts.Deadline,
			OnFailure: failed,
		}), s.opts.CallsPerConnection, &s.draining)
		mux.Handle("/"+name, h)
		// A configuration may still have the segment that self-managed certificates once added.
		mux.Handle("/"+name+"/", h)
	}
	return mux
}
