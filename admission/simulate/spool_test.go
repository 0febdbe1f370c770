package simulate

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

func newTestSpool(t *testing.T) *spool {
	t.Helper()
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// randomWrite returns a random write. A few are longer than windowBytes.
func randomWrite(rnd *rand.Rand) *write {
	w := &write{record: record{
		At: noon().Add(time.Duration(rnd.Int64())), Last: sec(rnd.IntN(9)), Clock: pick(rnd, noon(), time.Time{}), File: rnd.IntN(3), Line: rnd.Int64(),
		Verb: pick(rnd, create, update, patch, remove, stored), NewAPI: rnd.IntN(2) == 0, Free: rnd.IntN(2) == 0, HistoryKnown: rnd.IntN(2) == 0,
		Managed: rnd.IntN(2) == 0, Namespace: pick(rnd, "", "shop"), Name: pick(rnd, "", "a"), ID: pick(rnd, "", "id"),
		User:  user{Username: pick(rnd, "", "bob"), UID: pick(rnd, "", "7"), Groups: pick(rnd, nil, []string{}, []string{"a", "b"})},
		Patch: pick(rnd, nil, []byte("{}")),
	}}
	if rnd.IntN(4) == 0 {
		w.User.Extra = map[string][]string{"scopes": {"a", ""}}
	}
	if rnd.IntN(4) > 0 {
		w.event = event("a", strings.Repeat("m", pick(rnd, 1, 1000, 3*windowBytes)), noon())
		w.event.TypeMeta = metav1.TypeMeta{} // which no write has
	}
	return w
}

func TestSpoolRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 0))
	s := newTestSpool(t)
	writes, offsets := []*write{}, []int64{}
	var through window
	for range 2000 {
		w := randomWrite(rnd)
		offset, err := s.append(w)
		if err != nil {
			t.Fatal(err)
		}
		if spotOf(offset).offset() != offset {
			t.Fatalf("no spot says %d", offset)
		}
		writes, offsets = append(writes, w), append(offsets, offset)
		if rnd.IntN(500) == 0 {
			if _, err := s.flush(); err != nil {
				t.Fatal(err)
			}
		}
		i := rnd.IntN(len(writes))
		got, err := s.read(offsets[i])
		if err == nil && offsets[i] < s.written {
			got, err = s.readBy(&through, offsets[i], s.written, &cell{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(writes[i], got, cmp.AllowUnexported(write{}, record{}), cmpopts.IgnoreFields(write{}, "size", "offset")); diff != "" || got.offset != offsets[i] {
			t.Fatalf("the write at %d is read at %d (-appended +read):\n%s", offsets[i], got.offset, diff)
		}
	}
	if s.written == 0 {
		t.Error("nothing is in the file")
	}
}

func TestSpoolTruncate(t *testing.T) {
	s := newTestSpool(t)
	for range 2 {
		first, err := s.append(&write{event: event("a", "one", noon())})
		if err != nil {
			t.Fatal(err)
		}
		end, err := s.flush()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b", "c"} {
			offset, err := s.append(&write{event: event(name, "one", noon())})
			if err == nil {
				_, err = s.flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			for at, want := range map[int64]string{first: "a", offset: name} {
				if w, err := s.read(at); err != nil || w.event.Name != want {
					t.Errorf("at %d: %v, %v; want %s", at, w, err, want)
				}
			}
			s.truncate(end)
		}
	}
}

// TestChangedEventIsStoredAnew checks that a run appends an Event to the spool only if it differs from the Event that was read.
func TestChangedEventIsStoredAnew(t *testing.T) {
	trace := readAll(t, text(request("create", "a", 201, sec(0), event("a", "one", noon())))+text(request("update", "a", 200, sec(1), event("a", "one", noon()))))
	api := newAPIServer(trace.spool, EventTTL)
	var writes []*write
	for w, err := range trace.writes("", nil) {
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, w)
	}
	kept := func() *corev1.Event {
		t.Helper()
		e, _, err := api.get(sec(1), "shop", "a")
		if err != nil || e == nil {
			t.Fatalf("%v, %v", e, err)
		}
		return e
	}
	before := trace.spool.end()
	if err := api.put(sec(0), writes[0], writes[0].event, false); err != nil {
		t.Fatal(err)
	}
	if end := trace.spool.end(); end != before {
		t.Errorf("the temporary file has %d bytes after an Event was stored as it is, want %d", end, before)
	}
	old := kept()
	metav1.SetMetaDataAnnotation(&old.ObjectMeta, admission.AnnotationMerged, "7")
	e, err := writes[1].apply(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.put(sec(1), writes[1], e, false); err != nil {
		t.Fatal(err)
	}
	if got := kept().Annotations[admission.AnnotationMerged]; got != "7" {
		t.Errorf("the Event has %q of the settler's note, want 7", got)
	}
}
