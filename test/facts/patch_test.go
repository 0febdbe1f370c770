package facts

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/eventtest"
)

// patchIdentifiesEvent checks that a patch can name the Event to change by uid and resourceVersion. If another Event is stored, the patch
// changes nothing, and the reason of the answer says why.
func (r *rig) patchIdentifiesEvent(t *testing.T) {
	r.namespace(t, "f30", nil)
	core, events := r.client.CoreV1().Events("f30"), r.client.EventsV1().Events("f30")
	const otherUID = "11111111-2222-3333-4444-555555555555"
	for i, test := range []struct {
		name   string
		events bool // through events.k8s.io/v1 instead of core/v1
		kind   types.PatchType
		patch  string              // UID and VERSION are the Event's, OLD its first resourceVersion
		reason metav1.StatusReason // empty if the patch succeeds
		field  string              // field of the cause
	}{
		{name: "with its uid and resourceVersion", kind: types.MergePatchType,
			patch: `{"metadata": {"uid": "UID", "resourceVersion": "VERSION", "labels": {"a": "b"}}}`},
		{name: "with another uid", kind: types.MergePatchType,
			patch: `{"metadata": {"uid": "` + otherUID + `", "labels": {"a": "b"}}}`, reason: metav1.StatusReasonInvalid, field: "metadata.uid"},
		{name: "with another uid, through events.k8s.io", events: true, kind: types.MergePatchType,
			patch: `{"metadata": {"uid": "` + otherUID + `", "labels": {"a": "b"}}}`, reason: metav1.StatusReasonInvalid, field: "metadata.uid"},
		{name: "with an earlier resourceVersion", kind: types.MergePatchType,
			patch: `{"metadata": {"resourceVersion": "OLD", "labels": {"a": "b"}}}`, reason: metav1.StatusReasonConflict},
		{name: "with another uid and an earlier resourceVersion", kind: types.MergePatchType,
			patch:  `{"metadata": {"uid": "` + otherUID + `", "resourceVersion": "OLD", "labels": {"a": "b"}}}`,
			reason: metav1.StatusReasonConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("event-%d", i)
			created, err := core.Create(t.Context(), eventtest.Core("f30", name), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			last, err := core.Patch(t.Context(), name, types.MergePatchType, []byte(`{"count": 2}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			patch := strings.NewReplacer("UID", string(last.UID), "VERSION", last.ResourceVersion, "OLD", created.ResourceVersion).Replace(test.patch)
			if test.events {
				_, err = events.Patch(t.Context(), name, test.kind, []byte(patch), metav1.PatchOptions{})
			} else {
				_, err = core.Patch(t.Context(), name, test.kind, []byte(patch), metav1.PatchOptions{})
			}
			if got := apierrors.ReasonForError(err); got != test.reason || (err == nil) != (test.reason == "") {
				t.Fatalf("got reason %q, want %q (error %v)", got, test.reason, err)
			}
			if test.reason == metav1.StatusReasonInvalid {
				if got := invalidFields(t, err); got != test.field {
					t.Errorf("got invalid fields %q, want %q", got, test.field)
				}
			}
			now, err := core.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if applied := now.Labels["a"] == "b"; applied != (test.reason == "") {
				t.Errorf("patch applied: got %t, want %t", applied, test.reason == "")
			}
		})
	}
}

// kubectlShowsSeriesCount checks the count and time that kubectl shows. The count of a series takes precedence over count. Without
// lastTimestamp and eventTime, kubectl events shows an unknown time for an Event with a count above 1. kubectl get events then shows
// firstTimestamp, if it is set.
func (r *rig) kubectlShowsSeriesCount(t *testing.T) {
	r.namespace(t, "shown", nil)
	for name, test := range map[string]struct {
		change      func(e *corev1.Event)
		count       string
		get, events bool // whether kubectl get events and kubectl events show an unknown time
	}{
		"series": {change: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NowMicro()} }, count: "7"},
		"both":   {change: func(*corev1.Event) {}, count: "3"},
		"first":  {change: func(e *corev1.Event) { e.LastTimestamp = metav1.Time{} }, count: "3", events: true},
		"none": {change: func(e *corev1.Event) { e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{} },
			count: "3", get: true, events: true},
	} {
		event := eventtest.Core("shown", name)
		event.InvolvedObject.Name, event.Count = name, 3
		test.change(event)
		if _, err := r.client.CoreV1().Events("shown").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		get := r.kubectl(t, "get", "events", "--namespace=shown", "--field-selector=metadata.name="+name, "--no-headers", "--output=wide")
		// The last columns are FIRST SEEN, COUNT and NAME.
		if fields := strings.Fields(get); len(fields) < 3 || fields[len(fields)-2] != test.count || strings.HasPrefix(get, "<unknown>") != test.get {
			t.Errorf("%s: want count %s and an unknown time: %t, kubectl get events shows %s", name, test.count, test.get, get)
		}
		events := r.kubectl(t, "events", "--namespace=shown", "--for=pod/"+name, "--no-headers")
		if got := strings.HasPrefix(events, "<unknown> (x3"); got != test.events {
			t.Errorf("%s: unknown time in kubectl events: got %t, want %t: %s", name, got, test.events, events)
		}
	}
}

// kubectl returns the standard output of kubectl.
func (r *rig) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	stdout, _, err := r.Kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return stdout
}
