package facts

import (
	"encoding/json"
	"math"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/eventtest"
)

// unchanged answers a merge of an UPDATE as it was tried: with 200, and a patch that makes the Event what is stored, so that nothing is
// written. eventquota refuses such an UPDATE instead, as the facts below say.
func unchanged(c call) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if c.request.Operation == admissionv1.Update {
		patch, _ := json.Marshal([]map[string]any{{"op": "replace", "path": "", "value": json.RawMessage(c.request.OldObject.Raw)}}) // cannot fail
		response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	return response
}

// unchangedNamespace creates a namespace in which each UPDATE is answered by unchanged.
func (r *rig) unchangedNamespace(t *testing.T, name string) {
	t.Helper()
	r.namespace(t, name, unchanged)
	r.mutate(t, r.webhook("/mutate-"+name, name, admissionregistrationv1.Create, admissionregistrationv1.Update))
	r.untilCalled(t, name, "/mutate-"+name)
}

// revertedUpdateWritesNothing checks that an UPDATE which a webhook turns back into what is stored succeeds, and writes nothing to etcd.
func (r *rig) revertedUpdateWritesNothing(t *testing.T) {
	r.unchangedNamespace(t, "reverted")
	api := r.client.CoreV1().Events("reverted")
	created, err := api.Create(t.Context(), eventtest.Core("reverted", "a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patched, err := api.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"count": 7}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patched.Count != created.Count || patched.ResourceVersion != created.ResourceVersion {
		t.Errorf("the answer has count %d and version %s, want %d and %s as before", patched.Count, patched.ResourceVersion, created.Count, created.ResourceVersion)
	}
}

// recordersAdoptAnswers checks why eventquota does not answer so. After an answer with the stored count, the next count of the recorder of
// core/v1 is that count and one, although the recorder has counted more. Nothing distinguishes it from a count of its own.
func (r *rig) recordersAdoptAnswers(t *testing.T) {
	r.unchangedNamespace(t, "adopted")
	b := record.NewBroadcaster(record.WithContext(t.Context()), record.WithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: math.MaxInt32, MaxEvents: math.MaxInt32,
	}))
	defer b.Shutdown()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: r.client.CoreV1().Events("")})
	recorder := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "adopted", Name: "web"}
	for range 4 {
		recorder.Event(about, corev1.EventTypeNormal, "Repeated", "again")
	}
	if got := r.updatedCounts(t, "adopted", 3, func(e corev1.Event) int32 { return e.Count }); got[0] != 2 || got[1] != 2 || got[2] != 2 {
		t.Errorf("after four occurrences, the recorder has sent %v, want 2 each time: the stored count and one", got)
	}
}

// refreshedSeriesAdoptAnswers checks the same for the recorder of events.k8s.io. It ignores the answer to the first repeat, and adopts the
// one to a refresh of its series. It refreshes every 30 minutes, and when recording starts, so the test starts it again.
func (r *rig) refreshedSeriesAdoptAnswers(t *testing.T) {
	r.unchangedNamespace(t, "refreshed")
	// The stored Event has a series, as the settler or another recorder has written it.
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.client.EventsV1()})
	defer b.Shutdown()
	if err := b.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder := b.NewRecorder(scheme.Scheme, "test")
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "refreshed", Name: "web"}
	emit := func() { recorder.Eventf(about, nil, corev1.EventTypeNormal, "Repeated", "Testing", "again") }
	emit()
	stored := func() *corev1.Event {
		all, err := r.exempt.CoreV1().Events("refreshed").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(all.Items) == 0 {
			return nil
		}
		return &all.Items[0]
	}
	cli.Eventually(t, "the Event is stored", func() bool { return stored() != nil })
	count := func(e corev1.Event) int32 { return e.Series.Count }
	emit() // the first repeat is a PATCH with 2; the answer has no series, and is not adopted
	if got := r.updatedCounts(t, "refreshed", 1, count); got[0] != 2 {
		t.Fatalf("the first repeat has count %d, want 2", got[0])
	}
	series := stored().DeepCopy()
	series.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()}
	if _, err := r.exempt.CoreV1().Events("refreshed").Update(t.Context(), series, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		emit()
	}
	highest := int32(0)
	cli.Eventually(t, "a refresh with a lower count than one before it", func() bool {
		if err := b.StartRecordingToSinkWithContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range r.takePath("refreshed", "/mutate-refreshed") {
			n := count(eventOf(t, c.request.Object.Raw))
			if n < highest {
				return n == 2 // the stored count, which the answers have
			}
			highest = n
		}
		return false
	})
}

// updatedCounts waits for n UPDATEs of a namespace and returns their counts, oldest first.
func (r *rig) updatedCounts(t *testing.T, namespace string, n int, count func(corev1.Event) int32) (counts []int32) {
	t.Helper()
	cli.Eventually(t, "UPDATEs", func() bool {
		for _, c := range r.takePath(namespace, "/mutate-"+namespace) {
			if c.request.Operation == admissionv1.Update {
				counts = append(counts, count(eventOf(t, c.request.Object.Raw)))
			}
		}
		return len(counts) >= n
	})
	return counts
}
