package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/admission/tracing"
	"github.com/eventquota/eventquota/cmd/webhook/serve/elect"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// options are the flags of serve.
type options struct {
	Host    string
	Port    int
	CertDir string
	// SelfManaged is a certificate that the webhook keeps itself, in CertificateSecret.
	SelfManaged       bool
	CertificateSecret string
	Service           string
	// ClientCAFile and ClientNames say who may call the webhook.
	ClientCAFile   string
	ClientNames    []string
	Kubeconfig     string
	HealthAddress  string
	MetricsAddress string
	MetricsSecure  bool
	PprofAddress   string

	StoreMemory     resource.QuantityValue
	MaxRequestBytes resource.QuantityValue
	MaxInFlight     int
	Deadline        time.Duration
	MaxTimeout      time.Duration
	LocalRate       int

	CallsPerConnection int

	SettleRate    int
	ShutdownDelay time.Duration
	// StatusInterval is at least 1s.
	StatusInterval time.Duration
	DrainTimeout   time.Duration

	Redis         *redisclient.Options
	RedisPrefix   string
	StoreDeadline time.Duration
	Election      elect.Options
	Traces        tracing.Options

	LogLevel  string
	LogFormat string

	version string
}

func defaultOptions() *options {
	return &options{ //nolint:gosec // the name of a Secret, not what is in it
		version:            "devel",
		Port:               10250,
		CertDir:            "/etc/eventquota/certs",
		CertificateSecret:  "eventquota-serving-cert",
		Service:            "eventquota",
		HealthAddress:      ":8081",
		MetricsAddress:     ":8443",
		MetricsSecure:      true,
		PprofAddress:       "0",
		StoreMemory:        resource.QuantityValue{Quantity: *resource.NewQuantity(memory.DefaultBytes, resource.BinarySI)},
		MaxRequestBytes:    resource.QuantityValue{Quantity: *resource.NewQuantity(8<<20, resource.BinarySI)},
		MaxInFlight:        256,
		Deadline:           admission.DefaultDeadline,
		MaxTimeout:         admission.DefaultMaxTimeout,
		LocalRate:          100,
		CallsPerConnection: 1000,
		SettleRate:         100,
		StatusInterval:     status.CountsEvery,
		ShutdownDelay:      5 * time.Second,
		DrainTimeout:       15 * time.Second,
		Redis:              redisclient.DefaultOptions(),
		RedisPrefix:        redis.DefaultPrefix,
		StoreDeadline:      fallback.Defaults().Deadline,
		Election:           elect.DefaultOptions(),
		Traces:             tracing.DefaultOptions(),
		LogLevel:           "info",
		LogFormat:          "json",
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Host, "bind-address", o.Host, "IP address to serve the webhook on; empty for all")
	f.IntVar(&o.Port, "port", o.Port, "port to serve the webhook on, 1 to 65535")
	f.StringVar(&o.CertDir, "cert-dir", o.CertDir, "directory with the serving certificate tls.crt and its key tls.key; reloaded when they change")
	f.BoolVar(&o.SelfManaged, "self-managed-certificates", o.SelfManaged, "issue and renew the serving certificate, shared by all replicas in a Secret, and write its CA and a path that nobody can guess into the webhook configurations; instead of --cert-dir")
	f.StringVar(&o.CertificateSecret, "certificate-secret", o.CertificateSecret, "Secret of the self-managed certificate, in the namespace of the pod, or else "+elect.DefaultNamespace)
	f.StringVar(&o.Service, "service", o.Service, "Service in that namespace by which the API server calls the webhook; self-managed certificates are for it, and readiness fails while a caBundle for it does not verify the serving certificate")
	f.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile, "PEM file of the CAs of client certificates, one of which the API server must have to call the webhook; read again when it changes; empty for none")
	f.StringSliceVar(&o.ClientNames, "client-names", o.ClientNames, "common names and DNS names of which such a certificate must have one; empty for any")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of the API server to settle at; empty for the service account of the pod")
	f.StringVar(&o.HealthAddress, "health-address", o.HealthAddress, "address to serve /healthz and /readyz on")
	f.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "address to serve /metrics on; 0 for none")
	f.BoolVar(&o.MetricsSecure, "metrics-secure", o.MetricsSecure, "serve metrics by TLS, with the serving certificate of the webhook, to anyone with a token that the API server allows to get their path; false for plain HTTP to all")
	f.StringVar(&o.PprofAddress, "pprof-address", o.PprofAddress, "loopback IP address and port to serve profiles of Go on, under /debug/pprof/; 0 for none")
	f.Var(&o.StoreMemory, "store-memory", "memory that the store of this replica may use, in bytes, at least 1Mi; all is kept there, or with Redis what this replica could not report to it")
	f.Var(&o.MaxRequestBytes, "max-request-bytes", "longest review that is read, in bytes, at least 64Ki; longer ones are decided without the Event's content")
	f.IntVar(&o.MaxInFlight, "max-in-flight", o.MaxInFlight, "reviews that are decided at the same time, at least 1, and of one namespace no more than are free; more are admitted at once, within --local-rate. As many times 64Ki are read in a minute of what is longer; beyond, reviews are decided without the Event's content")
	f.DurationVar(&o.Deadline, "deadline", o.Deadline, "how long a review may take until its Event is admitted within --local-rate, from 10ms to --max-timeout and never longer than the API server waits")
	f.DurationVar(&o.MaxTimeout, "max-timeout", o.MaxTimeout, "how long a call may take until it is ended, whatever time its caller gives it, from 1s to 30s")
	f.IntVar(&o.LocalRate, "local-rate", o.LocalRate, "Events a second that this replica admits without a decision, when there is none in time; at least 1, and of one namespace no more than are left to others")
	f.IntVar(&o.CallsPerConnection, "calls-per-connection", o.CallsPerConnection, "calls after which a connection is ended, on average, so that the API server makes a new one, perhaps to another replica; 0 for never")
	f.IntVar(&o.SettleRate, "settle-rate", o.SettleRate, "requests a second, and in a burst, that write merged counts and notices to the API server, reads and retries included; at least 1")
	f.DurationVar(&o.StatusInterval, "status-interval", o.StatusInterval, "least time between two writes of the counts in the status of one policy or quota, at least 1s")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", o.ShutdownDelay, "how long calls are still served after a signal to stop, while the API server learns of it; 0 or more. Those under way then may take --deadline and 2s more")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long pending counts may take to be written before exit, at least 1s")
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", o.RedisPrefix, "beginning of the names of all keys in Redis; another one for each cluster that uses the same Redis")
	f.DurationVar(&o.StoreDeadline, "store-deadline", o.StoreDeadline, "how long Redis may take to decide before the replica decides without it, from 1ms to 1s")
	o.Election.AddFlags(f)
	o.Traces.AddFlags(f)
	f.StringVar(&o.LogLevel, "log-level", o.LogLevel, "least severe log lines that are written: debug, info, warn or error")
	f.StringVar(&o.LogFormat, "log-format", o.LogFormat, "form of log lines: json or text")
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
	wrong := validation.IsDNS1123Subdomain(o.CertificateSecret)
	check(len(wrong) == 0, "--certificate-secret %q: %s", o.CertificateSecret, strings.Join(wrong, ", "))
	wrong = validation.IsDNS1035Label(o.Service)
	check(len(wrong) == 0, "--service %q: %s", o.Service, strings.Join(wrong, ", "))
	check(len(o.ClientNames) == 0 || o.ClientCAFile != "", "--client-names: must not be set without --client-ca-file")
	check(!slices.Contains(o.ClientNames, ""), "--client-names: must have no empty name")
	check(o.HealthAddress != "", "--health-address: must be set")
	check(o.MetricsAddress != "", "--metrics-address: must be set, to 0 for none")
	check(o.StoreMemory.Value() >= memory.MinBytes, "--store-memory %s: must be at least 1Mi", &o.StoreMemory)
	check(o.MaxRequestBytes.Value() >= 64<<10, "--max-request-bytes %s: must be at least 64Ki", &o.MaxRequestBytes)
	check(o.MaxInFlight >= 1, "--max-in-flight %d: must be at least 1", o.MaxInFlight)
	check(o.Deadline >= 10*time.Millisecond && o.Deadline <= o.MaxTimeout, "--deadline %s: must be from 10ms to --max-timeout, which is %s", o.Deadline, o.MaxTimeout)
	check(o.MaxTimeout >= time.Second && o.MaxTimeout <= 30*time.Second, "--max-timeout %s: must be from 1s to 30s", o.MaxTimeout)
	check(o.LocalRate >= 1, "--local-rate %d: must be at least 1", o.LocalRate)
	check(o.CallsPerConnection >= 0, "--calls-per-connection %d: must be 0 or more", o.CallsPerConnection)
	check(o.SettleRate >= 1, "--settle-rate %d: must be at least 1", o.SettleRate)
	check(o.StatusInterval >= time.Second, "--status-interval %s: must be at least 1s", o.StatusInterval)
	check(o.ShutdownDelay >= 0, "--shutdown-delay %s: must be 0 or more", o.ShutdownDelay)
	check(o.DrainTimeout >= time.Second, "--drain-timeout %s: must be at least 1s", o.DrainTimeout)
	check(level.UnmarshalText([]byte(o.LogLevel)) == nil, "--log-level %q: must be debug, info, warn or error", o.LogLevel)
	check(o.LogFormat == "json" || o.LogFormat == "text", "--log-format %q: must be json or text", o.LogFormat)
	check(o.StoreDeadline >= time.Millisecond && o.StoreDeadline <= time.Second, "--store-deadline %s: must be from 1ms to 1s", o.StoreDeadline)
	check(o.StoreDeadline < o.Deadline || o.StoreDeadline > time.Second, "--store-deadline %s: must be shorter than --deadline, which is %s", o.StoreDeadline, o.Deadline)
	check(!strings.ContainsAny(o.RedisPrefix, "{}"), "--redis-prefix %q: must have no braces", o.RedisPrefix)
	if !reflect.DeepEqual(o.Redis, redisclient.DefaultOptions()) {
		errs = append(errs, o.Redis.Validate())
	}
	return errors.Join(append(errs, checkPprofAddress(o.PprofAddress), o.Election.Validate(), o.Traces.Validate())...)
}

// usesRedis reports whether there is a Redis to share the state in.
func (o *options) usesRedis() bool { return len(o.Redis.Addresses) > 0 }

// logger makes the logger that the flags ask for. They have been validated.
func (o *options) logger(w io.Writer) logr.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.LogLevel))
	handlerOptions := &slog.HandlerOptions{Level: level}
	if o.LogFormat == "text" {
		return logr.FromSlogHandler(slog.NewTextHandler(w, handlerOptions))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(text.JSON(w), handlerOptions))
}
