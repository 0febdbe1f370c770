package e2e

import (
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// checkRepeatCost checks I4 for one recorder of each API at a time: how many requests each Event costs while it is
// stored, merged and dropped.
func (e *env) checkRepeatCost() {
	namespace := e.namespace("repeats")
	for name, recorder := range map[string]func(*env, string) *recorder{
		"core/v1":       legacyRecorder,
		"events.k8s.io": seriesRecorder,
	} {
		e.Run(name, func(t *testing.T) {
			e := e.forSubtest(t)
			pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "web", UID: types.UID(name)}

			first := recorder(e, "test-"+name)
			first.record(pod, "BackOff", "back-off restarting")
			if got := first.requests(); got != "create 201" {
				t.Errorf("requests for a first Event: %q, want one create that is stored", got)
			}
			first.record(pod, "BackOff", "back-off restarting")
			if got, want := first.requests(), "patch "+first.mergeCode(true); got != want {
				t.Errorf("requests for its repeat: %q, want %q", got, want)
			}
			second := recorder(e, "test-"+name)
			second.record(pod, "BackOff", "back-off restarting")
			if got, want := second.requests(), "create "+second.mergeCode(false); got != want {
				t.Errorf("requests for the same Event of another process: %q, want %q", got, want)
			}
			second.record(pod, "BackOff", "back-off restarting")
			if got, want := second.requests(), "patch 404, create "+second.mergeCode(true); got != want {
				t.Errorf("requests for its repeat: %q, want %q", got, want)
			}
			// Each Event has its own reason and takes a token. In addition, 16 reasons have a reserve.
			for i := range 60 {
				second.record(pod, fmt.Sprintf("Reason%d", i), "one of a kind")
			}
			second.requests()
			second.record(pod, "OneMore", "one of a kind")
			if got := second.requests(); got != "create 400" {
				t.Errorf("requests for an Event beyond the spam filter: %q, want one create that is dropped", got)
			}
			second.record(pod, "OneMore", "one of a kind")
			if got := second.requests(); got != "patch 404, create 400" {
				t.Errorf("requests for its repeat: %q, want a patch and a create", got)
			}
		})
	}
}

// forSubtest returns e for a subtest.
func (e *env) forSubtest(t *testing.T) *env {
	t.Helper()
	sub := *e
	sub.T = t
	return &sub
}

// recorder records Events with one of client-go's recorders, one at a time.
type recorder struct {
	*env
	emit   func(about *corev1.ObjectReference, reason, message string)
	log    *requestLog
	series bool
}

// record records an Event and waits until the recorder has finished with it.
func (r *recorder) record(about *corev1.ObjectReference, reason, message string) {
	r.Helper()
	before := r.log.completed()
	r.emit(about, reason, message)
	r.eventually("the recorder has written "+reason, func() bool { return r.log.completed() > before })
}

// requests lists the requests since its last call, with their status codes.
func (r *recorder) requests() string { return r.log.take() }

// mergeCode returns the status code of a merged write. The recorder of events.k8s.io sends a repeat with a series.
func (r *recorder) mergeCode(repeat bool) string {
	if r.series && repeat {
		return "400"
	}
	return "409"
}

// legacyRecorder returns a core/v1 recorder without client-side limits.
func legacyRecorder(e *env, component string) *recorder {
	r := &recorder{env: e, log: &requestLog{}}
	client := r.log.client(e)
	b := record.NewBroadcaster(record.WithContext(e.Context()), record.WithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: math.MaxInt32, MaxEvents: math.MaxInt32,
	}))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	out := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	r.emit = func(about *corev1.ObjectReference, reason, message string) {
		out.Event(about, corev1.EventTypeWarning, reason, message)
	}
	return r
}

// seriesRecorder returns a recorder of events.k8s.io.
func seriesRecorder(e *env, component string) *recorder {
	r := &recorder{env: e, log: &requestLog{}, series: true}
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.log.client(e).EventsV1()})
	e.must(b.StartRecordingToSinkWithContext(e.Context()))
	out := b.NewRecorder(scheme.Scheme, component)
	r.emit = func(about *corev1.ObjectReference, reason, message string) {
		out.Eventf(about, nil, corev1.EventTypeWarning, reason, "Test", "%s", message)
	}
	return r
}
