package serve

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/sink"
	"github.com/eventquota/eventquota/policy"
)

// sinkOptions are the flags of the sink.
type sinkOptions struct {
	Endpoint string
	File     string
	Default  string
	Admitted bool
	Memory   resource.QuantityValue
}

func (o *sinkOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Endpoint, "sink-otlp-endpoint", "", "collector to send copies of Events to as OpenTelemetry logs, as https://host:port, or http://host:port without TLS; empty for none. The environment variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_LOGS_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE, set the rest; with OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/protobuf the URL may have a path, by default /v1/logs")
	f.StringVar(&o.File, "sink-file", "", "file to append copies of Events to, one line of JSON each; - for standard output, empty for none")
	f.StringVar(&o.Default, "sink", string(policy.SinkAll), "which Events are copied to the sink by policies and quotas that do not say so: All (merged or dropped), Refused (dropped), Warnings (as All, of type Warning only) or None")
	f.BoolVar(&o.Admitted, "sink-admitted", false, "copy admitted Events to the sink, too, where that is All or Warnings, so that it has every Event")
	o.Memory.Quantity = *resource.NewQuantity(sink.DefaultBytes, resource.BinarySI)
	f.Var(&o.Memory, "sink-memory", "memory that copies of Events may use while they wait to be sent, in bytes, at least 1Mi; what has no place is counted, and noted in notices. Namespaces share it")
}

// endpoint is that of --sink-otlp-endpoint, which has been validated.
func (o *sinkOptions) endpoint() *url.URL {
	u, _ := url.Parse(o.Endpoint)
	return u
}

// validate checks each flag that is out of its range.
func (o *sinkOptions) validate(check func(ok bool, format string, args ...any)) {
	u, err := url.Parse(o.Endpoint)
	check(o.Endpoint == "" || err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.RawQuery == "" && u.User == nil,
		"--sink-otlp-endpoint %q: must be https://host:port, or http://host:port without TLS", o.Endpoint)
	all := []policy.Sink{policy.SinkAll, policy.SinkRefused, policy.SinkWarnings, policy.SinkNone}
	check(slices.Contains(all, policy.Sink(o.Default)), "--sink %q: must be All, Refused, Warnings or None", o.Default)
	check(o.Memory.Value() >= sink.MinBytes, "--sink-memory %s: must be at least 1Mi", &o.Memory)
}

// Names of the outputs, in metrics and log lines.
const outputOTLP, outputFile = "otlp", "file"

// newSink makes the sink; nil where there is no output. The state of the server has been made.
func (s *server) newSink() (*sink.Sink, error) {
	o, outputs := &s.opts.Sink, map[string]sink.Output{}
	if o.Endpoint != "" {
		of, err := replicaResource(s.opts.version)
		if err != nil {
			return nil, err
		}
		if outputs[outputOTLP], err = sink.OTLP(o.endpoint(), of, s.opts.version, os.Getenv); err != nil {
			return nil, fmt.Errorf("--sink-otlp-endpoint: %w", err)
		}
	}
	if o.File != "" {
		to, err := sink.NewFile(o.File, os.Stdout)
		if err != nil {
			return nil, fmt.Errorf("--sink-file: %w", err)
		}
		outputs[outputFile] = to
	}
	if len(outputs) == 0 {
		return nil, nil //nolint:nilnil // no sink is none
	}
	made := sink.New(sink.Options{
		Default: policy.Sink(o.Default), Admitted: o.Admitted, Bytes: o.Memory.Value(), DrainTimeout: s.opts.sinkDrain(),
		Counts: s.metrics.Sink, Report: s.state.undelivered, Log: s.log,
	})
	made.Add(outputs)
	names := make([]string, 0, len(outputs))
	for name := range outputs {
		names = append(names, name)
	}
	s.metrics.Sink.RegisterOutputs(made.HeldBytes, names...)
	return made, nil
}

// admissionSink is the sink as the Gate has it.
func (s *server) admissionSink() admission.Sink {
	if s.sink == nil {
		return nil
	}
	return s.sink
}

// sinkDrain is how much of --drain-timeout the sink may take: what it could not deliver must still get into notices.
func (o *options) sinkDrain() time.Duration {
	if o.Sink.Endpoint == "" && o.Sink.File == "" {
		return 0
	}
	return o.DrainTimeout / 3
}

// runSink sends copies until ctx ends and what waits is sent, or given up.
func (s *server) runSink(ctx context.Context) {
	if s.sink == nil {
		<-ctx.Done()
		return
	}
	s.sink.Run(ctx)
	s.log.Info("Sink has stopped", "notDelivered", s.sink.Undelivered())
}
