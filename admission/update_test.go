package admission_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

func withResourceVersion(v string) detail {
	return changeEvent(func(e *corev1.Event) { e.ResourceVersion = v })
}
func withManagedFields(e *corev1.Event) {
	e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
}
func viaKubectl(r *admission.Request) { r.Options.FieldManager = "kubectl-label" }

// TestRecorderUpdatesAreRecognized has an Event written just now, so that a recorder's UPDATE is merged and any other is admitted.
func TestRecorderUpdatesAreRecognized(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	cut := admission.Truncate(long, 1024)
	for says, tt := range map[string]struct {
		before, after details
		recorders     bool
	}{
		"a count":                        {nil, details{count(2)}, true},
		"nothing":                        {nil, nil, true},
		"a time":                         {nil, details{lastSeen(time.Hour)}, true},
		"a first time":                   {nil, details{changeEvent(func(e *corev1.Event) { e.FirstTimestamp = metav1.NewTime(epoch().Add(-time.Hour)) })}, true},
		"a series":                       {details{viaEventsRecorder}, details{series(2)}, true},
		"the time of a series":           {details{series(2)}, details{series(2), changeEvent(func(e *corev1.Event) { e.Series.LastObservedTime = metav1.NowMicro() })}, true},
		"a series under a higher count":  {details{series(2), count(9), viaCoreAPI}, details{series(2), count(9), viaCoreAPI, changeEvent(func(e *corev1.Event) { e.Series.Count = 3 })}, true},
		"an aggregate's message":         {details{message(combined + "1")}, details{message(combined + "2"), count(2)}, true},
		"that and no count":              {details{message(combined + "1")}, details{message(combined + "2")}, true},
		"an aggregate's prefix":          {details{message(combined + "1")}, details{message("1")}, true},
		"a count, and its bookkeeping":   {details{withResourceVersion("1")}, details{withResourceVersion("2"), changeEvent(withManagedFields), count(2)}, true},
		"a count lower than that stored": {details{count(9)}, details{count(2)}, true},

		"a label":                              {nil, details{withLabel("a")}, false},
		"a label and a count":                  {nil, details{withLabel("a"), count(2)}, false},
		"an annotation":                        {nil, details{withAnnotation("a", "b")}, false},
		"a finalizer":                          {nil, details{changeEvent(func(e *corev1.Event) { e.Finalizers = []string{"example.com/keep"} })}, false},
		"a message":                            {nil, details{message("edited")}, false},
		"a message and a count":                {nil, details{message("edited"), count(2)}, false},
		"a message that now says it is merged": {nil, details{message(combined + "back-off"), count(2)}, false},
		"an aggregate's prefix, by kubectl":    {details{message(combined + "1")}, details{message("1"), viaKubectl}, false},
		"a reason":                             {nil, details{reason("Killing"), count(2)}, false},
		"a type":                               {nil, details{ofType("Normal"), count(2)}, false},
		"a source":                             {nil, details{component("edited"), count(2)}, false},
		"an involved object":                   {nil, details{aboutPod("other"), count(2)}, false},
		"nothing, by kubectl":                  {nil, details{viaKubectl}, false},
		"nothing but its own bookkeeping":      {nil, details{changeEvent(withManagedFields), withResourceVersion("2")}, false},
	} {
		t.Run("one that changes "+says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			create("a", tt.before...)(r)
			for range 2 { // the same content is free the second time
				said := update("a", tt.before, tt.after)(r)
				if strings.HasPrefix(said, "merge ") != tt.recorders || !tt.recorders && said != "admit" {
					t.Errorf("%q, a recorder's: %t", said, tt.recorders)
				}
			}
		})
	}
	const merged = "merge 409 " + mergedConflict + "a, 2 occurrences so far"
	note := withAnnotation(admission.AnnotationMerged, "30 of 40")
	runScenarios(t, []scenario{
		{name: "a repeat after a write interval is counted by its recorder, and again after a write conflict", steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", details{withResourceVersion("1")}, details{withResourceVersion("1"), count(2)}), "admit"},
			{10 * time.Second, update("a", details{withResourceVersion("7"), withLabel("x")}, details{withResourceVersion("7"), withLabel("x"), count(2)}), "admit"},
			{19 * time.Second, update("a", details{count(2)}, details{count(3)}), "merge 409 " + mergedConflict + "a, 3 occurrences so far"},
		}},
		{name: "another write is asked about twice and pays once, by its content and what it replaces", change: onlyLimits(limit(2, 1, time.Minute)), steps: []step{
			{0, update("a", details{withResourceVersion("1")}, details{withResourceVersion("1"), withLabel("x")}), "admit"},
			{0, update("a", details{withResourceVersion("1")}, details{withResourceVersion("1"), withLabel("x")}), "admit"},
			{0, update("a", details{withResourceVersion("2")}, details{withResourceVersion("2"), withLabel("x")}), "admit"},
			{0, update("a", details{withResourceVersion("3")}, details{withResourceVersion("3"), withLabel("x")}), `drop 400 EventDropped: limit "all" of quota is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`},
		}},
		{name: "one that would lower the count is left to the settler, as the annotation says what was merged", steps: []step{
			{0, update("a", details{count(40), note}, details{count(11), note}), "merge 409 " + mergedConflict + "a, 41 occurrences so far"},
		}},
		{name: "a recorder does not undo the cut of its message", steps: []step{
			{time.Minute, update("a", details{message(cut)}, details{message(long), count(2)}), merged},
		}},
		{name: "a recorder does not undo the cut of its aggregate", steps: []step{
			{0, update("a", details{message(admission.Truncate(combined+long, 1024))}, details{message(combined + long), count(2)}), merged},
		}},
		{name: "a recorder whose Event became the aggregate does not undo it", steps: []step{
			{time.Minute, update("a", details{message(combined + "2")}, details{message("2"), count(2)}), merged},
		}},
		{name: "an Event that was stored long goes on as it is", steps: []step{
			{0, update("a", details{message(long)}, details{message(long), count(2)}), "admit"},
		}},
	})
}

// TestMatchesPending has one write pending after some steps, and holds which stored Events it is for.
func TestMatchesPending(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	for says, tt := range map[string]struct {
		threshold     int // 0 for the default
		steps         []action
		is, otherwise []details
	}{
		"one that was admitted": {
			steps: []action{create("a"), create("b")},
			is:    []details{{}, {count(7)}, {withLabel("x")}, {user("other")}, {changeEvent(withManagedFields), withResourceVersion("7")}},
			otherwise: []details{
				{message("2")}, {reason("Killing")}, {ofType("Normal")}, {component("other")}, {aboutPod("other")}, {inNamespace("other")},
				{changeEvent(func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec" })}, {message(combined + "back-off")},
			},
		},
		"one whose message was cut": {
			steps: []action{create("a", message(long)), create("b", message(long))},
			is:    []details{{message(admission.Truncate(long, 1024))}}, otherwise: []details{{message(long)}},
		},
		"one whose message was not cut in the validating phase": {
			steps: []action{validate("a", message(long)), validate("b", message(long))},
			is:    []details{{message(long)}}, otherwise: []details{{message(admission.Truncate(long, 1024))}},
		},
		"one that was stored long before, of which only an UPDATE is known": {
			steps: []action{
				update("a", details{message(long)}, details{message(long), count(2)}),
				update("a", details{message(long), count(2)}, details{message(long), count(3)}),
			},
			is: []details{{message(long)}}, otherwise: []details{{message("2")}, {message(admission.Truncate(long, 1024))}},
		},
		"one whose recorder would undo the cut": {
			steps: []action{update("a", details{message(admission.Truncate(long, 1024))}, details{message(long), count(2)})},
			is:    []details{{message(admission.Truncate(long, 1024))}}, otherwise: []details{{message(long)}},
		},
		"an aggregate, whatever its message is now": {
			threshold: 2,
			steps:     []action{create("a", message("1")), create("b", message("2")), create("c", message("3"))},
			is:        []details{{message(combined + "2")}, {message(combined + "3")}, {message("2")}}, otherwise: []details{{reason("Killing")}, {component("other")}},
		},
		"an aggregate of which only an UPDATE is known": {
			steps: []action{update("a", details{message(combined + "1")}, details{message(combined + "2"), count(2)})},
			is:    []details{{message(combined + "1")}, {message(combined + "3")}}, otherwise: []details{{message("1")}, {reason("Killing"), message(combined + "1")}},
		},
		"an aggregate that a client has made": {
			steps: []action{
				create("a", message(combined+"1")),
				update("a", details{message(combined + "1")}, details{message(combined + "2"), count(2)}),
			},
			is: []details{{message(combined + "1")}, {message(combined + "2")}}, otherwise: []details{{message("2")}},
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, namedPolicy("own", func(p *appliedRules) { p.Merge.Threshold = cmp.Or(tt.threshold, p.Merge.Threshold) }))
			for _, do := range tt.steps {
				do(r)
			}
			all := r.claim()
			if len(all) != 1 {
				t.Fatalf("%d writes are pending, want one", len(all))
			}
			for want, events := range map[bool][]details{true: tt.is, false: tt.otherwise} {
				for i, change := range events {
					e := newRequest(r.now, "a", change).Object
					if got := admission.MatchesPending(&all[0], e); got != want {
						t.Errorf("Event %d, with message %.40q: matches %t, want %t", i, e.Message, got, want)
					}
				}
			}
			e := newRequest(r.now, "a", details{reason("Killing")}).Object
			if all[0].Key = (store.Key{}); !admission.MatchesPending(&all[0], e) {
				t.Error("without a key, one about the same source and object does not match")
			}
			e.InvolvedObject.UID = "other"
			if admission.MatchesPending(&all[0], e) {
				t.Error("without a key, one about another object matches")
			}
		})
	}
}

func TestReadStored(t *testing.T) {
	t.Parallel()
	for note, want := range map[string]store.Stored{
		"":                               {Count: 40},
		"30 of 40":                       {Count: 40, Merged: 30},
		admission.FormatMerged(1, 7, ""): {Count: 40, Merged: 1, Overwritten: true},
		"30 of 40 by b":                  {Count: 40, Merged: 30, ByOtherStore: true},
		"-2 of 40":                       {Count: 40, Merged: -2},
		"0 of 40":                        {Count: 40},
		"41 of 40":                       {Count: 40},
		"1 of 2147483648":                {Count: 40},
		"-2147483648 of 40":              {Count: 40},
		"many":                           {Count: 40},
		"1 of":                           {Count: 40},
	} {
		e := newRequest(epoch(), "a", details{count(40), withAnnotation(admission.AnnotationMerged, note)}).Object
		want.Stamp = epoch().UnixMicro()
		if got := admission.ReadStored(e, ""); got != want {
			t.Errorf("%q: %+v, want %+v", note, got, want)
		}
	}
	e := newRequest(epoch(), "a", details{count(7), withAnnotation(admission.AnnotationMerged, admission.FormatMerged(1, 7, "a"))}).Object
	for id, foreign := range map[string]bool{"a": false, "b": true, "": true} {
		if got := admission.ReadStored(e, id); got.Merged != 1 || got.ByOtherStore != foreign {
			t.Errorf("to store %q it says %+v, want foreign %t", id, got, foreign)
		}
	}
	for says, tt := range map[string]struct {
		changes details
		want    int64
	}{
		"no count":               {details{count(0)}, 1},
		"a count below 0":        {details{count(-3)}, 1},
		"a series":               {details{series(7)}, 7},
		"a series under a count": {details{series(2), count(5)}, 5},
	} {
		if got := admission.ReadStored(newRequest(epoch(), "a", tt.changes).Object, "").Count; got != tt.want {
			t.Errorf("%s: %d, want %d", says, got, tt.want)
		}
	}
}
