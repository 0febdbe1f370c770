package admission_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

func version(v string) detail        { return event(func(e *corev1.Event) { e.ResourceVersion = v }) }
func managed(e *corev1.Event)        { e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}} }
func byKubectl(r *admission.Request) { r.Options.FieldManager = "kubectl-label" }
func finalized(e *corev1.Event) {
	e.Finalizers = []string{"example.com/keep"}
}

func TestUpdatesThatAreNotARecordersAreNeverMerged(t *testing.T) {
	t.Parallel()
	// The Event was written just now, so a recorder's UPDATE would be merged.
	for says, change := range map[string]details{
		"a label":                              {labelled("a")},
		"a label and a count":                  {labelled("a"), count(2)},
		"an annotation":                        {annotated("a", "b")},
		"a finalizer":                          {event(finalized)},
		"a message":                            {message("edited")},
		"a message and a count":                {message("edited"), count(2)},
		"a message that now says it is merged": {message(combined + "back-off"), count(2)},
		"a reason":                             {reason("Killing"), count(2)},
		"a type":                               {ofType("Normal"), count(2)},
		"a source":                             {component("edited"), count(2)},
		"an involved object":                   {about("other"), count(2)},
		"nothing, by kubectl":                  {byKubectl},
		"nothing but its own bookkeeping":      {event(managed), version("2")},
	} {
		t.Run("an UPDATE that changes "+says+" is admitted", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			for i, step := range []action{create("a"), update("a", details{}, change), update("a", details{}, change)} {
				if said := step(r); said != "admit" {
					t.Errorf("step %d: %q, want admit", i+1, said)
				}
			}
		})
	}
}

func TestARecordersUpdatesAreMerged(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct{ before, after details }{
		"a count":                        {details{}, details{count(2)}},
		"nothing":                        {details{}, details{}},
		"a time":                         {details{}, details{seen(time.Hour)}},
		"a first time":                   {details{}, details{event(func(e *corev1.Event) { e.FirstTimestamp = metav1.NewTime(epoch().Add(-time.Hour)) })}},
		"a series":                       {details{modern}, details{series(2)}},
		"the time of a series":           {details{series(2)}, details{series(2), event(func(e *corev1.Event) { e.Series.LastObservedTime = metav1.NowMicro() })}},
		"a series under a higher count":  {details{series(2), count(9), throughCore}, details{series(2), count(9), throughCore, event(func(e *corev1.Event) { e.Series.Count = 3 })}},
		"an aggregate's message":         {details{message(combined + "1")}, details{message(combined + "2"), count(2)}},
		"a count, and its bookkeeping":   {details{version("1")}, details{version("2"), event(managed), count(2)}},
		"a count lower than that stored": {details{count(9)}, details{count(2)}},
	} {
		t.Run("an UPDATE that changes "+says+" is merged", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, defaults())
			if said := create("a", tt.before...)(r); said != "admit" {
				t.Errorf("the Event itself: %q, want admit", said)
			}
			if said := update("a", tt.before, tt.after)(r); !strings.HasPrefix(said, "merge ") {
				t.Errorf("%q, want merge", said)
			}
		})
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	one := func(p *applied) { p.SpamFilter.Burst = 1 }
	long := strings.Repeat("x", 3000)
	cut := admission.Truncate(long, 1024)
	runStories(t, []story{
		{says: "one write in a flush interval goes through", steps: []step{
			{0, create("a"), "admit"},
			{9 * time.Second, update("a", details{}, details{count(2)}), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "a write after a flush interval goes through", steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", details{}, details{count(2)}), "admit"},
			{19 * time.Second, update("a", details{count(2)}, details{count(3)}), "merge 409 " + into + "a, 3 occurrences so far"},
		}},
		{says: "a write that the API server tries again is not charged again", policy: func(p *applied) { p.SpamFilter.Burst = 2 }, steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", details{version("1")}, details{version("1"), count(2)}), "admit"},
			{10 * time.Second, update("a", details{version("7")}, details{version("7"), count(2)}), "admit"},
			{10 * time.Second, update("a", details{version("8"), labelled("x")}, details{version("8"), labelled("x"), count(2)}), "admit"},
			{5 * time.Minute, create("b", message("2")), "admit"},
			{5 * time.Minute, create("c", message("3")), `drop 429 TooManyRequests: spam filter of the default policy is empty: next token at 2030-03-01T12:10:00Z, in 5m0s`},
		}},
		{says: "an UPDATE for which there is no token is merged, not dropped", policy: one, steps: []step{
			{0, create("a"), "admit"},
			{time.Minute, update("a", details{}, details{count(2)}), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "an UPDATE that would lower the count is left to the settler", steps: []step{
			{0, update("a", details{count(40), annotated(admission.AnnotationMerged, "30 of 40")},
				details{count(11), annotated(admission.AnnotationMerged, "30 of 40")}), "merge 409 " + into + "a, 41 occurrences so far"},
		}},
		{says: "an UPDATE that brings its own count to just what is stored is counted", steps: []step{
			{0, create("a"), "admit"},
			{time.Second, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{11 * time.Second, update("a", details{count(2), annotated(admission.AnnotationMerged, "1 of 2")},
				details{count(2), annotated(admission.AnnotationMerged, "1 of 2")}), "merge 409 " + into + "a, 3 occurrences so far"},
		}},
		{says: "an UPDATE after a recorder has overwritten the count gives it back what was merged", steps: []step{
			{0, update("a", details{count(11), annotated(admission.AnnotationMerged, "30 of 40")},
				details{count(12), annotated(admission.AnnotationMerged, "30 of 40")}), "merge 409 " + into + "a, 42 occurrences so far"},
		}},
		{says: "an annotation that cannot be true is not believed", steps: []step{
			{0, update("a", details{count(40), annotated(admission.AnnotationMerged, "41 of 40")},
				details{count(41), annotated(admission.AnnotationMerged, "41 of 40")}), "admit"},
			{0, update("b", details{count(40), annotated(admission.AnnotationMerged, "many")},
				details{count(41), annotated(admission.AnnotationMerged, "many")}), "admit"},
		}},
		{says: "a recorder does not undo the cut of its message", steps: []step{
			{0, create("a", message(long)), "admit, /message = " + cut},
			{time.Minute, update("a", details{message(cut)}, details{message(long), count(2)}), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "a recorder does not undo the cut of its aggregate", steps: []step{
			{0, update("a", details{message(admission.Truncate(combined+long, 1024))}, details{message(combined + long), count(2)}), "merge 409 " + into + "a, 2 occurrences so far"},
		}},
		{says: "a recorder whose Event became the aggregate does not undo it", policy: func(p *applied) { p.Merge.Threshold = 2 }, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "aggregate, /message = " + combined + "2"},
			{time.Minute, update("b", details{message(combined + "2")}, details{message("2"), count(2)}), "merge 409 " + into + "b, 2 occurrences so far"},
		}},
		{says: "an aggregate's message that is edited is not a recorder's", steps: []step{
			{0, create("a", message(combined+"1")), "admit"},
			{0, update("a", details{message(combined + "1")}, details{message(combined + "edited")}), "admit"},
			{0, update("a", details{message(combined + "1")}, details{message("edited")}), "admit"},
		}},
		{says: "an Event that was stored long goes on as it is", steps: []step{
			{0, update("a", details{message(long)}, details{message(long), count(2)}), "admit"},
		}},
	})
}

// TestAStoredEventIsKnownAgain has one write pending after some steps, and holds which stored Events it is for.
func TestAStoredEventIsKnownAgain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3000)
	two := func(p *applied) { p.Merge.Threshold = 2 }
	for says, tt := range map[string]struct {
		policy        func(*applied)
		steps         []action
		is, otherwise []details
	}{
		"one that was admitted": {
			steps: []action{create("a"), create("b")},
			is:    []details{{}, {count(7)}, {labelled("x")}, {user("other")}, {event(managed), version("7")}},
			otherwise: []details{
				{message("2")}, {reason("Killing")}, {ofType("Normal")}, {component("other")}, {about("other")}, {in("other")},
				{event(func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec" })}, {message(combined + "back-off")},
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
		"one of which only an UPDATE is known": {
			steps:     []action{create("a"), update("a", details{}, details{count(2)})},
			is:        []details{{}, {count(2)}},
			otherwise: []details{{message("2")}},
		},
		"one that was stored long before, of which only an UPDATE is known": {
			steps: []action{
				update("a", details{message(long)}, details{message(long), count(2)}),
				update("a", details{message(long), count(2)}, details{message(long), count(3)}),
			},
			is: []details{{message(long)}}, otherwise: []details{{message("2")}, {message(admission.Truncate(long, 1024))}},
		},
		"one that was stored long before, of which an UPDATE of a label is known first": {
			steps: []action{
				update("a", details{message(long)}, details{message(long), labelled("x")}),
				update("a", details{message(long), labelled("x")}, details{message(long), labelled("x"), count(2)}),
				update("a", details{message(long), labelled("x"), count(2)}, details{message(long), labelled("x"), count(3)}),
			},
			is: []details{{message(long)}}, otherwise: []details{{message(admission.Truncate(long, 1024))}},
		},
		"one whose recorder would undo the cut": {
			steps: []action{update("a", details{message(admission.Truncate(long, 1024))}, details{message(long), count(2)})},
			is:    []details{{message(admission.Truncate(long, 1024))}}, otherwise: []details{{message(long)}},
		},
		"an aggregate, whatever its message is now": {
			policy: two,
			steps:  []action{create("a", message("1")), create("b", message("2")), create("c", message("3"))},
			is:     []details{{message(combined + "2")}, {message(combined + "3")}, {message("2")}}, otherwise: []details{{reason("Killing")}, {component("other")}},
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
			p := defaults()
			if tt.policy != nil {
				tt.policy(p)
			}
			r := newRig(t, p)
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
					if got := admission.Matches(&all[0], e); got != want {
						t.Errorf("Event %d, with message %.40q: matches %t, want %t", i, e.Message, got, want)
					}
				}
			}
			e := newRequest(r.now, "a", details{reason("Killing")}).Object
			if all[0].Key = (store.Key{}); !admission.Matches(&all[0], e) {
				t.Error("without a key, one about the same source and object does not match")
			}
			e.InvolvedObject.UID = "other"
			if admission.Matches(&all[0], e) {
				t.Error("without a key, one about another object matches")
			}
		})
	}
}

func TestWhatAStoredEventSaysOfItsCount(t *testing.T) {
	t.Parallel()
	for note, want := range map[string]store.Stored{
		"":                             {Count: 40},
		"30 of 40":                     {Count: 40, Merged: 30},
		admission.MergedNote(1, 7, ""): {Count: 40, Merged: 1, Overwritten: true},
		"30 of 40 by b":                {Count: 40, Merged: 30, Foreign: true},
		"-2 of 40":                     {Count: 40, Merged: -2},
		"0 of 40":                      {Count: 40},
		"41 of 40":                     {Count: 40},
		"1 of 2147483648":              {Count: 40},
		"-2147483648 of 40":            {Count: 40},
		"many":                         {Count: 40},
		"1 of":                         {Count: 40},
	} {
		e := newRequest(epoch(), "a", details{count(40), annotated(admission.AnnotationMerged, note)}).Object
		if got := admission.StoredOf(e, ""); got != want {
			t.Errorf("%q: %+v, want %+v", note, got, want)
		}
	}
	e := newRequest(epoch(), "a", details{count(7), annotated(admission.AnnotationMerged, admission.MergedNote(1, 7, "a"))}).Object
	for id, foreign := range map[string]bool{"a": false, "b": true, "": true} {
		if got := admission.StoredOf(e, id); got.Merged != 1 || got.Foreign != foreign {
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
		if got := admission.StoredOf(newRequest(epoch(), "a", tt.changes).Object, "").Count; got != tt.want {
			t.Errorf("%s: %d, want %d", says, got, tt.want)
		}
	}
}

// TestAnUpdateStartsAGroupOfItsUsers: who writes an Event that another user's group knows
// goes on from what it says, and changes nothing of that group.
func TestAnUpdateStartsAGroupOfItsUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	before := details{count(2), annotated(admission.AnnotationMerged, "1 of 2")}
	after := details{user("other"), count(3), annotated(admission.AnnotationMerged, "1 of 2")}
	for i, step := range []step{
		{0, create("a"), "admit"},
		{time.Second, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
		{2 * time.Second, update("a", before, after), "merge 409 " + into + "a, 4 occurrences so far"},
		{3 * time.Second, create("c"), "merge 409 " + into + "a, 3 occurrences so far"},
	} {
		r.now = epoch().Add(step.at)
		if got := step.do(r); got != step.want {
			t.Errorf("step %d: %q, want %q", i+1, got, step.want)
		}
	}
}
