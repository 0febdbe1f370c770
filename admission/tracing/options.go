package tracing

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/client-go/util/cert"
)

// perMillion is the rate at which all are sampled.
const perMillion = 1_000_000

// Options are the flags of traces.
type Options struct {
	Endpoint   string
	CAFile     string
	Insecure   bool
	SampleRate int
	// Exporter takes spans in place of the collector at Endpoint. Nil for that.
	Exporter sdktrace.SpanExporter
}

// DefaultOptions sample one review in a hundred: enough to see one within
// minutes in a quiet cluster, and a few hundred spans a second in a storm.
func DefaultOptions() Options { return Options{SampleRate: 10_000} }

// AddFlags adds the flags to f.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Endpoint, "trace-endpoint", o.Endpoint, "collector to send traces to by OTLP over gRPC, as host:port; empty for no traces")
	f.StringVar(&o.CAFile, "trace-ca-file", o.CAFile, "PEM file of the CAs that may sign the collector's certificate, read at the start; empty for the system's")
	f.BoolVar(&o.Insecure, "trace-insecure", o.Insecure, "whether to send traces without TLS")
	f.IntVar(&o.SampleRate, "trace-sampling-rate-per-million", o.SampleRate, "of a million reviews of which the API server does not say whether they are traced, and of a million writes that settle, how many are; 0 to 1000000")
}

// on reports whether anything is traced.
func (o *Options) on() bool { return o.Endpoint != "" }

// Validate reports every flag that is out of its range.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(!o.on() || isHostPort(o.Endpoint), "--trace-endpoint %q: must be host:port, with a port from 1 to 65535", o.Endpoint)
	check(o.on() || o.CAFile == "", "--trace-ca-file: must not be set without --trace-endpoint")
	check(o.on() || !o.Insecure, "--trace-insecure: must not be set without --trace-endpoint")
	check(!o.Insecure || o.CAFile == "", "--trace-ca-file: must not be set with --trace-insecure")
	check(o.SampleRate >= 0 && o.SampleRate <= perMillion, "--trace-sampling-rate-per-million %d: must be from 0 to 1000000", o.SampleRate)
	return errors.Join(errs...)
}

// isHostPort reports whether something can be dialled at an address. A host has no
// slash: that would be a URL, or another way of gRPC to find servers.
func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	return err == nil && notNumber == nil && number > 0 && host != "" && !strings.ContainsAny(host, "/ ")
}

// tlsConfig is how to know the collector.
func (o *Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		roots, err := cert.NewPool(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--trace-ca-file: %w", err)
		}
		config.RootCAs = roots
	}
	return config, nil
}
