package settler_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func total(n int64) func(*store.PendingWrite) { return func(p *store.PendingWrite) { p.Total = n } }
func own(n int64) func(*store.PendingWrite)   { return func(p *store.PendingWrite) { p.Own = n } }
func series(p *store.PendingWrite)            { p.Series = true }

// aggregate makes the Event an aggregate of messages, newest first.
func aggregate(messages ...string) func(*store.PendingWrite) {
	return func(p *store.PendingWrite) {
		p.Text = messages[0]
		for i, m := range messages {
			p.Messages = append(p.Messages, store.Tally{What: m, Count: int64(i + 1)})
		}
	}
}

func TestPatches(t *testing.T) {
	t.Parallel()
	const combined = "(combined from similar events): "
	const ends = `},"resourceVersion":"1","uid":"uid-1"}`
	long := strings.Repeat("x", 1200)
	cut := strings.Repeat("x", 999) + "... (cut from 1200 bytes)"
	tests := map[string]struct {
		changes []func(*store.PendingWrite)
		want    string
	}{
		"an Event with a count": {
			nil,
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 3"` + ends + `}`,
		},
		"an Event with a series": {
			[]func(*store.PendingWrite){series},
			`{"metadata":{"annotations":{"eventquota.io/merged":"1 of 3"` + ends + `,"series":{"count":3,"lastObservedTime":"2000-01-01T00:01:30.000000Z"}}`,
		},
		"an Event into which nothing is merged any more": {
			[]func(*store.PendingWrite){own(3)},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":null` + ends + `}`,
		},
		"an Event some of whose own count is reported elsewhere": {
			[]func(*store.PendingWrite){own(5)},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"-2 of 3"` + ends + `}`,
		},
		"a count that no longer fits": {
			[]func(*store.PendingWrite){total(math.MaxInt32 + 1), own(math.MaxInt32)},
			`{"count":2147483647,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 2147483647"` + ends + `}`,
		},
		"a series that no longer fits": {
			[]func(*store.PendingWrite){series, total(math.MaxInt64), own(math.MaxInt64 - 1)},
			`{"metadata":{"annotations":{"eventquota.io/merged":"1 of 2147483647"` + ends + `,"series":{"count":2147483647,"lastObservedTime":"2000-01-01T00:01:30.000000Z"}}`,
		},
		"a time in another zone": {
			[]func(*store.PendingWrite){func(p *store.PendingWrite) { p.Last = p.Last.In(time.FixedZone("CET", 3600)) }},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 3"` + ends + `}`,
		},
		"an aggregate": {
			[]func(*store.PendingWrite){aggregate("pulled \"b\"", "pulled a")},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","message":"` + combined + `pulled \"b\"",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3",` +
				`"eventquota.io/messages":"[{\"message\":\"pulled \\\"b\\\"\",\"count\":1},{\"message\":\"pulled a\",\"count\":2}]"` + ends + `}`,
		},
		"an aggregate that keeps no messages": {
			[]func(*store.PendingWrite){func(p *store.PendingWrite) { p.Text = "pulled" }},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","message":"` + combined + `pulled",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3"` + ends + `}`,
		},
		"an aggregate of long messages": {
			[]func(*store.PendingWrite){aggregate(long)},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","message":"` + combined + long + `",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3","eventquota.io/messages":"[{\"message\":\"` + cut + `\",\"count\":1}]"` + ends + `}`,
		},
		"an aggregate of long messages with a series": {
			[]func(*store.PendingWrite){aggregate(long), series},
			`{"message":"` + combined + strings.Repeat("x", 967) + `... (cut from 1232 bytes)",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3","eventquota.io/messages":"[{\"message\":\"` + cut + `\",\"count\":1}]"` + ends + `,` +
				`"series":{"count":3,"lastObservedTime":"2000-01-01T00:01:30.000000Z"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a", tt.changes...)}
				r.run(time.Second, settler.Options{})
				if got := fmt.Sprint(r.did(), r.queue.came, r.results); got != "[patch default/a] [a written] [written]" {
					r.Fatalf("did %s", got)
				}
				if body := r.requests[0].body; body != tt.want {
					r.Errorf("patch\n%s, want\n%s", body, tt.want)
				}
			})
		})
	}
}
