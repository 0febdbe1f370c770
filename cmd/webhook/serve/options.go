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

// options are the flags of serve. addFlags sets the defaults.
type options struct {
	Host        string
	Port        int
	CertDir     string
	SelfManaged bool
	// ClientCAFile and ClientNames select the clients that may call the webhook.
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

// addFlags adds the flags to f, and sets the options to their defaults.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Host, "bind-address", "", "IP address to serve the webhook on; empty for all")
	f.IntVar(&o.Port, "port", 10250, "port to serve the webhook on, 1 to 65535")
	f.StringVar(&o.CertDir, "cert-dir", "/etc/eventquota/certs", "directory with the serving certificate tls.crt and its key tls.key; reloaded when they change")
	f.BoolVar(&o.SelfManaged, "self-managed-certificates", false, "issue and renew the serving certificate, instead of --cert-dir. Replicas share it in the Secret "+certificateSecret+". Its CA and a secret path are written to the webhook configurations")
	f.StringVar(&o.ClientCAFile, "client-ca-file", "", "PEM file of the CAs of client certificates. The API server must present such a certificate to call the webhook. Reloaded when it changes; empty to require none")
	f.StringSliceVar(&o.ClientNames, "client-names", nil, "common names and DNS names, one of which the client certificate must have; empty for any")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; empty for the service account of the pod")
	f.StringVar(&o.HealthAddress, "health-address", ":8081", "address to serve /healthz and /readyz on")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8443", "address to serve /metrics, /live, /busiest and /explain on, and with --metrics-secure also Go profiles under /debug/pprof/")
	f.BoolVar(&o.MetricsSecure, "metrics-secure", true, "serve --metrics-address by TLS with the webhook's certificate, and require a bearer token whose user may get the path; false for plain HTTP without authentication")
	o.StoreMemory.Quantity = *resource.NewQuantity(memory.DefaultBytes, resource.BinarySI)
	f.Var(&o.StoreMemory, "store-memory", "memory that the store of this replica may use, in bytes, at least 1Mi. With Redis, it holds only decisions that this replica could not report to Redis")
	f.IntVar(&o.MaxInFlight, "max-in-flight", 256, "reviews decided at the same time, at least 1, of which one namespace gets about half at most. Further Events are admitted without a decision, within --local-rate")
	f.DurationVar(&o.Deadline, "deadline", admission.DefaultDeadline, "how long a review may take, from 10ms to 10s and never longer than the API server waits. After that, its Event is admitted without a decision, within --local-rate")
	f.IntVar(&o.LocalRate, "local-rate", 100, "Events per second that this replica admits without a decision when there is none in time, at least 1; more are refused. One namespace gets about half at most")
	f.IntVar(&o.CallsPerConnection, "calls-per-connection", 1000, "calls after which a connection is closed, on average, so that the API server opens a new one, possibly to another replica; 0 for never")
	f.IntVar(&o.SettleRate, "settle-rate", 100, "requests per second, and burst, to write the counts and notices of one store to the API server, including reads and retries; at least 1")
	f.DurationVar(&o.StatusInterval, "status-interval", status.DefaultCountsInterval, "minimum time between two writes of the counts in the status of one policy or quota, at least 1s")
	f.BoolVar(&o.Workloads, "workloads", false, "name the workloads of pods, such as Deployments, in notices and statuses. This watches the metadata of all pods, ReplicaSets and Jobs. It needs the right to list and watch them, and memory: 30 MiB for 150,000 pods")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second, "how long calls are still served after a signal to stop, until the API server has noticed that the replica is not ready; 0 or more. Calls that are still running then may take --deadline and 2s more")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", 15*time.Second, "maximum time to write pending counts before the process exits, at least 1s")
	o.Redis = redisclient.DefaultOptions()
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", redis.DefaultPrefix, "prefix of all keys in Redis; must differ between clusters that share a Redis")
	f.DurationVar(&o.StoreDeadline, "store-deadline", fallback.Defaults().Deadline, "how long a decision may wait for Redis before the replica decides without it, from 1ms to 1s")
	f.StringVar(&o.TraceEndpoint, "trace-endpoint", "", "collector that receives traces by OTLP over gRPC, as https://host:port, or http://host:port without TLS; empty for no traces. The environment variables of OpenTelemetry, such as OTEL_TRACES_SAMPLER and OTEL_EXPORTER_OTLP_CERTIFICATE, set the rest")
	o.Sink.addFlags(f)
	f.StringVar(&o.LogLevel, "log-level", "info", "minimum severity of logged messages: debug, info, warn or error")
}

// validate returns an error for each flag that is out of its range.
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
	check(!slices.Contains(o.ClientNames, ""), "--client-names: must not contain an empty name")
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
	check(!strings.ContainsAny(o.RedisPrefix, "{}"), "--redis-prefix %q: must not contain { or }", o.RedisPrefix)
	collector, err := url.Parse(o.TraceEndpoint)
	check(o.TraceEndpoint == "" || err == nil && (collector.Scheme == "https" || collector.Scheme == "http") && collector.Host != "" && collector.Path == "",
		"--trace-endpoint %q: must be https://host:port, or http://host:port without TLS", o.TraceEndpoint)
	o.Sink.validate(check)
	if !reflect.DeepEqual(o.Redis, redisclient.DefaultOptions()) {
		errs = append(errs, o.Redis.Validate())
	}
	return errors.Join(errs...)
}

// usesRedis reports whether replicas share their state in Redis.
func (o *options) usesRedis() bool { return len(o.Redis.Addresses) > 0 }

// logger returns a JSON logger that writes to w. The flags must be valid.
func (o *options) logger(w io.Writer) logr.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.LogLevel))
	return logr.FromSlogHandler(slog.NewJSONHandler(text.JSON(w), &slog.HandlerOptions{Level: level}))
}
