package serve

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/eventquota/eventquota/admission/tracing"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // makes certificates
	"github.com/eventquota/eventquota/test/prom"
)

// What the API server says of a request that is traced, and of one that is not.
const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + parentID + "-01"
	ignored  = "00-" + traceID + "-" + parentID + "-00"
)

// traced runs a server that sends traces to c, and returns it when it is ready.
func traced(t *testing.T, c *collector, rate int) *served {
	t.Helper()
	s := serving(t, newAPIServer(t), func(o *options) {
		o.Traces = tracing.Options{Endpoint: c.address, Insecure: true, SampleRate: rate}
	})
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
	return s
}

// rootOf is ctx with a remote span that is traced.
func rootOf(ctx context.Context) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// end stops a server, with all its traces sent.
func (s *served) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("run: %v, want a clean end", err)
	}
}

// TestAReviewIsTracedAsPartOfTheAPIServersRequest holds what a collector gets of a first
// Event, of its repeat and of what is settled of both.
func TestAReviewIsTracedAsPartOfTheAPIServersRequest(t *testing.T) {
	c := startCollector(t, func(*collector) {})
	s := traced(t, c, 1_000_000)
	for _, each := range []struct{ phase, name string }{{"mutate", "first"}, {"mutate", "second"}} {
		if got := callAs(t, s.opts.Port, each.phase, each.name, sampled); got != http.StatusOK {
			t.Errorf("/%s of %s answers %d", each.phase, each.name, got)
		}
	}
	s.end(t)
	all, lines := c.spans()
	const store, review = " map[eventquota.audited:false eventquota.store:memory eventquota.verdict:", " eventquota.policy:default http.response.status_code:200 k8s.namespace.name:shop]"
	want := []string{
		"decide in review" + store + "admit]", "decide in review" + store + "merge]",
		"decode in review", "decode in review", "encode in review", "encode in review",
		"resolve in review", "resolve in review",
		"review map[eventquota.dry_run:false eventquota.operation:CREATE eventquota.outcome:admit eventquota.phase:mutate" + review,
		"review map[eventquota.dry_run:false eventquota.operation:CREATE eventquota.outcome:merge eventquota.phase:mutate" + review,
		"settle map[eventquota.notice:false eventquota.result:written k8s.namespace.name:shop]",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for _, span := range all {
		same := hex.EncodeToString(span.GetTraceId()) == traceID
		switch span.GetName() {
		case "settle":
			if same || len(span.GetParentSpanId()) > 0 {
				t.Error("what is settled is part of the trace of a review, want a trace of its own")
			}
			continue
		case "review":
			if got := hex.EncodeToString(span.GetParentSpanId()); got != parentID || span.GetKind() != tracev1.Span_SPAN_KIND_SERVER {
				t.Errorf("a review is a %s in span %s, want a server's in the API server's", span.GetKind(), got)
			}
		}
		if !same {
			t.Errorf("%s is in trace %x, want the API server's", span.GetName(), span.GetTraceId())
		}
	}
	for key, want := range map[string]string{"service.name": "eventquota", "service.version": "devel"} {
		if got := c.resource[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, text := range []string{password, "BackOff"} {
		if c.has(text) {
			t.Errorf("traces have %q from the Event", text)
		}
	}
	prom.Want(t, s.metrics.Gatherer, "eventquota_trace_spans_total", `{result="dropped"} 0`, `{result="failed"} 0`, `{result="sent"} 11`)
}

func TestWhichReviewsAreTraced(t *testing.T) {
	for says, test := range map[string]struct {
		rate        int
		traceparent string
		spans       int
	}{
		"one that the API server traces, at any rate":         {0, sampled, 5},
		"none that it does not trace, at any rate":            {1_000_000, ignored, 0},
		"one of which it says nothing, by the rate":           {1_000_000, "", 5},
		"none of which it says nothing, by a rate of nothing": {0, "", 0},
		"one of which it says what nobody understands":        {1_000_000, "00-x-y-01", 5},
	} {
		t.Run(says, func(t *testing.T) {
			c := startCollector(t, func(*collector) {})
			s := traced(t, c, test.rate)
			callAs(t, s.opts.Port, "mutate", "first", test.traceparent)
			s.end(t)
			if all, lines := c.spans(); len(all) != test.spans {
				t.Errorf("%d spans, want %d:\n%s", len(all), test.spans, strings.Join(lines, "\n"))
			}
		})
	}
}

// TestACollectorThatHangsIsInNobodysWay holds that reviews are answered while a collector takes
// nothing, that excess spans are dropped and counted, and that serve ends.
func TestACollectorThatHangsIsInNobodysWay(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	c := startCollector(t, func(c *collector) { c.hang = hang })
	s := traced(t, c, 0)
	callAs(t, s.opts.Port, "mutate", "first", sampled)
	<-c.came
	// The first batch hangs from here on.
	dropped := func() float64 {
		var m dto.Metric
		if err := s.metrics.Spans.WithLabelValues("dropped").Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	for dropped() == 0 {
		_, span := s.traces.Tracer().Start(rootOf(t.Context()), "filler")
		span.End()
	}
	if got := callAs(t, s.opts.Port, "mutate", "second", sampled); got != http.StatusOK {
		t.Errorf("/mutate answers %d", got)
	}
	if all, _ := c.spans(); len(all) > 0 {
		t.Errorf("the collector took %d spans, want it to hang", len(all))
	}
	s.end(t)
	if got := dropped(); got != 1+5 {
		t.Errorf("%v spans are dropped, want the excess one and the 5 of the second review", got)
	}
}

func TestTracesGoToTheCollectorThatIsTrustedOnly(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct{ trusts, is, spans int }{
		"the one whose CA is given": {0, 0, 5},
		"another":                   {0, 1, 0},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			dirs := []string{t.TempDir(), t.TempDir()}
			for _, dir := range dirs {
				if _, err := cluster.ServingCertificate(dir, "127.0.0.1"); err != nil {
					t.Fatal(err)
				}
			}
			own, err := tls.LoadX509KeyPair(filepath.Join(dirs[test.is], "tls.crt"), filepath.Join(dirs[test.is], "tls.key"))
			if err != nil {
				t.Fatal(err)
			}
			c := startCollector(t, func(*collector) {}, own)
			s := serving(t, newAPIServer(t), func(o *options) {
				o.Traces = tracing.Options{Endpoint: c.address, CAFile: filepath.Join(dirs[test.trusts], "ca.crt")}
			})
			cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
			callAs(t, s.opts.Port, "mutate", "first", sampled)
			s.end(t)
			if all, _ := c.spans(); len(all) != test.spans {
				t.Errorf("%d spans came, want %d", len(all), test.spans)
			}
		})
	}
}

func TestBadFlagsOfTracesGetOneClearError(t *testing.T) {
	noCA := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noCA, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "--trace-endpoint=collector:4317"
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"a URL":                       {[]string{"--trace-endpoint=http://collector:4317"}, `--trace-endpoint "http://collector:4317": must be host:port, with a port from 1 to 65535`},
		"no port":                     {[]string{"--trace-endpoint=collector"}, `--trace-endpoint "collector": must be host:port, with a port from 1 to 65535`},
		"no host":                     {[]string{"--trace-endpoint=:4317"}, `--trace-endpoint ":4317": must be host:port, with a port from 1 to 65535`},
		"port 0":                      {[]string{"--trace-endpoint=collector:0"}, `--trace-endpoint "collector:0": must be host:port, with a port from 1 to 65535`},
		"a port past the last":        {[]string{"--trace-endpoint=collector:65536"}, `--trace-endpoint "collector:65536": must be host:port, with a port from 1 to 65535`},
		"a port by its name":          {[]string{"--trace-endpoint=collector:otlp"}, `--trace-endpoint "collector:otlp": must be host:port, with a port from 1 to 65535`},
		"a negative rate":             {[]string{at, "--trace-sampling-rate-per-million=-1"}, "--trace-sampling-rate-per-million -1: must be from 0 to 1000000"},
		"more than all":               {[]string{at, "--trace-sampling-rate-per-million=1000001"}, "--trace-sampling-rate-per-million 1000001: must be from 0 to 1000000"},
		"a CA of nobody":              {[]string{"--trace-ca-file=ca.crt"}, "--trace-ca-file: must not be set without --trace-endpoint"},
		"no TLS to nobody":            {[]string{"--trace-insecure"}, "--trace-insecure: must not be set without --trace-endpoint"},
		"a CA and no TLS":             {[]string{at, "--trace-insecure", "--trace-ca-file=ca.crt"}, "--trace-ca-file: must not be set with --trace-insecure"},
		"a CA file that is not there": {[]string{at, "--trace-ca-file=/nowhere"}, "--trace-ca-file: open /nowhere: no such file or directory"},
		"a CA file that is no file":   {[]string{at, "--trace-ca-file=testdata"}, "--trace-ca-file: read testdata: is a directory"},
		"a CA file without any in it": {[]string{at, "--trace-ca-file=" + noCA}, "--trace-ca-file: error creating pool from " + noCA + ": data does not contain any valid"},
		"a rate that is not a number": {[]string{"--trace-sampling-rate-per-million=all"}, `invalid argument "all" for "--trace-sampling-rate-per-million"`},
		"whether insecure, in a word": {[]string{"--trace-insecure=perhaps"}, `invalid argument "perhaps" for "--trace-insecure"`},
	} {
		t.Run(says, func(t *testing.T) {
			args := []string{"serve", "--cert-dir=" + t.TempDir(), "--kubeconfig=" + newAPIServer(t).kubeconfig(t)}
			cli.Refuses(t, command(), test.want, append(args, test.args...)...)
		})
	}
}
