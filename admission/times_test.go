package admission

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// reviewed is an Event as an API server puts it into a review, and as it is read.
func reviewed(t *testing.T, e *corev1.Event) *corev1.Event {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", Object: runtime.RawExtension{Raw: raw}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unreadable != nil {
		t.Fatalf("%s cannot be read: %v", raw, r.Unreadable)
	}
	return r.Object
}

// Protobuf has any time, and JSON has it with as many digits as its year needs. That is more than metav1.Time decodes.
func TestTimesOfAnyYearAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		{},
		time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC),
		time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(10000, time.January, 1, 0, 0, 0, 0, time.UTC),
		time.Date(10000, time.February, 29, 1, 2, 3, 4000, time.UTC),
		time.Date(36812, time.February, 20, 0, 36, 16, 0, time.UTC),
		time.Date(999_999_999, time.July, 31, 23, 0, 0, 0, time.UTC),
		time.Date(1, time.January, 1, 0, 0, 1, 0, time.UTC),
		time.Date(0, time.February, 29, 0, 0, 0, 0, time.UTC),
		time.Date(-1, time.December, 31, 0, 0, 0, 0, time.UTC),
		time.Date(-400, time.February, 29, 0, 0, 0, 0, time.UTC),
		time.Date(-123_456, time.May, 6, 7, 8, 9, 0, time.UTC),
		time.Unix(1<<62, 0),
	} {
		t.Run(fmt.Sprint("year ", at.Year()), func(t *testing.T) {
			t.Parallel()
			second, micro := metav1.NewTime(at.Truncate(time.Second)), metav1.NewMicroTime(at)
			e := reviewed(t, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{CreationTimestamp: second, ManagedFields: []metav1.ManagedFieldsEntry{{Time: &second}}},
				FirstTimestamp: second, EventTime: micro, Series: &corev1.EventSeries{LastObservedTime: micro},
			})
			got := []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.EventTime.Time, e.Series.LastObservedTime.Time}
			if m := e.ManagedFields[0].Time; m != nil {
				got = append(got, m.Time)
			} else {
				got = append(got, time.Time{})
			}
			want := []time.Time{second.Time, second.Time, micro.Time, micro.Time, second.Time}
			for i := range want {
				far := want[i].Year() > farthest && got[i].Year() >= farthest
				if !got[i].Equal(want[i]) && !far {
					t.Errorf("time %d is %v, want %v", i, got[i], want[i])
				}
			}
		})
	}
}

func TestTextsThatAreNoTimesAreUnreadable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`""`, `"-"`, `"--"`, `"10000"`, `"10000-13-01T00:00:00Z"`, `"10001-02-29T00:00:00Z"`, `"+10000-01-01T00:00:00Z"`,
		`"1e4-01-01T00:00:00Z"`, `"--1-01-01T00:00:00Z"`, `"99999999999999999999-01-01T00:00:00Z"`, `{}`, `[]`, `7`, `true`,
	} {
		body := `{"kind": "AdmissionReview", "request": {"uid": "1", "object": {"lastTimestamp": ` + text + `}}}`
		r, err := decode([]byte(body), nil)
		if err != nil || r.Unreadable == nil {
			t.Errorf("%s: read, error %v", text, err)
		}
	}
}

// FuzzTimes holds that each time that JSON can have is read as it was.
func FuzzTimes(f *testing.F) {
	f.Add(int64(253402300800), int64(0))
	f.Add(int64(-62135596801), int64(999_999))
	f.Add(int64(1)<<54, int64(1))
	f.Fuzz(func(t *testing.T, seconds, micros int64) {
		const most = 1 << 54 // within the years that are distinguished
		at := time.Unix(seconds%most, (micros&0xfffff)%1_000_000*1000).UTC()
		e := reviewed(t, &corev1.Event{LastTimestamp: metav1.NewTime(at), EventTime: metav1.NewMicroTime(at)})
		if !e.LastTimestamp.Time.Equal(at.Truncate(time.Second)) || !e.EventTime.Time.Equal(at) {
			t.Errorf("%v and %v, want %v", e.LastTimestamp, e.EventTime, at)
		}
	})
}
