package admission

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestDecodeMatchesAPIServerEncoding(t *testing.T) {
	t.Parallel()
	at := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	second, micro := metav1.NewTime(at), metav1.NewMicroTime(at.Add(time.Microsecond))
	want := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "a", CreationTimestamp: second, Labels: map[string]string{"a": "b"}},
		FirstTimestamp: second, LastTimestamp: metav1.NewTime(time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)),
		EventTime: micro, Series: &corev1.EventSeries{Count: 2, LastObservedTime: micro}, Message: "\x00\u2028é",
	}
	sent := want.DeepCopy()
	sent.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &second}} // which decide nothing
	raw, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", Object: runtime.RawExtension{Raw: raw}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(body, nil)
	if err != nil || r.DecodeError != nil {
		t.Fatal(err, r)
	}
	if diff := cmp.Diff(want, r.Object); diff != "" {
		t.Errorf("(-sent +read):\n%s", diff)
	}
}
