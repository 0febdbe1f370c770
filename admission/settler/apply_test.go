package settler_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func withTotal(n int64) func(*store.PendingWrite) { return func(p *store.PendingWrite) { p.Total = n } }
func withOwnCount(n int64) func(*store.PendingWrite) {
	return func(p *store.PendingWrite) { p.Own = n }
}
func series(p *store.PendingWrite) { p.Series = true }

// asAggregate makes the Event an aggregate of messages, newest first.
func asAggregate(messages ...string) func(*store.PendingWrite) {
	return func(p *store.PendingWrite) {
		p.Text = messages[0]
		for i, m := range messages {
			p.Messages = append(p.Messages, store.Tally{Name: m, Count: int64(i + 1)})
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
		"an Event with a series": {
			[]func(*store.PendingWrite){series},
			`{"metadata":{"annotations":{"eventquota.io/merged":"1 of 3"` + ends + `,"series":{"count":3,"lastObservedTime":"2000-01-01T00:01:30.000000Z"}}`,
		},
		"an Event into which nothing is merged any more": {
			[]func(*store.PendingWrite){withOwnCount(3)},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":null` + ends + `}`,
		},
		"an Event some of whose own count is reported elsewhere": {
			[]func(*store.PendingWrite){withOwnCount(5)},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"-2 of 3"` + ends + `}`,
		},
		"a series that no longer fits": {
			[]func(*store.PendingWrite){series, withTotal(math.MaxInt64), withOwnCount(math.MaxInt64 - 1)},
			`{"metadata":{"annotations":{"eventquota.io/merged":"1 of 2147483647"` + ends + `,"series":{"count":2147483647,"lastObservedTime":"2000-01-01T00:01:30.000000Z"}}`,
		},
		"a time in another zone": {
			[]func(*store.PendingWrite){func(p *store.PendingWrite) { p.LastSeen = p.LastSeen.In(time.FixedZone("CET", 3600)) }},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","metadata":{"annotations":{"eventquota.io/merged":"1 of 3"` + ends + `}`,
		},
		"an aggregate": {
			[]func(*store.PendingWrite){asAggregate("pulled \"b\"", "pulled a")},
			`{"count":3,"lastTimestamp":"2000-01-01T00:01:30Z","message":"` + combined + `pulled \"b\"",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3",` +
				`"eventquota.io/messages":"[{\"message\":\"pulled \\\"b\\\"\",\"count\":1},{\"message\":\"pulled a\",\"count\":2}]"` + ends + `}`,
		},
		"an aggregate of long messages with a series": {
			[]func(*store.PendingWrite){asAggregate(long), series},
			`{"message":"` + combined + strings.Repeat("x", 967) + `... (cut from 1232 bytes)",` +
				`"metadata":{"annotations":{"eventquota.io/merged":"1 of 3","eventquota.io/messages":"[{\"message\":\"` + cut + `\",\"count\":1}]"` + ends + `,` +
				`"series":{"count":3,"lastObservedTime":"2000-01-01T00:01:30.000000Z"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a", tt.changes...)}
				r.run(time.Second, settler.Options{})
				if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes, r.results); got != "[patch default/a] [a written] [written]" {
					r.Fatalf("did %s", got)
				}
				if body := r.requests[0].body; body != tt.want {
					r.Errorf("patch\n%s, want\n%s", body, tt.want)
				}
			})
		})
	}
}

// TestApplyMatchesPatch also to Events that have what is written, or something else.
func TestApplyMatchesPatch(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	last := first.Add(time.Minute + 123456789*time.Nanosecond)
	stored := func(change func(*corev1.Event)) *corev1.Event {
		e := &corev1.Event{Message: "old", Count: 1, FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(first)}
		change(e)
		return e
	}
	for eventSays, e := range map[string]*corev1.Event{
		"an Event":         stored(func(*corev1.Event) {}),
		"one merged into":  stored(func(e *corev1.Event) { e.Annotations = map[string]string{admission.AnnotationMerged: "3/4", "b": "c"} }),
		"one of a new API": stored(func(e *corev1.Event) { e.EventTime, e.Count = metav1.NewMicroTime(first), 0 }),
		"one that has a series": stored(func(e *corev1.Event) {
			e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(first)}
		}),
	} {
		for says, p := range map[string]store.PendingWrite{
			"a count":           {Occurrences: store.Occurrences{Own: 9, Total: 9}, LastSeen: last},
			"a count too high":  {Occurrences: store.Occurrences{Own: 1 << 40, Total: 1 << 40}, LastSeen: last},
			"a series":          {Occurrences: store.Occurrences{Own: 9, Total: 9}, LastSeen: last, Series: true},
			"what was merged":   {Occurrences: store.Occurrences{Own: 5, Total: 9}, LastSeen: last},
			"an aggregate":      {Occurrences: store.Occurrences{Own: 9, Total: 9}, LastSeen: last, Text: "new"},
			"a series combined": {Occurrences: store.Occurrences{Own: 7, Total: 9}, LastSeen: last, Text: "new", Series: true, Messages: []store.Tally{{Name: "new", Count: 2}}},
		} {
			t.Run(eventSays+" is to say "+says, func(t *testing.T) {
				t.Parallel()
				var patched corev1.Event
				merged, err := strategicpatch.StrategicMergePatch(marshaled(t, e), marshaled(t, settler.Patch(&p)), corev1.Event{})
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(merged, &patched); err != nil {
					t.Fatal(err)
				}
				patched.UID, patched.ResourceVersion = "", ""
				applied := e.DeepCopy()
				settler.Apply(&p, "", applied)
				if diff := cmp.Diff(&patched, applied, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); diff != "" {
					t.Errorf("Event (-patched +applied):\n%s", diff)
				}
			})
		}
	}
}

// marshaled is v as JSON.
func marshaled(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
