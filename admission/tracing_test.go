package admission_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// TestSpanHasOutcomeButNoEventContent holds the spans of one review, by
// its own, of which only what the sentence is about is looked at.
func TestSpanHasOutcomeButNoEventContent(t *testing.T) {
	t.Parallel()
	const secret = "swordfish"
	event := func(changes ...detail) []byte {
		return marshalReview(t, newRequest(epoch(), "a", append(changes, message(secret), reason(secret))))
	}
	for says, test := range map[string]struct {
		store    store.Store
		policy   func(*appliedRules)
		validate bool
		query    string
		body     []byte
		want     []string
	}{
		"a dry run": {
			body: event(func(r *admission.Request) { r.DryRun = true }),
			want: []string{"eventquota.dry_run=true", "eventquota.outcome=admit", "eventquota.policy=own"},
		},
		"an Event that a bucket refuses": {
			policy: spamFilterBurst(0), validate: true, body: event(),
			want: []string{"eventquota.bucket=spam filter", "eventquota.outcome=drop", "eventquota.policy=own"},
		},
		"an Event that cannot be decided": {
			store: faultyStore(func() error { return errors.New("cannot take " + secret) }), body: event(),
			want: []string{"Error not decided", "eventquota.outcome=undecided", "eventquota.policy=own"},
		},
		"an Event that cannot be read": {
			body: []byte(strings.Replace(string(event()), `"count":1`, `"count":"`+secret+`"`, 1)),
			want: []string{"eventquota.outcome=admit", "eventquota.policy=own"},
		},
		"what is no review": {
			body: []byte(`{"kind":"` + secret + `"}`), want: []string{"http.response.status_code=400"},
		},
		"a call without a timeout": {
			query: "?timeout=" + secret, body: event(), want: []string{"http.response.status_code=400"},
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, namedPolicy("own", func(p *appliedRules) {
				if test.policy != nil {
					test.policy(p)
				}
			}))
			if test.store != nil {
				r.gate.Store = test.store
			}
			phase := r.gate.Mutate
			if test.validate {
				phase = r.gate.Validate
			}
			h := newHandler(r.gate, phase, 2)
			recorder := tracetest.NewSpanRecorder()
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
			ctx, span := tracer.Start(t.Context(), "review")
			doRequest(t, h, httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+cmp.Or(test.query, longTimeout), strings.NewReader(string(test.body))))
			span.End()
			all := recorder.Ended()
			ended := all[len(all)-1]
			said := []string{strings.TrimSpace(fmt.Sprint(ended.Status().Code, " ", ended.Status().Description))}
			for _, a := range ended.Attributes() {
				said = append(said, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
			}
			for _, want := range test.want {
				if !slices.Contains(said, want) {
					t.Errorf("its span says %q, want it to say %q", said, want)
				}
			}
			if quoted := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(all)); strings.Contains(quoted, secret) {
				t.Errorf("its spans quote the Event: %s", quoted)
			}
		})
	}
}
