package serve

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/access"
	"github.com/eventquota/eventquota/admission/callers"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/admission/release"
	"github.com/eventquota/eventquota/admission/rights"
	webhookserver "github.com/eventquota/eventquota/admission/server"
	"github.com/eventquota/eventquota/admission/sink"
	"github.com/eventquota/eventquota/admission/workload"
	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

const (
	// serviceName is the Service that the API server calls, and certificateSecret the Secret with its self-managed certificate. Both
	// are in the namespace of the pod.
	serviceName       = "eventquota"
	certificateSecret = "eventquota-serving-cert" //nolint:gosec // the name of a Secret, not its content
	// reportLogRate and reportLogBurst bound the log lines per second about namespaced policies and quotas.
	reportLogRate, reportLogBurst = 10, 1000
	// reviewGrace is how long a stop waits for running reviews, in addition to their deadline.
	reviewGrace = 2 * time.Second
	// namespaceFile contains the namespace of the pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// server has all parts that serve runs.
type server struct {
	opts     *options
	log      logr.Logger
	clients  *clients
	metrics  *metrics.Metrics
	traces   *traces    // nil for none
	sink     *sink.Sink // nil for none
	policies *watch.Cache
	brakes   map[string]feed.Source
	state    *state
	// workloads finds the workloads of pods; nil without --workloads.
	workloads *workload.Cache
	// rights knows who may patch Events.
	rights  *rights.Cache
	certs   *certs.Serving
	managed *certs.Managed // the owner of certs; nil if they are mounted
	// guard protects the paths about all namespaces, and namespaces the path about a single one; both are nil without --metrics-secure.
	guard      *access.Guard
	namespaces *access.NamespaceGuard
	clientCA   *callers.CertificateVerifier // nil if callers need no certificate
	webhook    *webhookserver.Server

	reportLimiter *rate.Limiter // for logged reports of namespaced rules
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
	if s.brakes, err = release.NewSources(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if o.Workloads {
		watched, err := workload.NewSources(config)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		s.workloads = workload.New(watched, time.Now)
	}
	s.rights = rights.New(s.clients.typed.AuthorizationV1().SubjectAccessReviews(), time.Now)
	if s.state, err = s.newState(); err != nil {
		return nil, err
	}
	if s.sink, err = s.newSink(); err != nil {
		return nil, err
	}
	if o.ClientCAFile != "" {
		if s.clientCA, err = callers.NewCertificateVerifier(o.ClientCAFile, o.ClientNames, s.countRefused("certificate")); err != nil {
			return nil, fmt.Errorf("--client-ca-file: must contain PEM certificates: %w", err)
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

// clients are clients of the API server.
type clients struct {
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

// newClients returns clients without a rate limit. The settler has its own.
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

// podNamespace returns the namespace of the pod from file, or outside of a pod the default namespace of an installation. As for client-go, a
// process without KUBERNETES_SERVICE_HOST is outside: tests that run in a pod of another program have a file too.
func podNamespace(file string) string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		content, err := os.ReadFile(file)
		if name := strings.TrimSpace(string(content)); err == nil && name != "" {
			return name
		}
	}
	return "eventquota-system"
}

// logReport logs the state of a generation of a policy or quota. Logs about namespaced ones are rate-limited, because tenants may
// change them all the time. The statuses have the same information.
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

// newWebhook returns the server of reviews. With self-managed certificates, its paths contain a segment that only the API server knows.
func (s *server) newWebhook() *webhookserver.Server {
	o := webhookserver.Options{
		Address:            net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port)),
		GetCertificate:     s.certs.GetCertificate,
		OnRefused:          s.metrics.ConnectionsRefused.Inc,
		CallsPerConnection: s.opts.CallsPerConnection,
		Grace:              s.opts.Deadline + reviewGrace,
	}
	if s.clientCA != nil {
		o.RequireClient = s.clientCA.Require
	}
	var onFailure func()
	if s.managed != nil {
		s.metrics.RegisterRepairs(s.managed.Repairs)
		onFailure = s.managed.ReportFailedCall
		o.Authenticate = func(next http.Handler) http.Handler {
			return callers.RequirePath(s.managed.Accepts, s.countRefused("path"), next)
		}
	} else if s.clientCA == nil {
		s.log.Info("Anyone who reaches the port can send reviews. Set --client-ca-file if the API server has a client certificate for webhooks, or --self-managed-certificates", "port", s.opts.Port)
	}
	webhook := webhookserver.New(o)
	for name, h := range s.reviewHandlers(onFailure) {
		webhook.Register("/"+name, h)
		// A webhook configuration may still have the segment of earlier self-managed certificates.
		webhook.Register("/"+name+"/", h)
	}
	return webhook
}

// countRefused returns a function that counts and logs refused callers. by is the check that refuses them: certificate or path.
func (s *server) countRefused(by string) func(error) {
	count, sometimes := s.metrics.CallersRefused.WithLabelValues(by), &rate.Sometimes{Interval: 10 * time.Second}
	return func(err error) {
		count.Inc()
		sometimes.Do(func() { s.log.Info("Refused a caller that is not the API server", "by", by, "reason", err.Error()) })
	}
}

// reviewHandlers returns the handlers of the reviews of both phases, by name. They call onFailure, unless that is nil, after each call
// that the API server counts as failed.
func (s *server) reviewHandlers(onFailure func()) map[string]http.Handler {
	gate := &admission.Gate{
		Policies:         s.policies.Current(),
		Store:            s.state.store,
		StoreID:          s.state.id,
		AuditStore:       s.state.audit,
		Observer:         s.metrics,
		Sink:             s.admissionSink(),
		Rights:           s.rights,
		MaxWriteInterval: s.state.maxWriteInterval,
		Now:              time.Now,
		UndecidedLimiter: admission.NewLimiter(s.opts.LocalRate, time.Second),
		Log:              s.log,
		LogLimiter:       admission.NewLimiter(10, 10*time.Second),
	}
	if s.workloads != nil { // a nil pointer would make a non-nil interface
		gate.Workloads = s.workloads
	}
	inFlight := admission.NewSemaphore(s.opts.MaxInFlight)
	handlers := map[string]http.Handler{}
	for name, phase := range map[string]admission.Phase{"mutate": gate.Mutate, "validate": gate.Validate} {
		handlers[name] = s.withTracing(name, &admission.Handler{
			Name:      name,
			Gate:      gate,
			Phase:     phase,
			InFlight:  inFlight,
			Deadline:  s.opts.Deadline,
			OnFailure: onFailure,
		})
	}
	return handlers
}
