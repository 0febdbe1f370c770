package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// options are the flags of serve. Flags set them to their defaults.
type options struct {
	Host        string
	Port        int
	CertDir     string
	SelfManaged bool
	// ClientCAFile and ClientNames say who may call the webhook.
	ClientCAFile   string
	ClientNames    []string
	Kubeconfig     string
	HealthAddress  string
	MetricsAddress string
	MetricsSecure  bool

	StoreMemory        resource.QuantityValue
	MaxInFlight        int
	Deadline           time.Duration
	LocalRate          int
	CallsPerConnection int
	SettleRate         int
	StatusInterval     time.Duration
	Workloads          bool
	ShutdownDelay      time.Duration
	DrainTimeout       time.Duration

	Redis         *redisclient.Options
	RedisPrefix   string
	StoreDeadline time.Duration
	TraceEndpoint string
	Sink          sinkOptions
	LogLevel      string

	version string
}

// addFlags adds the flags, and sets the options to their defaults.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Host, "bind-address", "", "IP address to serve the webhook on; empty for all")
	f.IntVar(&o.Port, "port", 10250, "port to serve the webhook on, 1 to 65535")
	f.StringVar(&o.CertDir, "cert-dir", "/etc/eventquota/certs", "directory with the serving certificate tls.crt and its key tls.key; reloaded when they change")
	f.BoolVar(&o.SelfManaged, "self-managed-certificates", false, "issue and renew the serving certificate, shared by all replicas in the Secret "+certificateSecret+", and write its CA and a path that nobody can guess into the webhook configurations; instead of --cert-dir")
	f.StringVar(&o.ClientCAFile, "client-ca-file", "", "PEM file of the CAs of client certificates, one of which the API server must have to call the webhook; read again when it changes; empty for none")
	f.StringSliceVar(&o.ClientNames, "client-names", nil, "common names and DNS names of which such a certificate must have one; empty for any")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; empty for the service account of the pod")
	f.StringVar(&o.HealthAddress, "health-address", ":8081", "address to serve /healthz and /readyz on")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8443", "address to serve /metrics, /busiest and /explain on, and with --metrics-secure profiles of Go under /debug/pprof/")
	f.BoolVar(&o.MetricsSecure, "metrics-secure", true, "serve these by TLS, with the serving certificate of the webhook, to anyone with a token that the API server allows to get their path; false for plain HTTP to all")
	o.StoreMemory.Quantity = *resource.NewQuantity(memory.DefaultBytes, resource.BinarySI)
	f.Var(&o.StoreMemory, "store-memory", "memory that the store of this replica may use, in bytes, at least 1Mi; all is kept there, or with Redis what this replica could not report to it")
	f.IntVar(&o.MaxInFlight, "max-in-flight", 256, "reviews that are decided at the same time, at least 1; one namespace may take half of them. Others are admitted undecided, within --local-rate")
	f.DurationVar(&o.Deadline, "deadline", admission.DefaultDeadline, "how long a review may take until its Event is admitted within --local-rate, from 10ms to 10s and never longer than the API server waits")
	f.IntVar(&o.LocalRate, "local-rate", 100, "Events a second that this replica admits without a decision, when there is none in time; more are refused. At least 1, and of one namespace no more than are left to others")
	f.IntVar(&o.CallsPerConnection, "calls-per-connection", 1000, "calls after which a connection is ended, on average, so that the API server makes a new one, perhaps to another replica; 0 for never")
	f.IntVar(&o.SettleRate, "settle-rate", 100, "requests a second, and in a burst, that write the counts and notices of one store to the API server, reads and retries included; at least 1")
	f.DurationVar(&o.StatusInterval, "status-interval", status.DefaultCountsInterval, "least time between two writes of the counts in the status of one policy or quota, at least 1s")
	f.BoolVar(&o.Workloads, "workloads", false, "name the workloads of pods, such as Deployments, in notices and statuses. It watches the metadata of all pods, ReplicaSets and Jobs, which needs the right to list and watch them, and memory: 30 MiB for 150,000 pods")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second, "how long calls are still served after a signal to stop, while the API server learns of it; 0 or more. Those under way then may take --deadline and 2s more")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", 15*time.Second, "how long pending counts may take to be written before exit, at least 1s")
	o.Redis = redisclient.DefaultOptions()
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", redis.DefaultPrefix, "beginning of the names of all keys in Redis; another one for each cluster that uses the same Redis")
	f.DurationVar(&o.StoreDeadline, "store-deadline", fallback.Defaults().Deadline, "how long Redis may take to decide before the replica decides without it, from 1ms to 1s")
	f.StringVar(&o.TraceEndpoint, "trace-endpoint", "", "collector to send traces to by OTLP over gRPC, as https://host:port, or http://host:port without TLS; empty for no traces. The environment variables of OpenTelemetry, such as OTEL_TRACES_SAMPLER and OTEL_EXPORTER_OTLP_CERTIFICATE, set the rest")
	o.Sink.addFlags(f)
	f.StringVar(&o.LogLevel, "log-level", "info", "least severe log lines that are written: debug, info, warn or error")
}

// validate reports every flag that is out of its range.
func (o *options) validate() error {
	var level slog.Level
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Host == "" || net.ParseIP(o.Host) != nil, "--bind-address %q: must be an IP address, or empty for all", o.Host)
	check(o.Port >= 1 && o.Port <= 65535, "--port %d: must be from 1 to 65535", o.Port)
	check(o.CertDir != "", "--cert-dir: must be set")
	check(len(o.ClientNames) == 0 || o.ClientCAFile != "", "--client-names: must not be set without --client-ca-file")
	check(!slices.Contains(o.ClientNames, ""), "--client-names: must have no empty name")
	check(o.HealthAddress != "", "--health-address: must be set")
	check(o.MetricsAddress != "", "--metrics-address: must be set")
	check(o.StoreMemory.Value() >= memory.MinBytes, "--store-memory %s: must be at least 1Mi", &o.StoreMemory)
	check(o.MaxInFlight >= 1, "--max-in-flight %d: must be at least 1", o.MaxInFlight)
	check(o.Deadline >= 10*time.Millisecond && o.Deadline <= admission.MaxTimeout, "--deadline %s: must be from 10ms to %s", o.Deadline, admission.MaxTimeout)
	check(o.LocalRate >= 1, "--local-rate %d: must be at least 1", o.LocalRate)
	check(o.CallsPerConnection >= 0, "--calls-per-connection %d: must be 0 or more", o.CallsPerConnection)
	check(o.SettleRate >= 1, "--settle-rate %d: must be at least 1", o.SettleRate)
	check(o.StatusInterval >= time.Second, "--status-interval %s: must be at least 1s", o.StatusInterval)
	check(o.ShutdownDelay >= 0, "--shutdown-delay %s: must be 0 or more", o.ShutdownDelay)
	check(o.DrainTimeout >= time.Second, "--drain-timeout %s: must be at least 1s", o.DrainTimeout)
	check(level.UnmarshalText([]byte(o.LogLevel)) == nil, "--log-level %q: must be debug, info, warn or error", o.LogLevel)
	check(o.StoreDeadline >= time.Millisecond && o.StoreDeadline <= time.Second, "--store-deadline %s: must be from 1ms to 1s", o.StoreDeadline)
	check(o.StoreDeadline < o.Deadline || o.StoreDeadline > time.Second, "--store-deadline %s: must be shorter than --deadline, which is %s", o.StoreDeadline, o.Deadline)
	check(!strings.ContainsAny(o.RedisPrefix, "{}"), "--redis-prefix %q: must have no braces", o.RedisPrefix)
	collector, err := url.Parse(o.TraceEndpoint)
	check(o.TraceEndpoint == "" || err == nil && (collector.Scheme == "https" || collector.Scheme == "http") && collector.Host != "" && collector.Path == "",
		"--trace-endpoint %q: must be https://host:port, or http://host:port without TLS", o.TraceEndpoint)
	o.Sink.validate(check)
	if !reflect.DeepEqual(o.Redis, redisclient.DefaultOptions()) {
		errs = append(errs, o.Redis.Validate())
	}
	return errors.Join(errs...)
}

// usesRedis reports whether there is a Redis to share the state in.
func (o *options) usesRedis() bool { return len(o.Redis.Addresses) > 0 }

// logger makes the logger that the flags ask for. They have been validated.
func (o *options) logger(w io.Writer) logr.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.LogLevel))
	return logr.FromSlogHandler(slog.NewJSONHandler(text.JSON(w), &slog.HandlerOptions{Level: level}))
}
