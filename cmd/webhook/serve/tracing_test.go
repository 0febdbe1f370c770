package serve

import (
	"crypto/tls"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Values of the traceparent header: the API server samples the request, or does not.
const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + parentID + "-01"
	ignored  = "00-" + traceID + "-" + parentID + "-00"
)

// startTracedServer starts a server that sends traces to endpoint, with OTEL_TRACES_SAMPLER set to sampler.
func startTracedServer(t *testing.T, endpoint, sampler string) *runningServer {
	t.Helper()
	t.Setenv("OTEL_TRACES_SAMPLER", sampler)
	s := startServer(t, newAPIServer(t), func(o *options) { o.TraceEndpoint = endpoint })
	s.readyForEvents(t)
	return s
}

// TestReviewSpanHasAPIServerParent checks the spans of an Event, of its repeat and of the write of their count.
func TestReviewSpanHasAPIServerParent(t *testing.T) {
	c := startCollector(t, nil)
	s := startTracedServer(t, "http://"+c.address, "parentbased_always_on")
	for _, name := range []string{"first", "second"} {
		s.callAs(t, name, sampled)
	}
	s.end(t)
	all, lines := c.spans()
	const review = " eventquota.policy:default http.response.status_code:200 k8s.namespace.name:shop]"
	want := []string{
		"review map[eventquota.dry_run:false eventquota.operation:CREATE eventquota.outcome:admit eventquota.phase:mutate" + review,
		"review map[eventquota.dry_run:false eventquota.operation:CREATE eventquota.outcome:merge eventquota.phase:mutate" + review,
		"settle map[eventquota.notice:false eventquota.result:written k8s.namespace.name:shop]",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for _, span := range all {
		sameTrace := hex.EncodeToString(span.GetTraceId()) == traceID
		switch span.GetName() {
		case "settle":
			if sameTrace || len(span.GetParentSpanId()) > 0 {
				t.Error("the settler's span is in the trace of a review, want one of its own")
			}
			continue
		case "review":
			if got := hex.EncodeToString(span.GetParentSpanId()); got != parentID || span.GetKind() != tracev1.Span_SPAN_KIND_SERVER {
				t.Errorf("a review span has kind %s and parent %s, want a server span with the API server's span as its parent", span.GetKind(), got)
			}
		}
		if !sameTrace {
			t.Errorf("span %s is in trace %x, want the API server's", span.GetName(), span.GetTraceId())
		}
	}
	for key, want := range map[string]string{"service.name": "eventquota", "service.version": "devel"} {
		if got := c.resource[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, text := range []string{password, "BackOff"} {
		if c.has(text) {
			t.Errorf("traces contain %q from the Event", text)
		}
	}
}

func TestReviewSampling(t *testing.T) {
	const all, none = "parentbased_always_on", "parentbased_always_off"
	for name, test := range map[string]struct {
		sampler     string
		traceparent string
		spans       int
	}{
		"sampled by the API server":                       {none, sampled, 1},
		"sampled by the API server, without a setting":    {"", sampled, 1},
		"not sampled by the API server":                   {all, ignored, 0},
		"no traceparent, the environment samples":         {all, "", 1},
		"no traceparent, the environment does not sample": {none, "", 0},
		"invalid traceparent, the environment samples":    {all, "00-x-y-01", 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCollector(t, nil)
			s := startTracedServer(t, "http://"+c.address, test.sampler)
			s.callAs(t, "first", test.traceparent)
			s.end(t)
			if all, lines := c.spans(); len(all) != test.spans {
				t.Errorf("%d spans, want %d:\n%s", len(all), test.spans, strings.Join(lines, "\n"))
			}
		})
	}
}

// TestDefaultSampling checks that about one in a hundred reviews is sampled when the environment sets no sampler.
func TestDefaultSampling(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "")
	traces, err := newTraces("http://127.0.0.1:1", "test")
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for range 10_000 {
		if _, span := traces.Tracer(tracerName).Start(t.Context(), "review"); span.IsRecording() {
			recorded++ // not ended, so that nothing is sent
		}
	}
	if recorded < 10 || recorded > 300 {
		t.Errorf("%d of 10,000 spans are sampled, want about 100", recorded)
	}
	if err := traces.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHangingCollectorBlocksNothing checks that reviews are answered, and that serve stops, while the collector hangs and the queue of
// spans is full.
func TestHangingCollectorBlocksNothing(t *testing.T) {
	hang := make(chan struct{})
	c := startCollector(t, hang)
	s := startTracedServer(t, "http://"+c.address, "parentbased_always_off")
	s.callAs(t, "first", sampled)
	<-c.received // from here on the first batch hangs
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	for range 10_000 {
		_, span := s.tracer().Start(ctx, "filler")
		span.End()
	}
	s.callAs(t, "second", sampled)
	if all, _ := c.spans(); len(all) > 0 {
		t.Errorf("the collector accepted %d spans, want it to hang", len(all))
	}
	s.end(t)
	close(hang)
}

func TestTracesNeedTrustedCollector(t *testing.T) {
	for name, test := range map[string]struct{ trusted, actual, spans int }{
		"trusted CA": {0, 0, 1},
		"another CA": {0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := []string{certificate(t), certificate(t)}
			own, err := tls.LoadX509KeyPair(filepath.Join(dirs[test.actual], "tls.crt"), filepath.Join(dirs[test.actual], "tls.key"))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", filepath.Join(dirs[test.trusted], "ca.crt"))
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
			c := startCollector(t, nil, own)
			s := startTracedServer(t, "https://"+c.address, "parentbased_always_off")
			s.callAs(t, "first", sampled)
			s.end(t)
			if all, _ := c.spans(); len(all) != test.spans {
				t.Errorf("the collector got %d spans, want %d", len(all), test.spans)
			}
		})
	}
}

// TestSpanAttributesAreTruncated checks the bound on strings from requests.
func TestSpanAttributesAreTruncated(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	c := startCollector(t, nil)
	traces, err := newTraces("http://"+c.address, "test")
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Tracer(tracerName).Start(t.Context(), "span")
	span.SetAttributes(attribute.String("k8s.namespace.name", strings.Repeat("x", 10*maxAttributeBytes)))
	span.End()
	if err := traces.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, _ := c.spans()
	if got := attributesOf(all[0].GetAttributes())["k8s.namespace.name"]; len(got) != maxAttributeBytes {
		t.Errorf("the attribute has %d bytes, want %d", len(got), maxAttributeBytes)
	}
}
