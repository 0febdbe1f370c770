package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// decidedLine returns an audit log line with the decision times of the webhook.
func decidedLine(l map[string]any, mutated, validated string) string {
	annotations := map[string]any{"authorization.k8s.io/decision": "allow"}
	if mutated != "" {
		annotations["mutate.events.eventquota.io/"+admission.AnnotationDecided] = mutated
	}
	if validated != "" {
		annotations["validate.events.eventquota.io/"+admission.AnnotationDecided] = validated
	}
	l["annotations"] = annotations
	return text(l)
}

// micros returns the time n microseconds after noon.
func micros(n int64) string { return fmt.Sprint(noon().UnixMicro() + n) }

func TestWritesAreOrderedByDecisionTime(t *testing.T) {
	burst := func(n int) func(*policy.Policy) {
		return func(p *policy.Policy) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = n, 0 }
	}
	creates := func(name, message string, at int) map[string]any {
		return request("create", name, 201, sec(at), event(name, message, sec(at)))
	}
	for says, test := range map[string]struct {
		log    string
		change func(*policy.Policy)
		want   []string
	}{
		"by annotations, not by when the API server received it": {
			log:  decidedLine(creates("a", "one", 0), micros(900), "") + decidedLine(creates("b", "one", 1), micros(800), ""),
			want: []string{"create b: admit", "create a: merge"},
		},
		"by what a moment has after its time": {
			log:  decidedLine(creates("a", "one", 0), micros(0)+"+2", "") + decidedLine(creates("b", "one", 1), micros(1), ""),
			want: []string{"create b: admit", "create a: merge"},
		},
		"in the validating phase where the webhook is installed for that only": {
			log:    decidedLine(creates("a", "one", 0), "", micros(500)) + decidedLine(creates("b", "two", 1), "", micros(200)),
			change: burst(1),
			want:   []string{"create b: admit", "create a: drop"},
		},
		"of updates too": {
			log: decidedLine(creates("a", "one", 0), micros(0), "") +
				decidedLine(request("patch", "a", 200, sec(20), countPatch(2, sec(20))), "", micros(70e6)) +
				decidedLine(request("patch", "a", 200, sec(21), countPatch(3, sec(21))), "", micros(21e6)),
			want: []string{"create a: admit", "patch a: admit", "patch a: admit"},
		},
		"by when they were received, where annotations are none": {
			log:  decidedLine(creates("a", "one", 0), "soon", "later") + decidedLine(creates("b", "one", 1), "-1", ""),
			want: []string{"create a: admit", "create b: merge"},
		},
	} {
		t.Run(says, func(t *testing.T) {
			_, got := runTrace(t, readAll(t, test.log), defaults(test.change))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBucketUsesRecordedStoreTime has one request overtake another after reading the clock, before it locks the store.
func TestBucketUsesRecordedStoreTime(t *testing.T) {
	oneASecond := defaults(func(p *policy.Policy) {
		p.SpamFilter.Burst, p.SpamFilter.Tokens, p.SpamFilter.Interval, p.SpamFilter.ReservePerReason = 1, 1, time.Second, 0
	})
	lines := decidedLine(request("create", "a", 201, sec(0), event("a", "one", sec(0))), micros(0), "") +
		// c takes the token that is there after a second. The clock of b says 700ms.
		decidedLine(request("create", "c", 201, sec(1), event("c", "three", sec(1))), micros(1e6+5), "") +
		decidedLine(badRequest("create", "b", admission.ReasonDropped, sec(1), event("b", "two", sec(1))), micros(700_000)+"+300006", "")
	_, got := runTrace(t, readAll(t, lines), oneASecond)
	if want := []string{"create a: admit", "create c: admit", "create b: drop"}; !slices.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
	var messages []string
	oneASecond.Decided = func(d Decision) { messages = append(messages, d.Message) }
	trace := readAll(t, strings.ReplaceAll(lines, `"name":"c"`, `"name":"d"`))
	if _, err := trace.Run(t.Context(), oneASecond); err != nil {
		t.Fatal(err)
	}
	if want := "in 1.3s"; !strings.HasSuffix(messages[2], want) {
		t.Errorf("b gets %q, want that the next token comes %s", messages[2], want)
	}
}

// TestDeletionDoesNotReachLaterEvents has the deletion of all Events before a create whose clock is behind, and one in the same microsecond.
func TestDeletionDoesNotReachLaterEvents(t *testing.T) {
	emptied := request("deletecollection", "", 200, sec(0).Add(900*time.Millisecond), nil)
	same := request("create", "b", 201, sec(0).Add(900*time.Millisecond), event("b", "two", sec(0)))
	lines := text(emptied) + text(same) +
		decidedLine(request("create", "a", 201, sec(1), event("a", "one", sec(1))), micros(700_000)+"+300006", "") +
		text(request("create", "a", 409, sec(2), event("a", "other", sec(2)))) + text(request("create", "b", 409, sec(3), event("b", "other", sec(3))))
	_, got := runTrace(t, readAll(t, lines), defaults(nil))
	if want := []string{"create b: admit", "create a: admit", "create a: failed", "create b: failed"}; !slices.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
}

// TestDeletionsAreNoWrites reads a recording whose writes have no bodies.
func TestDeletionsAreNoWrites(t *testing.T) {
	lines := text(request("create", "a", 201, sec(5), nil)) + text(request("deletecollection", "", 200, sec(0), nil)) + text(request("delete", "a", 200, sec(9), nil))
	in := readAll(t, lines).Input
	if in.Most != 0 || in.Fewest != 0 || !in.First.IsZero() || !in.Last.IsZero() || len(in.Unknown) != 1 {
		t.Errorf("read as %+v, want no write, and one without a body", in)
	}
}

func TestEmptiedNamespacesAreForgotten(t *testing.T) {
	a := newAPIServer(nil, time.Minute)
	for i := range 100_000 {
		a.removeAll(sec(i), fmt.Sprint("n", i))
	}
	if n := len(a.emptied); n > 2*minPruned {
		t.Errorf("%d emptied namespaces are kept, want at most %d", n, 2*minPruned)
	}
}
