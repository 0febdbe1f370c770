package settler_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// createdAgo makes an Event one that was created some time before now.
func createdAgo(ago time.Duration) func(*corev1.Event) {
	return func(e *corev1.Event) { e.CreationTimestamp = metav1.NewTime(time.Now().Add(-ago)) }
}

func aboutObject(pod string) func(*corev1.Event) {
	return func(e *corev1.Event) { e.InvolvedObject.Name, e.InvolvedObject.UID = pod, types.UID(pod) }
}

func withMergedNote(note string) func(*corev1.Event) {
	return func(e *corev1.Event) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMerged, note)
	}
}

func partial(p *store.PendingWrite) { p.Partial, p.Own, p.Total = true, 0, 4 }

func withCreateID(id string) func(*corev1.Event) {
	return func(e *corev1.Event) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationCreateID, id) }
}

func forCreateID(id uint64) func(*store.PendingWrite) {
	return func(p *store.PendingWrite) { p.CreateID = id }
}

// TestEventIsReadBeforeFirstWrite holds which Event is taken for the one that was admitted two
// occurrences ago, and into which one was merged since, and what is adopted from it.
func TestEventIsReadBeforeFirstWrite(t *testing.T) {
	t.Parallel()
	const written = "[get default/a patch default/a] [a written]"
	const taken = "[get default/a] [a name_taken]"
	const read = "[get default/a] [a read]" // what it says comes to the store before anything is written
	tests := map[string]struct {
		stored  []func(*corev1.Event)
		changes []func(*store.PendingWrite)
		want    string
		says    string // count and note
	}{
		"the one that was admitted":                  {nil, nil, written, "3 1 of 3"},
		"one about another object":                   {[]func(*corev1.Event){aboutObject("b")}, nil, taken, "2 "},
		"one of another source":                      {[]func(*corev1.Event){func(e *corev1.Event) { e.Source.Host = "node-2" }}, nil, taken, "2 "},
		"one with another message":                   {[]func(*corev1.Event){func(e *corev1.Event) { e.Message = "x" }}, nil, taken, "2 "},
		"one that was created by an earlier clock":   {[]func(*corev1.Event){createdAgo(time.Hour)}, nil, written, "3 1 of 3"},
		"one of a uid that is known":                 {nil, []func(*store.PendingWrite){func(p *store.PendingWrite) { p.UID = "uid-1" }}, written, "3 1 of 3"},
		"one of another uid than is known":           {nil, []func(*store.PendingWrite){func(p *store.PendingWrite) { p.UID = "uid-2" }}, taken, "2 "},
		"the one of its CREATE":                      {[]func(*corev1.Event){withCreateID("00000000000000ff")}, []func(*store.PendingWrite){forCreateID(0xff)}, written, "3 1 of 3"},
		"one of another CREATE":                      {[]func(*corev1.Event){withCreateID("00000000000000fe")}, []func(*store.PendingWrite){forCreateID(0xff)}, taken, "2 "},
		"one whose CREATE noted nothing":             {nil, []func(*store.PendingWrite){forCreateID(0xff)}, taken, "2 "},
		"one of a CREATE where that noted nothing":   {[]func(*corev1.Event){withCreateID("0000000000000000")}, nil, taken, "2 "},
		"one that says it already":                   {[]func(*corev1.Event){counts(3), withMergedNote("1 of 3")}, nil, written, "3 1 of 3"},
		"one that says it without how":               {[]func(*corev1.Event){counts(3)}, []func(*store.PendingWrite){withOwnCount(1)}, written, "5 2 of 5"},
		"one that counted on":                        {[]func(*corev1.Event){counts(5)}, nil, written, "6 1 of 6"},
		"one into which another store merged":        {[]func(*corev1.Event){counts(9), withMergedNote("7 of 9 by b")}, nil, written, "10 8 of 10"},
		"one into which another merged more":         {[]func(*corev1.Event){counts(9), withMergedNote("7 of 9")}, nil, written, "9 7 of 9"},
		"one whose recorder overwrote the count":     {[]func(*corev1.Event){counts(4), withMergedNote("7 of 9")}, nil, written, "11 7 of 11"},
		"one of which all was lost but what is new":  {[]func(*corev1.Event){counts(7), withMergedNote("5 of 7")}, []func(*store.PendingWrite){partial}, read, "7 5 of 7"},
		"one of which all was lost, without a merge": {nil, []func(*store.PendingWrite){partial}, read, "2 "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a", append([]func(*store.PendingWrite){notReadYet}, tt.changes...)...)}
				e := event("default", "a", append([]func(*corev1.Event){counts(2)}, tt.stored...)...)
				e.UID = "uid-1"
				r.put(e)
				before := r.get("default", "a")
				r.run(time.Second, settler.Options{})
				if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes); got != tt.want {
					r.Errorf("did %s, want %s", got, tt.want)
				}
				after := r.get("default", "a")
				if got := fmt.Sprint(after.Count, " ", after.Annotations[admission.AnnotationMerged]); got != tt.says {
					r.Errorf("the Event says %q, want %q", got, tt.says)
				}
				if diff := cmp.Diff(before, after); tt.want != written && diff != "" {
					r.Errorf("another's Event has changed (-before +after):\n%s", diff)
				}
			})
		})
	}
}

func TestMissingEventIsNotFound(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a": "[get default/a] [a not_found]", "": "[] [ not_found]"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.queue.writes = []store.PendingWrite{r.pending("a", notReadYet, func(p *store.PendingWrite) { p.Name = name })}
			r.remove("default", "a")
			r.run(time.Second, settler.Options{})
			if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes); got != want {
				r.Errorf("did %s, want %s", got, want)
			}
		})
	}
}

// Other clients change an Event that was read before.
func TestChangedEventIsReadAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		changes func(*fakeAPIServer)
		want    string
		count   int32
	}{
		"its recorder counts on": {
			func(s *fakeAPIServer) { s.put(event("default", "a", counts(7), uid("uid-1"))) },
			"[patch default/a get default/a patch default/a] [a written]", 8,
		},
		"it was deleted and created again": { // by anyone: a CREATE that was decided has changed the record
			func(s *fakeAPIServer) { s.put(event("default", "a", counts(1), uid("uid-2"))) },
			"[patch default/a get default/a] [a name_taken]", 1,
		},
		"it was deleted, and another has its name": {
			func(s *fakeAPIServer) { s.put(event("default", "a", counts(1), uid("uid-2"), aboutObject("b"))) },
			"[patch default/a get default/a] [a name_taken]", 1,
		},
		"its message was changed": {
			func(s *fakeAPIServer) {
				s.put(event("default", "a", counts(2), uid("uid-1"), func(e *corev1.Event) { e.Message = "x" }))
			},
			"[patch default/a get default/a patch default/a] [a written]", 3,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a")}
				tt.changes(r.fakeAPIServer)
				r.run(time.Second, settler.Options{})
				if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes); got != tt.want {
					r.Errorf("did %s, want %s", got, tt.want)
				}
				if count := r.get("default", "a").Count; count != tt.count || len(r.loweringPatches) > 0 {
					r.Errorf("count %d, want %d; lowered by %v", count, tt.count, r.loweringPatches)
				}
			})
		})
	}
}

func uid(uid string) func(*corev1.Event) {
	return func(e *corev1.Event) { e.UID = types.UID(uid) }
}

// The Event's recorder counts on before each patch, and then ends.
func TestConstantlyChangingEventIsReturned(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a", notReadYet)}
		patches := 0
		r.answer = func(q *request) error {
			if q.verb() == "patch" && patches < 6 {
				patches++
				e := r.get("default", "a")
				e.Count++
				r.put(e)
			}
			return nil
		}
		r.run(time.Hour, settler.Options{})
		if got := fmt.Sprint(r.queue.outcomes, r.results); got != "[a failed a written] [failed written]" {
			r.Errorf("%s, want a given back and then written", got)
		}
		if count := r.get("default", "a").Count; count != 9 || len(r.loweringPatches) > 0 {
			r.Errorf("count %d, want 9: 8 of its own and one merged; lowered by %v", count, r.loweringPatches)
		}
		gets := slices.DeleteFunc(r.requestTexts(), func(s string) bool { return s != "get default/a" })
		if len(gets) != 7 {
			r.Errorf("read %d times, want 4 times and then 3 times", len(gets))
		}
	})
}
