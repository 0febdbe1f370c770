package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/prom"
)

func TestMessagesThatAreCutAreCounted(t *testing.T) {
	t.Parallel()
	m := New("devel")
	p := policy.Default()
	own := memory.New(memory.Options{Bytes: memory.MinBytes})
	gate := &admission.Gate{
		Policies: policy.InForce(policy.NewSet(p, policy.Rules{}, nil)), Store: own, Now: time.Now,
	}
	h := &admission.Handler{Name: "mutate", Gate: gate, Phase: gate.Mutate, InFlight: admission.NewPlaces(1), Deadline: time.Hour}
	gate.Recorder = m
	review := func(name, message string, dryRun bool) {
		t.Helper()
		r := &admission.Request{Object: &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0"},
			Reason:         "BackOff", Message: message, Type: "Warning",
		}}
		r.DryRun = dryRun
		r.Kind, r.Operation, r.Namespace = metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, admissionv1.Create, "shop"
		r.UID = "1"
		body, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": r})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1h", bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, request)
		if w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	long := strings.Repeat("x", 2000)
	review("short", "short", false)
	review("dry", long, true)
	review("long", long, false)
	review("again", long, false) // is merged
	prom.Want(t, m.Gatherer, "eventquota_messages_truncated_total", `{} 1`)
}

func TestPoliciesAreCountedAsTheyAre(t *testing.T) {
	t.Parallel()
	m := New("devel")
	m.Policies(reported{{Governing: 1}, {Err: errors.New("no")}, {Governing: 2, Err: errors.New("no")}, {Governing: 2}, {Governing: 3}, {Pending: true}})
	prom.Want(t, m.Gatherer, "eventquota_policies", `{result="accepted"} 3`, `{result="pending"} 1`, `{result="rejected"} 2`)
}

type reported []watch.Report

func (r reported) Reports() []watch.Report { return r }
