package settler_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func total(n int64) func(*store.Debt)  { return func(d *store.Debt) { d.Total = n } }
func merged(n int64) func(*store.Debt) { return func(d *store.Debt) { d.Merged = n } }
func series(d *store.Debt)             { d.Series = true }

// aggregate makes the Event an aggregate of messages, newest first.
func aggregate(messages ...string) func(*store.Debt) {
	return func(d *store.Debt) {
		d.Text = messages[0]
		for i, m := range messages {
			d.Messages = append(d.Messages, store.Tally{What: m, Count: int64(i + 1)})
		}
	}
}

func TestPatches(t *testing.T) {
	t.Parallel()
	const combined = "(combined from similar events): "
	long := strings.Repeat("x", 1200)
	cut := strings.Repeat("x", 999) + "... (cut from 1200 bytes)"
	tests := map[string]struct {
		debt store.Debt
		want string
	}{
		"an Event with a count": {
			debt("a"),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 3"}}}`,
		},
		"an Event with a series": {
			debt("a", series),
			`{"metadata":{"annotations":{"eventquota.io/merged":"1 of 3"}},"series":{"count":3,"lastObservedTime":"2030-03-01T12:01:30.000000Z"}}`,
		},
		"an Event into which nothing is merged any more": {
			debt("a", merged(0)),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","metadata":{"annotations":{"eventquota.io/merged":null}}}`,
		},
		"an Event some of whose own count is told elsewhere": {
			debt("a", merged(-2)),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"-2 of 3"}}}`,
		},
		"a count that no longer fits": {
			debt("a", total(math.MaxInt32+1)),
			`{"count":2147483647,"lastTimestamp":"2030-03-01T12:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 2147483647"}}}`,
		},
		"a series that no longer fits": {
			debt("a", series, total(math.MaxInt64)),
			`{"metadata":{"annotations":{"eventquota.io/merged":"1 of 2147483647"}},"series":{"count":2147483647,"lastObservedTime":"2030-03-01T12:01:30.000000Z"}}`,
		},
		"a time in another zone": {
			debt("a", func(d *store.Debt) { d.Last = d.Last.In(time.FixedZone("CET", 3600)) }),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 3"}}}`,
		},
		"an aggregate": {
			debt("a", aggregate("pulled \"b\"", "pulled a")),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","message":"` + combined + `pulled \"b\"",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3",` +
				`"eventquota.io/messages":"[{\"message\":\"pulled \\\"b\\\"\",\"count\":1},{\"message\":\"pulled a\",\"count\":2}]"}}}`,
		},
		"an aggregate that keeps no messages": {
			debt("a", func(d *store.Debt) { d.Text = "pulled" }),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","message":"` + combined + `pulled",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3"}}}`,
		},
		"an aggregate of long messages": {
			debt("a", aggregate(long)),
			`{"count":3,"lastTimestamp":"2030-03-01T12:01:30Z","message":"` + combined + long + `",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3","eventquota.io/messages":"[{\"message\":\"` + cut + `\",\"count\":1}]"}}}`,
		},
		"an aggregate of long messages with a series": {
			debt("a", aggregate(long), series),
			`{"message":"` + combined + strings.Repeat("x", 967) + `... (cut from 1232 bytes)",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3","eventquota.io/messages":"[{\"message\":\"` + cut + `\",\"count\":1}]"}},` +
				`"series":{"count":3,"lastObservedTime":"2030-03-01T12:01:30.000000Z"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.account.owed = []store.Debt{tt.debt}
				if err := r.run(r.account, time.Second, settler.Options{}); err != nil {
					t.Error(err)
				}
				if got := fmt.Sprint(r.did(), r.account.came, r.results); got != "[patch default/a] [a told] [told]" {
					t.Errorf("did %s", got)
				}
				if r.calls[0].body != tt.want {
					t.Errorf("patch\n%s, want\n%s", r.calls[0].body, tt.want)
				}
			})
		})
	}
}
