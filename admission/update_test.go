package admission_test

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
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

// TestAnUpdateOfManagedFieldsIsReadAsOne has them in the body of a review, of which they are not decoded.
func TestAnUpdateOfManagedFieldsIsReadAsOne(t *testing.T) {
	t.Parallel()
	other := func(e *corev1.Event) { e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}} }
	for says, tt := range map[string]struct {
		before, after details
		allowed       bool
	}{
		"the same":        {details{event(managed)}, details{event(managed)}, false},
		"others":          {details{event(managed)}, details{event(other)}, true},
		"some for none":   {details{}, details{event(managed)}, true},
		"none for some":   {details{event(managed)}, details{}, true},
		"none, as before": {details{}, details{}, false},
	} {
		h := serve(newMemory(t))
		if !answered(t, post(t, h.mutate, reviewOf(t, newRequest(epoch(), "a", nil)), unhurried)).Allowed {
			t.Fatal("the CREATE is refused")
		}
		r := newRequest(epoch(), "a", tt.after)
		r.Operation, r.OldObject = admissionv1.Update, newRequest(epoch(), "a", tt.before).Object
		if got := answered(t, post(t, h.validate, reviewOf(t, r), unhurried)).Allowed; got != tt.allowed {
			t.Errorf("%s: allowed %t, want %t", says, got, tt.allowed)
		}
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
