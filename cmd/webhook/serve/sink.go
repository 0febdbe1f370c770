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
	f.StringVar(&o.Endpoint, "sink-otlp-endpoint", "", "collector that receives copies of Events as OpenTelemetry logs, as https://host:port, or http://host:port without TLS; empty for none. The environment variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_LOGS_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE, set the rest; with OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/protobuf the URL may have a path, by default /v1/logs")
	f.StringVar(&o.File, "sink-file", "", "file to append copies of Events to, one line of JSON each; - for standard output; empty for none")
	f.StringVar(&o.Default, "sink", string(policy.SinkAll), "Events to copy to the sink, unless a policy or quota sets it: All (merged or dropped), Refused (dropped), Warnings (as All, only of type Warning) or None")
	f.BoolVar(&o.Admitted, "sink-admitted", false, "where the sink is All or Warnings, also copy admitted Events, so that it has every Event")
	o.Memory.Quantity = *resource.NewQuantity(sink.DefaultBytes, resource.BinarySI)
	f.Var(&o.Memory, "sink-memory", "memory for copies of Events that wait to be sent, in bytes, at least 1Mi, shared between namespaces. Copies that do not fit are lost; metrics and notices count them")
}

// endpoint returns the URL of --sink-otlp-endpoint, which must be valid.
func (o *sinkOptions) endpoint() *url.URL {
	u, _ := url.Parse(o.Endpoint)
	return u
}

// validate calls check for each flag, with an error text.
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

// newSink returns the sink, or nil without outputs. It needs s.state.
func (s *server) newSink() (*sink.Sink, error) {
	o, outputs := &s.opts.Sink, map[string]sink.Output{}
	if o.Endpoint != "" {
		replica, err := replicaResource(s.opts.version)
		if err != nil {
			return nil, err
		}
		if outputs[outputOTLP], err = sink.OTLP(o.endpoint(), replica, s.opts.version, os.Getenv); err != nil {
			return nil, fmt.Errorf("--sink-otlp-endpoint: %w", err)
		}
	}
	if o.File != "" {
		file, err := sink.NewFile(o.File, os.Stdout)
		if err != nil {
			return nil, fmt.Errorf("--sink-file: %w", err)
		}
		outputs[outputFile] = file
	}
	if len(outputs) == 0 {
		return nil, nil //nolint:nilnil // nil means no sink
	}
	events := sink.New(sink.Options{
		Default: policy.Sink(o.Default), Admitted: o.Admitted, Bytes: o.Memory.Value(), DrainTimeout: s.opts.sinkDrain(),
		Counts: s.metrics.Sink, Report: s.state.undelivered, Log: s.log,
	})
	events.Add(outputs)
	names := make([]string, 0, len(outputs))
	for name := range outputs {
		names = append(names, name)
	}
	s.metrics.Sink.RegisterOutputs(events.HeldBytes, names...)
	return events, nil
}

// admissionSink returns the sink for the Gate. Without one, it returns a nil interface, not a nil *sink.Sink.
func (s *server) admissionSink() admission.Sink {
	if s.sink == nil {
		return nil
	}
	return s.sink
}

// sinkDrain returns the part of --drain-timeout for the sink. The rest is for notices, which also count the copies that the sink lost.
func (o *options) sinkDrain() time.Duration {
	if o.Sink.Endpoint == "" && o.Sink.File == "" {
		return 0
	}
	return o.DrainTimeout / 3
}

// settleDrain returns the rest of --drain-timeout.
func (o *options) settleDrain() time.Duration { return o.DrainTimeout - o.sinkDrain() }

// runSink sends copies until ctx ends, and then waits until all queued copies are sent or given up.
func (s *server) runSink(ctx context.Context) {
	if s.sink == nil {
		<-ctx.Done()
		return
	}
	s.sink.Run(ctx)
	s.log.Info("Sink has stopped", "notDelivered", s.sink.Undelivered())
}
