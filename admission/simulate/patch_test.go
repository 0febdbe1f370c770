package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pick returns a random element.
func pick[T any](rnd *rand.Rand, all ...T) T { return all[rnd.IntN(len(all))] }

// randomOld returns an Event with the precision of the spool.
func randomOld(t *testing.T, rnd *rand.Rand) *corev1.Event {
	t.Helper()
	at := func() time.Time { return noon().Add(pick(rnd, 0, 0, 0, 0, 0, 0, time.Second/2, time.Nanosecond)) }
	e := event("a", pick(rnd, "", "one", "\u2028 <&> \U0001f600"), at())
	e.LastTimestamp.Time = at()
	e.Count = pick[int32](rnd, 0, 1, 7)
	if rnd.IntN(3) == 0 {
		e.Labels, e.Annotations = map[string]string{"a": "b"}, map[string]string{}
		e.OwnerReferences = []metav1.OwnerReference{{Name: "o", Controller: new(true)}}
	}
	if rnd.IntN(3) == 0 {
		e.Series = &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at())}
		e.EventTime, e.Related = metav1.NewMicroTime(at()), pick(rnd, nil, &corev1.ObjectReference{}, &corev1.ObjectReference{Name: "b"})
	}
	b, err := encoded(&write{event: e})
	if err != nil {
		t.Fatal(err)
	}
	w, err := decodedWrite(framed(b), &cell{})
	if err != nil {
		t.Fatal(err)
	}
	return w.event
}

// randomPatch returns a patch that is mostly like that of a recorder.
func randomPatch(rnd *rand.Rand) string {
	patch := "{"
	for i := range rnd.IntN(5) {
		if i > 0 {
			patch += pick(rnd, ",", ",", ", ", "")
		}
		patch += pick(rnd, `"count":`, `"lastTimestamp":`, `"message":`, `"count":`, `"lastTimestamp":`, `"Count":`, `"message":`, `"metadata":`, `"\u0063ount":`)
		patch += pick(rnd, "2", "17", "0", "-3", "-0", "2.0", "1e3", "99999999999", "null", `"2026-11-01T12:00:07Z"`, `"2026-11-01T13:00:07.25+01:00"`,
			`"2026-11-01"`, `"seen"`, `""`, `"a\nb\t\"\\"`, `"\u00e9\ud800"`, "\"\xff\"", `{"labels":{"x":"y"}}`, `[1]`)
	}
	return patch + pick(rnd, "}", "}", "}", "}\n", "", "}}", "} {}")
}

func TestFastPatchMatchesMergePatch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(31, 0))
	quick := 0
	for range 20_000 {
		old, patch := randomOld(t, rnd), randomPatch(rnd)
		before := old.DeepCopy()
		got := countedUp(old, []byte(patch))
		if diff := cmp.Diff(before, old); diff != "" {
			t.Fatalf("%q has changed the Event before it:\n%s", patch, diff)
		}
		if got == nil {
			continue
		}
		quick++
		want, err := merged(old, []byte(patch))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q makes (%v, -merged +countedUp):\n%s", patch, err, diff)
		}
	}
	if quick < 1000 {
		t.Errorf("%d patches were quick, want at least 1000", quick)
	}
}

func TestRecorderPatchIsFast(t *testing.T) {
	for _, patch := range []string{
		`{"count":2,"lastTimestamp":"2026-11-01T12:00:07Z"}`,
		`{"count":2,"lastTimestamp":"2026-11-01T12:00:07Z","message":"a \"b\""}`,
	} {
		e := countedUp(event("a", "one", noon()), []byte(patch))
		if e == nil || e.Count != 2 || !e.LastTimestamp.Time.Equal(sec(7)) {
			t.Errorf("%s makes %v", patch, e)
		}
	}
}

func TestOnlyMergePatchesAreApplied(t *testing.T) {
	for _, patch := range []string{`[{"op":"replace","path":"/count","value":2}]`, "[", "null", `"count"`, ""} {
		_, err := patched(event("a", "one", noon()), []byte(patch))
		if err == nil || err.Error() != "only strategic merge patches and merge patches are simulated" {
			t.Errorf("%q: %v", patch, err)
		}
	}
}
