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

// What the API server says of a request that is traced, and of one that is not.
const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + parentID + "-01"
	ignored  = "00-" + traceID + "-" + parentID + "-00"
)

// startTracedServer runs a server that sends traces to an endpoint and samples by itself as the environment says.
func startTracedServer(t *testing.T, endpoint, sampler string) *runningServer {
	t.Helper()
	t.Setenv("OTEL_TRACES_SAMPLER", sampler)
	s := startServer(t, newAPIServer(t), func(o *options) { o.TraceEndpoint = endpoint })
	s.ready(t)
	return s
}

// TestReviewSpanHasAPIServerParent holds what a collector gets of a first
// Event, of its repeat and of what is settled of both.
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
}

func TestReviewSampling(t *testing.T) {
	const all, none = "parentbased_always_on", "parentbased_always_off"
	for says, test := range map[string]struct {
		sampler     string
		traceparent string
		spans       int
	}{
		"one that the API server traces":                            {none, sampled, 1},
		"one that the API server traces, where nothing is set":      {"", sampled, 1},
		"none that it does not trace":                               {all, ignored, 0},
		"one of which it says nothing, by the environment":          {all, "", 1},
		"none of which it says nothing, by the environment":         {none, "", 0},
		"one of which it says what nobody understands, by the same": {all, "00-x-y-01", 1},
	} {
		t.Run(says, func(t *testing.T) {
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

// TestDefaultSampling holds that no environment makes a flood of spans.
func TestDefaultSampling(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "")
	traces, err := newTraces("http://127.0.0.1:1", "test")
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for range 10_000 {
		if _, span := traces.Tracer(tracerName).Start(t.Context(), "review"); span.IsRecording() {
			recorded++ // and does not end, so that nothing is sent
		}
	}
	if recorded < 10 || recorded > 300 {
		t.Errorf("%d of 10,000 are traced, want about 100", recorded)
	}
	if err := traces.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHangingCollectorBlocksNothing holds that reviews are answered while a collector takes nothing and more spans
// end than wait to be sent, and that serve ends.
func TestHangingCollectorBlocksNothing(t *testing.T) {
	hang := make(chan struct{})
	c := startCollector(t, hang)
	s := startTracedServer(t, "http://"+c.address, "parentbased_always_off")
	s.callAs(t, "first", sampled)
	<-c.received // the first batch hangs from here on
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	for range 10_000 {
		_, span := s.tracer().Start(ctx, "filler")
		span.End()
	}
	s.callAs(t, "second", sampled)
	if all, _ := c.spans(); len(all) > 0 {
		t.Errorf("the collector took %d spans, want it to hang", len(all))
	}
	s.end(t)
	close(hang)
}

func TestTracesNeedTrustedCollector(t *testing.T) {
	for says, test := range map[string]struct{ trusts, is, spans int }{
		"the one whose CA is given": {0, 0, 1},
		"another":                   {0, 1, 0},
	} {
		t.Run(says, func(t *testing.T) {
			dirs := []string{certificate(t), certificate(t)}
			own, err := tls.LoadX509KeyPair(filepath.Join(dirs[test.is], "tls.crt"), filepath.Join(dirs[test.is], "tls.key"))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", filepath.Join(dirs[test.trusts], "ca.crt"))
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000")
			c := startCollector(t, nil, own)
			s := startTracedServer(t, "https://"+c.address, "parentbased_always_off")
			s.callAs(t, "first", sampled)
			s.end(t)
			if all, _ := c.spans(); len(all) != test.spans {
				t.Errorf("%d spans came, want %d", len(all), test.spans)
			}
		})
	}
}

// TestSpanAttributesAreTruncated holds that nobody makes a span long.
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
		t.Errorf("an attribute has %d bytes, want %d", len(got), maxAttributeBytes)
	}
}
