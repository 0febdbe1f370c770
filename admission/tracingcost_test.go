package admission

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// TestAReviewThatIsNotTracedPaysNoMemoryForIt holds what tracing costs where it is off, and
// where the API server says that a review is not traced.
func TestAReviewThatIsNotTracedPaysNoMemoryForIt(t *testing.T) {
	ignored := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	for says, ctx := range map[string]context.Context{
		"off":         t.Context(),
		"not sampled": trace.ContextWithRemoteSpanContext(t.Context(), ignored),
	} {
		r, p, d := &Request{}, &policy.Policy{}, store.Decision{Verdict: store.Drop, Empty: &store.Bucket{Name: "spam filter"}}
		allocations := testing.AllocsPerRun(1000, func() {
			for _, name := range []string{"decode", "resolve", "encode"} {
				inPart, span := part(ctx, name)
				if inPart != ctx {
					t.Error("a part has a context of its own")
				}
				span.End()
			}
			notePolicy(ctx, p)
			noteBucket(ctx, d)
			noteAnswer(ctx, r, Admitted)
		})
		if allocations > 0 {
			t.Errorf("%s: %v allocations a review, want none", says, allocations)
		}
	}
}

// TakeAll takes all places for long reviews, for good.
func (p *Places) TakeAll() { p.long = NewAllowance(0, time.Hour) }

// BenchmarkNotTraced is all that tracing adds to a review while it is off.
func BenchmarkNotTraced(b *testing.B) {
	ctx, cancel := context.WithCancel(context.WithValue(b.Context(), http.ServerContextKey, 1))
	defer cancel()
	r, p, d := &Request{}, &policy.Policy{}, store.Decision{}
	b.ReportAllocs()
	for b.Loop() {
		for range 3 {
			_, span := part(ctx, "part")
			span.End()
		}
		notePolicy(ctx, p)
		noteBucket(ctx, d)
		noteAnswer(ctx, r, Admitted)
	}
}
