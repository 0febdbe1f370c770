package sink

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// TestRecordAttributes holds the names that collectors' own receivers of Events give, and ours.
func TestRecordAttributes(t *testing.T) {
	t.Parallel()
	d := dropDecision("shop", func(d *admission.FullDecision) {
		e := d.Request.Object
		e.UID, e.Action, e.Count = "event-uid", "Restarting", 4
		e.Labels, e.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d", "e": ""}
		e.Related = &corev1.ObjectReference{Kind: "Node", Name: "node-1"}
		d.Verdict, d.Bucket = store.Merge, ""
		d.Decision = store.Decision{Verdict: store.Merge, MergedInto: "web-0.0", MergedIntoID: store.Identity{UID: "into-uid"}, Occurrences: 3}
	})
	f := outcome{"merge", "default", "", "web-0.0", "into-uid", 3}
	now := epoch.Add(time.Second)
	r, has := decoded(t, encode(nil, "id-1", now, d.Request, d.Request.Object, &f))
	want := map[string]any{
		"log.record.uid": "id-1", "k8s.namespace.name": "shop",
		"k8s.event.name": "web-0.1", "k8s.event.uid": "event-uid", "k8s.event.reason": "BackOff", "k8s.event.action": "Restarting",
		"k8s.event.start_time": "2026-01-01T11:59:00Z", "k8s.event.count": int64(4),
		"k8s.object.kind": "Pod", "k8s.object.name": "web-0", "k8s.object.uid": "uid-0", "k8s.object.api_version": "v1",
		"k8s.object.fieldpath": "spec.containers{web}", "k8s.object.resource_version": "7", "k8s.node.name": "node-1",
		"eventquota.source": "kubelet", "eventquota.related": "Node/node-1",
		"eventquota.labels": map[string]any{"a": "b"}, "eventquota.annotations": map[string]any{"c": "d", "e": ""},
		"eventquota.verdict": "merge", "eventquota.rule": "default", "eventquota.merged_into.name": "web-0.0",
		"eventquota.merged_into.uid": "into-uid", "eventquota.occurrences": int64(3),
	}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if r.GetBody().GetStringValue() != d.Request.Object.Message || r.GetSeverityText() != "Warning" || r.GetSeverityNumber() != 13 ||
		r.GetTimeUnixNano() != uint64(epoch.UnixNano()) || r.GetObservedTimeUnixNano() != uint64(now.UnixNano()) {
		t.Errorf("record %v", r)
	}
}

// TestRecordsAreAlwaysValid holds that every record is valid protobuf, and an invalid text readable.
func TestRecordsAreAlwaysValid(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(r *admission.Request, e *corev1.Event){
		"no content": func(_ *admission.Request, e *corev1.Event) { *e = corev1.Event{} },
		"the year 1": func(_ *admission.Request, e *corev1.Event) {
			e.LastTimestamp = metav1.NewTime(time.Unix(-62135596799, 0))
		},
		"the year 9999": func(_ *admission.Request, e *corev1.Event) {
			e.LastTimestamp = metav1.NewTime(time.Unix(253402300799, 0))
		},
		"a long message": func(_ *admission.Request, e *corev1.Event) { e.Message = strings.Repeat("x", 3<<20) },
		"text not UTF-8": func(_ *admission.Request, e *corev1.Event) {
			e.Message, e.Reason, e.Type = "a\xff\xfeb", "\xc3", "\xff"
		},
		"labels not so": func(_ *admission.Request, e *corev1.Event) {
			e.Labels = map[string]string{"\xff\xff": "\xfe", "b": strings.Repeat("\xff", 300)}
		},
		"control":       func(_ *admission.Request, e *corev1.Event) { e.Message = "a\x00\x1b[2J\u202e\nb" },
		"a wrong count": func(_ *admission.Request, e *corev1.Event) { e.Count = -7 },
		"unreadable":    func(r *admission.Request, _ *corev1.Event) { r.DecodeError = errors.New(strings.Repeat("é", 400)) },
		"another type":  func(_ *admission.Request, e *corev1.Event) { e.Type = "Odd" },
		"a name as ours": func(_ *admission.Request, e *corev1.Event) {
			e.Annotations = map[string]string{"eventquota.verdict": "admit"}
		},
		"lots of objects": func(_ *admission.Request, e *corev1.Event) { e.InvolvedObject.Name = strings.Repeat("/", 70_000) },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			d := dropDecision("shop")
			change(d.Request, d.Request.Object)
			r, has := decoded(t, encode(nil, "id", epoch, d.Request, d.Request.Object, &outcome{verdict: "drop", occurrences: 1}))
			if !utf8.ValidString(r.GetBody().GetStringValue()) || has[attrVerdict] != "drop" {
				t.Errorf("body %q, verdict %v", r.GetBody().GetStringValue(), has[attrVerdict])
			}
			if year := time.Unix(0, int64(r.GetTimeUnixNano())).Year(); year < 1970 || year > 2262 || r.GetTimeUnixNano() == 0 {
				t.Errorf("time %d", r.GetTimeUnixNano())
			}
			if text, is := has[attrUnreadable].(string); is && len(text) > maxErrorBytes {
				t.Errorf("an error of %d bytes", len(text))
			}
		})
	}
}

// TestSinkSettings holds what the settings mean.
func TestSinkSettings(t *testing.T) {
	t.Parallel()
	verdicts := []store.Verdict{store.Admit, store.Aggregate, store.Merge, store.Drop, store.Deny}
	for _, admitted := range []bool{false, true} {
		for says, want := range map[policy.Sink][]string{
			policy.SinkAll: {"merge", "drop", "deny", "Warning merge", "Warning drop", "Warning deny"}, policy.SinkRefused: {"drop", "deny", "Warning drop", "Warning deny"},
			policy.SinkWarnings: {"Warning merge", "Warning drop", "Warning deny"}, policy.SinkNone: {},
		} {
			if admitted && says == policy.SinkAll {
				want = append(want, "admit", "aggregate", "Warning admit", "Warning aggregate")
			}
			if admitted && says == policy.SinkWarnings {
				want = append(want, "Warning admit", "Warning aggregate")
			}
			for _, by := range []string{"rule", "default"} {
				o := Options{Default: says, Admitted: admitted}
				rule := policy.Sink("")
				if by == "rule" {
					rule, o.Default = says, policy.SinkNone
					if says == policy.SinkNone {
						o.Default = policy.SinkAll
					}
				}
				s, got := New(o), []string{}
				for _, v := range verdicts {
					if s.sends(rule, v, &corev1.Event{Type: corev1.EventTypeNormal}) {
						got = append(got, v.String())
					}
					if s.sends(rule, v, &corev1.Event{Type: corev1.EventTypeWarning}) {
						got = append(got, "Warning "+v.String())
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s by the %s, admitted %t: %v, want %v", says, by, admitted, got, want)
				}
			}
		}
	}
}

// TestRecordOccurrences holds what each stands for, so that sums are exact.
func TestRecordOccurrences(t *testing.T) {
	t.Parallel()
	update := func(was, is int32) func(*admission.FullDecision) {
		return func(d *admission.FullDecision) {
			d.Request.Operation = admissionv1.Update
			d.Request.OldObject = d.Request.Object.DeepCopy()
			d.Request.OldObject.Count, d.Request.Object.Count = was, is
		}
	}
	verdict := func(v store.Verdict, occurrences int64) func(*admission.FullDecision) {
		return func(d *admission.FullDecision) {
			d.Verdict, d.Decision.Verdict, d.Decision.Occurrences = v, v, occurrences
		}
	}
	for says, test := range map[string]struct {
		change []func(*admission.FullDecision)
		want   int64
	}{
		"a drop, as the store says":               {[]func(*admission.FullDecision){verdict(store.Drop, 3)}, 3},
		"a drop of an update that repeats none":   {[]func(*admission.FullDecision){update(5, 5), verdict(store.Drop, 0)}, 0},
		"a merge, as the store says":              {[]func(*admission.FullDecision){update(5, 9), verdict(store.Merge, 4)}, 4},
		"a denied create":                         {[]func(*admission.FullDecision){verdict(store.Deny, 0)}, 1},
		"a denied repeat":                         {[]func(*admission.FullDecision){update(5, 9), verdict(store.Deny, 0)}, 1},
		"a denied update that repeats none":       {[]func(*admission.FullDecision){update(5, 5), verdict(store.Deny, 0)}, 0},
		"an admitted create, as the store says":   {[]func(*admission.FullDecision){verdict(store.Admit, 2)}, 2},
		"an admitted create that repeats another": {[]func(*admission.FullDecision){verdict(store.Admit, 0)}, 0},
		"an admitted create that no store knows":  {[]func(*admission.FullDecision){verdict(store.Admit, 0), func(d *admission.FullDecision) { d.Write, d.Request.Object.Count = nil, 7 }}, 7},
		"an admitted repeat":                      {[]func(*admission.FullDecision){update(5, 9), verdict(store.Admit, 0)}, 4},
		"an admitted update that counts downward": {[]func(*admission.FullDecision){update(9, 5), verdict(store.Admit, 0)}, 0},
	} {
		if got := occurrences(dropDecision("shop", test.change...)); got != test.want {
			t.Errorf("%s stands for %d, want %d", says, got, test.want)
		}
	}
}

// TestRepeatedReviewIsSentOnce holds that an UPDATE that the API server asks about twice is sent once.
func TestRepeatedReviewIsSentOnce(t *testing.T) {
	t.Parallel()
	s := New(Options{Default: policy.SinkAll, Admitted: true, Bytes: MinBytes})
	s.Add(map[string]Output{"test": &fakeCollector{}})
	admit := func(paid bool) {
		s.CopyDecided(dropDecision("shop", func(d *admission.FullDecision) {
			d.Verdict, d.Decision = store.Admit, store.Decision{Verdict: store.Admit, Retry: paid}
		}))
	}
	admit(false)
	admit(true)
	if n := s.outputs[0].queue.pending(); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// TestRecordIDsAreUnique holds what collectors may tell repeats by.
func TestRecordIDsAreUnique(t *testing.T) {
	t.Parallel()
	s := New(Options{Default: policy.SinkAll, Bytes: MinBytes})
	s.Add(map[string]Output{"test": &fakeCollector{}})
	for range 100 {
		s.CopyDecided(dropDecision("shop"))
	}
	ids := map[string]bool{}
	for _, r := range s.outputs[0].queue.dequeue(1000, MinBytes) {
		_, has := decoded(t, r.encoded)
		ids[has[attrUID].(string)] = true
	}
	if len(ids) != 100 {
		t.Errorf("%d ids of 100 records: %v", len(ids), slices.Collect(maps.Keys(ids)))
	}
}
