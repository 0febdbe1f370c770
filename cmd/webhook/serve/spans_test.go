package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/admission/tracing"
	"github.com/eventquota/eventquota/store"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// exporterFunc is an exporter that has nothing to shut down.
type exporterFunc func([]sdktrace.ReadOnlySpan) error

func (f exporterFunc) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	return f(spans)
}
func (exporterFunc) Shutdown(context.Context) error { return nil }

// TestATraceSaysWhichStoreDecided holds the spans of a decision by Redis, and of one by
// the replica once Redis is killed.
func TestATraceSaysWhichStoreDecided(t *testing.T) {
	killed := redistest.Start(t, redistest.Options{})
	o := defaultOptions()
	o.Redis.Addresses = []string{killed.Addr()}
	o.StoreDeadline, o.Deadline = time.Second, 2*time.Second // on a machine that is busy
	var lines []string
	m := metrics.New("test")
	tr, err := tracing.New(tracing.Options{Exporter: exporterFunc(func(spans []sdktrace.ReadOnlySpan) error {
		names := map[trace.SpanID]string{}
		for _, s := range spans {
			names[s.SpanContext().SpanID()] = s.Name()
		}
		for _, s := range spans {
			line := s.Name() + " in " + names[s.Parent().SpanID()]
			for _, a := range s.Attributes() {
				line += fmt.Sprintf(" %s=%s", strings.TrimPrefix(string(a.Key), "eventquota."), a.Value.String())
			}
			lines = append(lines, line+" "+s.Status().Code.String())
		}
		return nil
	})}, "test", m.Spans, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	s, err := (&server{opts: o, config: &rest.Config{Host: "127.0.0.1:1"}, metrics: m, traces: tr, log: logr.Discard()}).newState()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ask := func(in string, of store.Store) {
		t.Helper()
		ctx, span := tr.Tracer().Start(rootOf(t.Context()), in)
		defer span.End()
		if _, err := of.Decide(ctx, time.Now(), aWrite(in, in), limited(25)); err != nil {
			t.Error(err)
		}
	}
	ask("there", s.store)
	ask("audited", s.audit)
	killed.Kill()
	ask("killed", s.store)
	tr.Flush()
	slices.Sort(lines)
	want := []string{
		"audited in  Unset",
		"decide in audited store=redis audited=true verdict=admit Unset",
		"decide in killed store=redis audited=false fallback=local verdict=admit Unset",
		"decide in there store=redis audited=false verdict=admit Unset",
		"killed in  Unset",
		"redis decide in decide Error", "redis decide in decide verdict=admit Unset",
		"there in  Unset",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
