package settler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/validation"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/memory"
)

const interval = 10 * time.Second

func newMemory(t *testing.T) *memory.Store {
	t.Helper()
	return memory.New(memory.Options{Bytes: memory.DefaultBytes})
}

func shortWriteInterval(p *policy.Policy) { p.Merge.WriteInterval = interval }

// decide lets a store decide the CREATE of an Event, and stores what is admitted.
func (r *rig) decide(m store.Store, e *corev1.Event) store.Verdict {
	r.Helper()
	w, l := captureCreate(r.T, e, shortWriteInterval)
	d, err := m.Decide(r.Context(), time.Now(), w, l)
	if err != nil {
		r.Fatal(err)
	}
	if d.Verdict.Admits() {
		r.put(e)
	}
	return d.Verdict
}

// repeat has the Event of each name happen n times, once a second: the first is stored, and the
// others are merged into it.
func (r *rig) repeat(m *memory.Store, n int, names ...string) {
	r.Helper()
	for i := range n {
		for _, name := range names {
			e := event("default", fmt.Sprint(name, i), aboutObject(name))
			if got, want := r.decide(m, e), map[bool]store.Verdict{true: store.Admit, false: store.Merge}[i == 0]; got != want {
				r.Fatalf("occurrence %d of %s: %v, want %v", i, name, got, want)
			}
		}
		<-time.After(time.Second)
	}
}

func TestEventIsWrittenOncePerInterval(t *testing.T) {
	runInBubble(t, func(r *rig) {
		m := newMemory(r.T)
		wait := r.start(m, 5*time.Minute, settler.Options{})
		r.repeat(m, 120, "a", "b")
		wait()
		for _, name := range []string{"a0", "b0"} {
			var at []time.Duration
			for _, q := range r.requests {
				if q.text == "patch default/"+name {
					at = append(at, q.after)
				}
			}
			for i, after := range at {
				if i > 0 && after-at[i-1] < interval || i > 0 && after-at[i-1] > interval+time.Second {
					r.Errorf("%s is written %v after the last time", name, after-at[i-1])
				}
			}
			if len(at) != 12 {
				r.Errorf("%s is written at %v, want 12 times", name, at)
			}
			if e := r.get("default", name); e.Count != 120 || e.Annotations[admission.AnnotationMerged] != "119 of 120" {
				r.Errorf("%s says %d, %s; want 120, of which 119 are merged", name, e.Count, e.Annotations)
			}
		}
		if gets := slices.DeleteFunc(r.requestTexts(), func(s string) bool { return !strings.HasPrefix(s, "get") }); len(gets) != 2 {
			r.Errorf("%v, want each Event read once", gets)
		}
	})
}

// notices returns the stored notices.
func (r *rig) notices() []*corev1.Event {
	r.fakeAPIServer.mu.Lock()
	defer r.fakeAPIServer.mu.Unlock()
	var all []*corev1.Event
	for _, e := range r.events {
		if settler.IsNotice(e) {
			all = append(all, e)
		}
	}
	return all
}

// TestDrainReportsEventsThatWereNeverStored holds that a notice takes over at once what
// would else wait for another Event.
func TestDrainReportsEventsThatWereNeverStored(t *testing.T) {
	runInBubble(t, func(r *rig) {
		m := newMemory(r.T)
		wait := r.start(m, 6*time.Second, settler.Options{})
		r.repeat(m, 4, "a")
		r.remove("default", "a0")
		wait()
		if all := r.notices(); len(all) != 1 || all[0].Count != 3 || !strings.HasPrefix(all[0].Message, "3 could not be merged: Pulled; ") {
			r.Errorf("notices %v, want one of the 3 that were merged", all)
		}
	})
}

// TestFailingWritesDoNotBlockOthers has more Events than may be claimed of a namespace, with names such that no
// request about them leaves the client.
func TestFailingWritesDoNotBlockOthers(t *testing.T) {
	runInBubble(t, func(r *rig) {
		m := newMemory(r.T)
		const failing = 300
		for i := range failing {
			e := event("default", fmt.Sprint("a/b", i), aboutObject(fmt.Sprint("p", i)))
			r.decide(m, e)
			e.Name += "again"
			r.decide(m, e)
		}
		wait := r.start(m, 3*time.Hour, settler.Options{})
		r.repeat(m, 30, "good")
		if count := r.get("default", "good0").Count; count < 10 {
			r.Errorf("after 30 s good says %d, want at least 10", count)
		}
		wait()
		if count := r.get("default", "good0").Count; count != 30 {
			r.Errorf("good says %d, want 30", count)
		}
		lost := int64(0)
		for _, n := range r.lost {
			lost += n
		}
		if lost != failing || len(r.logged) != failing {
			r.Errorf("%d occurrences lost and %d lines logged, want %d each", lost, len(r.logged), failing)
		}
		for _, says := range r.requestTexts() {
			if strings.Contains(says, "a/b") {
				r.Fatalf("%s: the name is not one that leaves the client", says)
			}
		}
	})
}

// TestDropStormDoesNotDelayOtherNamespaces has the notices of 4,000 objects be due when a count
// of another namespace falls due. It goes out before the most of them.
func TestDropStormDoesNotDelayOtherNamespaces(t *testing.T) {
	runInBubble(t, func(r *rig) {
		m := newMemory(r.T)
		for i := range 4000 { // at most 100 are written each second
			pod := store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "storm", Name: fmt.Sprint("p", i)}
			w := store.Write{
				GroupKey: store.KeyOf(pod.Name), ExactKey: store.KeyOf("e", pod.Name), SimilarKey: store.KeyOf("s", pod.Name),
				Namespace: "storm", Name: fmt.Sprint("e", i), Count: 1, Reason: "Killing", InvolvedObject: pod, Source: store.Source{Component: "kubelet"},
			}
			l := store.Limits{
				Merge: true, SimilarThreshold: 10, Window: time.Hour, IdenticalWindow: time.Hour, WriteInterval: interval,
				SpamFilter: store.Bucket{Key: store.KeyOf("b", pod.Name), Limit: store.Limit{Every: time.Hour}, Name: "spam filter", NoticeObject: pod},
			}
			if d, err := m.Decide(r.Context(), time.Now(), w, l); err != nil || d.Verdict != store.Drop {
				r.Fatalf("%v %v, want a drop", d.Verdict, err)
			}
		}
		abandon := make(chan struct{})
		ended := r.start(&ignorePending{m}, time.Hour, settler.Options{Abandon: abandon})
		<-time.After(interval + time.Second)
		before := len(r.requestTexts())
		r.repeat(m, 2, "quiet")
		<-time.After(interval)
		close(abandon)
		ended()
		did := r.requestTexts()[before:]
		n := slices.Index(did, "patch default/quiet0")
		due := slices.IndexFunc(r.requests[before:], func(q *request) bool { return q.after >= interval+time.Second+interval })
		// Until the next claim there are 25 requests; then half of what may be claimed comes first, and 8 are under way.
		if n < 0 || n-due > 25+64+8 {
			r.Errorf("the count is written by request %d since it fell due, of %d", n-due, len(did)-due)
		}
	})
}

// ignorePending is a store of which it does not matter what is left.
type ignorePending struct{ store.Queue }

func (ignorePending) Pending(ctx context.Context) (int64, error) { return 0, ctx.Err() }

// TestNoticeAboutNodeIsInDefault has Events in kube-system about an object of the cluster
// be dropped: the notice about it is in default.
func TestNoticeAboutNodeIsInDefault(t *testing.T) {
	runInBubble(t, func(r *rig) {
		m := newMemory(r.T)
		wait := r.start(m, time.Minute, settler.Options{})
		dropped := int32(0)
		for i := range 60 {
			e := event("kube-system", fmt.Sprint("e", i), func(e *corev1.Event) {
				e.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-uid"}
				e.EventTime, e.Count = metav1.NewMicroTime(time.Now()), 0
				e.FirstTimestamp, e.LastTimestamp, e.Source = metav1.Time{}, metav1.Time{}, corev1.EventSource{}
				e.ReportingController, e.ReportingInstance, e.Action = "example.com/node", "x", "Check"
				e.Reason = fmt.Sprint("R", i)
			})
			if validation.Rejects(e, "kube-system", false) {
				r.Fatal("the Event is invalid")
			}
			if r.decide(m, e) == store.Drop {
				dropped++
			}
		}
		wait()
		all := r.notices()
		if dropped == 0 || len(all) != 1 || all[0].Namespace != "default" || all[0].Count != dropped || len(r.lost) > 0 {
			r.Fatalf("%d dropped, %v lost, notices %v; want one in default that says so", dropped, r.lost, all)
		}
		if o := all[0].InvolvedObject; o.Kind != "Node" || o.Namespace != "" || o.UID != "node-uid" {
			r.Errorf("the notice is about %v", o)
		}
	})
}

// TestLostResponseIsCountedOnce has a store know of merges into an Event that says itself how many
// came before, of which it does not know. The answer to its first write is lost.
func TestLostResponseIsCountedOnce(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		note, by string
		merge    func(*testing.T, storeAndQueue, store.Write, store.Limits) storeAndQueue
	}{
		"as its register was lost": {note: "5 of 7", merge: func(t *testing.T, m storeAndQueue, w store.Write, l store.Limits) storeAndQueue {
			t.Helper()
			known, ok := m.(*singleRegister)
			if !ok {
				known = &singleRegister{key: w.GroupKey, steps: store.NewStepIDs()}
			}
			op := engine.DeferredDecision{Write: w, Limits: &l, Decision: store.Decision{Verdict: store.Merge, MergedInto: "a0", Occurrences: 1}, DecidedAt: time.Now()}
			known.group.Apply(time.Now(), known.steps.Next(), &op)
			return known
		}},
		"as another store has merged them": {note: "5 of 7 by b", by: "a", merge: func(t *testing.T, m storeAndQueue, w store.Write, l store.Limits) storeAndQueue {
			t.Helper()
			known := w
			known.Name, known.Count = "a0", 2
			known.Update = &store.Update{ByRecorder: true, Stored: store.Stored{Count: 2}}
			for _, write := range []store.Write{known, w} {
				if _, err := m.Decide(t.Context(), time.Now(), write, l); err != nil {
					t.Fatal(err)
				}
			}
			return m
		}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkLostResponse(t, tt.note, tt.by, tt.merge) })
		})
	}
}

// storeAndQueue is implemented by both stores.
type storeAndQueue interface {
	store.Store
	store.Queue
}

// singleRegister is a store of one register, which was lost and has reports.
type singleRegister struct {
	mu    sync.Mutex
	key   store.Key
	group engine.Group
	steps *store.StepIDs
}

func (r *singleRegister) Decide(_ context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, _ := r.group.Decide(now, r.steps.Next(), w, &l, nil)
	return d, nil
}

func (r *singleRegister) Claim(_ context.Context, now time.Time, ahead time.Duration, _ int, claimed func(string, store.Key) bool) ([]store.PendingWrite, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if claimed(r.group.Turn(), r.key) {
		return nil, nil
	}
	return r.group.Claim(r.key, engine.DueBy(now, ahead)), nil
}

func (r *singleRegister) Complete(_ context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.group.Complete(now, r.steps.Next(), &p, o)
	return nil
}

func (r *singleRegister) Pending(context.Context) (int64, error) { return 0, nil }

func checkLostResponse(t *testing.T, note, by string, merge func(*testing.T, storeAndQueue, store.Write, store.Limits) storeAndQueue) {
	t.Helper()
	r := newRig(t)
	var m storeAndQueue = newMemory(t)
	r.put(event("default", "a0", aboutObject("a"), counts(7), withMergedNote(note)))
	for i := range 4 {
		w, l := captureCreate(t, event("default", fmt.Sprint("again", i), aboutObject("a")), shortWriteInterval)
		m = merge(t, m, w, l)
	}
	lost := false
	r.answer = func(q *request) error {
		if q.verb() == "patch" && !lost {
			lost = true
			return errLost
		}
		return nil
	}
	wait := r.start(m, 2*time.Minute, settler.Options{StoreID: by})
	<-time.After(time.Minute)
	if e := r.get("default", "a0"); e.Count != 11 || e.Annotations[admission.AnnotationMerged] != admission.FormatMerged(9, 11, by) {
		t.Errorf("it says %d, %v; want 11, of which 9 are merged", e.Count, e.Annotations)
	}
	if got := r.decide(m, event("default", "once-more", aboutObject("a"))); got != store.Merge {
		t.Fatalf("%v, want it merged", got)
	}
	wait()
	if e := r.get("default", "a0"); e.Count != 12 || !lost {
		t.Errorf("it says %d, want 12", e.Count)
	}
}
