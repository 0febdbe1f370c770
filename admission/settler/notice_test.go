package settler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// newNotice is a write of a notice about Pod web that was not created yet.
func newNotice(changes ...func(*store.PendingWrite)) store.PendingWrite {
	p := store.PendingWrite{
		Ref:       store.Ref{Group: store.KeyOf("n"), ID: 1},
		Namespace: "default", Name: "n",
		Occurrences: store.Occurrences{Own: 12, Total: 12}, LastSeen: epoch().Add(90 * time.Second),
		Notice: &store.Notice{
			InvolvedObject: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"},
			Bucket:         "spam filter", Policy: "team-a",
			First:   epoch(),
			Reasons: []store.Tally{{Name: "Pulled", Count: 3}, {Name: "", Count: 1}, {Name: "BackOff", Count: 8}},
			Sources: []store.Tally{{Name: "kubelet", Count: 12}},
			Objects: []string{"default/Pod/web"}, ObjectCount: store.Cardinality{N: 1}, AllPods: true,
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

const noticeText = `12 dropped: BackOff, Pulled and others; from kubelet; by spam filter of team-a since 2000-01-01T00:00:00Z`

const noticeNote = `{"total":12,"since":"2000-01-01T00:00:00Z","by":"spam filter of team-a",` +
	`"reasons":{"":1,"BackOff":8,"Pulled":3},"sources":{"kubelet":12},"objects":["default/Pod/web"],"involved":1}`

func TestNoticeEvent(t *testing.T) {
	t.Parallel()
	for eventType, warnings := range map[string]bool{"Normal": false, "Warning": true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.queue.writes = []store.PendingWrite{newNotice(func(p *store.PendingWrite) { p.Notice.Warnings = warnings })}
			r.run(time.Second, settler.Options{})
			want := &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "n", Annotations: map[string]string{settler.AnnotationDropped: noticeNote},
				},
				InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"},
				Reason:         "EventsDropped", Type: eventType, Message: noticeText,
				Source: corev1.EventSource{Component: "eventquota"}, ReportingController: "eventquota",
				Count: 12, FirstTimestamp: metav1.NewTime(epoch()), LastTimestamp: metav1.NewTime(epoch().Add(90 * time.Second)),
			}
			if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes); got != "[create default/n] [n written]" {
				t.Fatalf("did %s", got)
			}
			created := r.requests[0].event
			created.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(want, created); diff != "" {
				t.Errorf("notice (-want +got):\n%s", diff)
			}
			if !settler.IsNotice(created) {
				t.Error("IsNotice is false")
			}
		})
	}
}

func TestNoticeWrites(t *testing.T) {
	t.Parallel()
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "n", nil)
	missing := apierrors.NewNotFound(corev1.Resource("namespaces"), "default")
	// made stores a notice as another replica has created it.
	made := func(count int32, changes ...func(*corev1.Event)) func(*rig) {
		return func(r *rig) {
			e := event("default", "n", counts(count), uid("uid-1"), func(e *corev1.Event) {
				e.Reason, e.Source = settler.ReasonDropped, corev1.EventSource{Component: "eventquota"}
				e.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}
				e.CreationTimestamp = metav1.NewTime(epoch())
			})
			for _, change := range changes {
				change(e)
			}
			r.put(e)
		}
	}
	known := func(p *store.PendingWrite) { p.UID, p.ResourceVersion, p.Written = "uid-1", "1", 5 }
	stale := func(p *store.PendingWrite) { p.UID, p.ResourceVersion, p.Written = "uid-1", "0", 5 }
	const patched = `"firstTimestamp":"2000-01-01T00:00:00Z","lastTimestamp":"2000-01-01T00:01:30Z","count":12,`
	tests := map[string]struct {
		write  store.PendingWrite
		before func(*rig)
		answer error // to the first request
		want   string
		lost   string
		count  int32
		read   int64 // what the store learns of the count before
	}{
		"one that is there is updated":                {write: newNotice(known), before: made(5), want: "[patch default/n] [n written]", count: 12},
		"one that has changed is read again":          {write: newNotice(stale), before: made(5), want: "[patch default/n get default/n patch default/n] [n written]", read: 5, count: 12},
		"one that turns out to be there is updated":   {write: newNotice(), before: made(5), want: "[create default/n get default/n patch default/n] [n written]", read: 5, count: 12},
		"one that says it already is left alone":      {write: newNotice(), before: made(12, note(noticeNote), func(e *corev1.Event) { e.Message = noticeText }), want: "[create default/n get default/n] [n written]", read: 12, count: 12},
		"one that says more is left alone":            {write: newNotice(), before: made(13), want: "[create default/n get default/n] [n written]", read: 13, count: 13},
		"one whose answer was lost is not made twice": {write: newNotice(), answer: errLost, want: "[create default/n create default/n get default/n] [n written]", read: 12, count: 12},
		"another's Event of its name is left alone": {
			write: newNotice(), before: made(5, func(e *corev1.Event) { e.Source.Component = "x" }), want: "[create default/n get default/n] [n name_taken]", count: 5,
		},
		"a notice about another object is left alone": {write: newNotice(), before: made(5, aboutObject("b")), want: "[create default/n get default/n] [n name_taken]", count: 5},
		"one of a server whose clock is behind is updated": {
			write: newNotice(), before: made(5, func(e *corev1.Event) { e.CreationTimestamp = metav1.NewTime(epoch().Add(-time.Hour)) }),
			want: "[create default/n get default/n patch default/n] [n written]", count: 12, read: 5,
		},
		"another one of its name is left alone": {
			write: newNotice(stale), before: made(5, uid("uid-9")), want: "[patch default/n get default/n] [n name_taken]", count: 5,
		},
		"one that is not there any more is not found": {write: newNotice(known), want: "[patch default/n] [n not_found]"},
		"one without a namespace is given up":         {write: newNotice(), answer: missing, want: "[create default/n] [n given_up]", lost: "12"},
		"one in a namespace that is being deleted is given up at once": {
			write: newNotice(), answer: namespaceTerminating(), want: "[create default/n] [n given_up]", lost: "12",
		},
		"one that the API server rejects is given up": {write: newNotice(), answer: invalid, want: "[create default/n] [n given_up]", lost: "12"},
		"one whose update is rejected is given up":    {write: newNotice(known), before: made(5), answer: invalid, want: "[patch default/n] [n given_up]", lost: "7", count: 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				if tt.before != nil {
					tt.before(r)
				}
				r.queue.writes = []store.PendingWrite{tt.write}
				r.answer = func(q *request) error {
					if q.number == 1 {
						return tt.answer
					}
					return nil
				}
				r.run(time.Second, settler.Options{})
				if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes); got != tt.want {
					r.Errorf("did %s, want %s", got, tt.want)
				}
				if got := strings.Trim(fmt.Sprint(r.lost), "[]"); got != tt.lost || len(r.logged) != len(r.lost) {
					r.Errorf("lost %q, want %q; logged %q", got, tt.lost, r.logged)
				}
				if r.queue.stored.Count != tt.read {
					r.Errorf("the store learns of a count of %d, want %d", r.queue.stored.Count, tt.read)
				}
				if e := r.get("default", "n"); e != nil && e.Count != tt.count || (e == nil) != (tt.count == 0) {
					r.Errorf("notice %v, want a count of %d", e, tt.count)
				}
				if e := r.get("default", "n"); tt.count == 12 && (e.Message != noticeText || e.Annotations[settler.AnnotationDropped] != noticeNote || e.Type != "Normal") {
					r.Errorf("notice says %s\n%v", e.Message, e.Annotations)
				}
				for _, q := range r.requests {
					if q.verb() == "patch" && !strings.Contains(q.body, patched) {
						r.Errorf("patch %s, want one with %s", q.body, patched)
					}
				}
			})
		})
	}
}

func note(text string) func(*corev1.Event) {
	return func(e *corev1.Event) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, settler.AnnotationDropped, text)
	}
}

// written is the notice that a write makes.
func written(t *testing.T, p store.PendingWrite) *corev1.Event {
	t.Helper()
	r := newRig(t)
	r.queue.writes = []store.PendingWrite{p}
	r.run(time.Second, settler.Options{})
	if len(r.requests) != 1 || r.requests[0].event == nil {
		t.Fatalf("did %v, want a create", r.requestTexts())
	}
	return r.requests[0].event
}

func TestNoticeMessage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*store.PendingWrite)
		want   string
	}{
		"a spam filter": {func(*store.PendingWrite) {}, noticeText},
		"a policy that drops all": {
			func(p *store.PendingWrite) { p.Notice.Bucket = "" },
			`12 dropped: BackOff, Pulled and others; from kubelet; by team-a since 2000-01-01T00:00:00Z`,
		},
		"nothing: their Events were never stored": {
			func(p *store.PendingWrite) { p.Notice.Bucket, p.Notice.Policy = "", "" },
			`12 could not be merged: BackOff, Pulled and others; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"a quota over many objects": {
			func(p *store.PendingWrite) {
				p.Notice.Bucket = "namespace"
				p.Notice.InvolvedObject = store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: "default", Name: "default"}
				p.Notice.Sources = []store.Tally{{Name: "default-scheduler", Count: 2}, {Name: "kubelet", Count: 10}}
				p.Notice.Objects, p.Notice.ObjectCount = []string{"default/Pod/b", "default/Pod/a"}, store.Cardinality{N: 4312}
			},
			`12 dropped: BackOff, Pulled and others of 4,312 Pods; from kubelet, default-scheduler; by limit "namespace" of team-a since 2000-01-01T00:00:00Z`,
		},
		"a quota over one object": {
			func(p *store.PendingWrite) {
				p.Notice.Bucket = "namespace"
				p.Notice.InvolvedObject = store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: "default", Name: "default"}
			},
			`12 dropped: BackOff, Pulled and others of default/Pod/web; from kubelet; by limit "namespace" of team-a since 2000-01-01T00:00:00Z`,
		},
		"objects of several kinds, by an estimate": {
			func(p *store.PendingWrite) {
				p.Notice.ObjectCount, p.Notice.AllPods = store.Cardinality{N: 9_187, Estimated: true}, false
			},
			`12 dropped: BackOff, Pulled and others of ~9,200 objects; from kubelet; by spam filter of team-a since 2000-01-01T00:00:00Z`,
		},
		"more reasons and sources than three": {
			func(p *store.PendingWrite) {
				p.Total = 10_184
				p.Notice.Reasons = []store.Tally{{Name: "Started", Count: 1}, {Name: "Killing", Count: 4000}, {Name: "Pulled", Count: 2}, {Name: "Created", Count: 3000}, {Name: "Scheduled", Count: 1}}
				p.Notice.Sources = []store.Tally{{Name: "a", Count: 1}, {Name: "b", Count: 4}, {Name: "c", Count: 3}, {Name: "d", Count: 2}}
			},
			`10,184 dropped: Killing, Created, Pulled and 2 more; from b, c, d and 1 more; by spam filter of team-a since 2000-01-01T00:00:00Z`,
		},
		"a bucket of which some Events are not in the sink": {
			func(p *store.PendingWrite) { p.Notice.NotInSink = 5 },
			`12 dropped: BackOff, Pulled and others; from kubelet; by spam filter of team-a since 2000-01-01T00:00:00Z; of these 5 are not in the sink`,
		},
		"one Event of one reason": {
			func(p *store.PendingWrite) { p.Total, p.Notice.Reasons = 1, []store.Tally{{Name: "Killing", Count: 1}} },
			`1 dropped: Killing; from kubelet; by spam filter of team-a since 2000-01-01T00:00:00Z`,
		},
		"a register that had no place for more": {
			func(p *store.PendingWrite) {
				p.Notice.Reasons, p.Notice.Sources, p.Notice.Objects = []store.Tally{{Count: 12}}, []store.Tally{{Count: 12}}, nil
			},
			`12 dropped: various of 1 of the Pods; from various; by spam filter of team-a since 2000-01-01T00:00:00Z`,
		},
		"names that would change how the line reads": {
			func(p *store.PendingWrite) {
				p.Notice.Reasons = []store.Tally{{Name: "a\nb\x1b[31m", Count: 12}}
				p.Notice.Sources = []store.Tally{{Name: "x\u202ey\u2066\u2028z\xff", Count: 12}}
				p.Notice.Objects = []string{"default/Pod/\ta"}
			},
			"12 dropped: \"a b\ufffd[31m\" of \"default/Pod/ a\"; from \"x\ufffdy\ufffd z\ufffd\"; by spam filter of team-a since 2000-01-01T00:00:00Z",
		},
		"names that say whose pods they are": {
			func(p *store.PendingWrite) {
				p.Notice.Reasons = []store.Tally{{Name: "X of Deployment payments/api", Count: 12}}
				p.Notice.Sources = []store.Tally{{Name: "a; by team-b", Count: 12}}
			},
			`12 dropped: "X of Deployment payments/api"; from "a; by team-b"; by spam filter of team-a since 2000-01-01T00:00:00Z`,
		},
		"the workload of all Pods": {
			func(p *store.PendingWrite) {
				p.Total, p.Notice = 10_184, workloadNotice(4312, "Deployment shop/web", 10_184)
			},
			`10,184 dropped: Killing, Created of 4,312 Pods of Deployment shop/web; from kubelet; by limit "namespace" of ClusterEventQuota fair since 2000-01-01T00:00:00Z`,
		},
		"the workload of all but a few, which were not known yet": {
			func(p *store.PendingWrite) {
				p.Total, p.Notice = 10_000, workloadNotice(4312, "Deployment shop/web", 9_000, "", 1000)
			},
			`10,000 dropped: Killing, Created of 4,312 Pods of Deployment shop/web; from kubelet; by limit "namespace" of ClusterEventQuota fair since 2000-01-01T00:00:00Z`,
		},
		"the workload of many, but not of nearly all": {
			func(p *store.PendingWrite) {
				p.Total, p.Notice = 10_000, workloadNotice(4312, "Deployment shop/web", 8_999, "", 1001)
			},
			`10,000 dropped: Killing, Created of 4,312 Pods, led by Deployment shop/web; from kubelet; by limit "namespace" of ClusterEventQuota fair since 2000-01-01T00:00:00Z`,
		},
		"several workloads": {
			func(p *store.PendingWrite) {
				p.Total, p.Notice = 10_000, workloadNotice(4312, "StatefulSet shop/db", 2_000, "Deployment shop/web", 7_000, "", 1000)
			},
			`10,000 dropped: Killing, Created of 4,312 Pods of 2 workloads, led by Deployment shop/web; from kubelet; by limit "namespace" of ClusterEventQuota fair since 2000-01-01T00:00:00Z`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if got := written(t, newNotice(tt.change)).Message; got != tt.want {
					t.Errorf("message\n%s, want\n%s", got, tt.want)
				}
			})
		})
	}
}

// TestNoticeReportsMissingFromSink holds that for its annotation, and that a notice which another settler has written is
// written again where more is missing.
func TestNoticeReportsMissingFromSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := written(t, newNotice(func(p *store.PendingWrite) { p.Notice.NotInSink = 5 }))
		if got, want := e.Annotations[settler.AnnotationDropped], strings.TrimSuffix(noticeNote, "}")+`,"notInSink":5}`; got != want {
			t.Errorf("annotation %s, want %s", got, want)
		}
		for missing, want := range map[int64]bool{0: true, 5: true, 6: false} {
			if got := settler.ReportsMissing(e, &store.Notice{NotInSink: missing}); got != want {
				t.Errorf("a notice says that 5 are missing: enough for %d is %t, want %t", missing, got, want)
			}
		}
	})
}
