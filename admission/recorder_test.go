package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// sink is the server as a recorder of client-go sees it.
type sink struct {
	*server
	ctx context.Context //nolint:containedctx // the interface of client-go has none to pass
}

var _ record.EventSink = sink{}

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) { return s.create(s.ctx, e) }
func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return nil, fmt.Errorf("recorder puts Event %s", e.Name)
}
func (s sink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.patch(s.ctx, e, data)
}

// TestAStormOfRecorders has processes report on one object, each with a recorder of client-go that limits nothing
// itself. Nothing is lost, and no stored Event is written more often than its interval allows: neither for messages
// that were cut, nor for those that became an aggregate, both of which a recorder goes on to send as it knows them.
func TestAStormOfRecorders(t *testing.T) {
	t.Parallel()
	short := func(i int) string { return fmt.Sprint("message ", i) }
	long := func(i int) string { return fmt.Sprint("message ", i, strings.Repeat(" and so on", 300)) }
	for says, message := range map[string]func(int) string{
		"one message":                func(int) string { return short(1) },
		"one message that is cut":    func(int) string { return long(1) },
		"few messages":               func(i int) string { return short(i % 5) },
		"many messages":              func(i int) string { return short(i % 20) },
		"many messages that are cut": func(i int) string { return long(i % 20) },
		"ever new messages":          short,
	} {
		for _, recorders := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d recorders with %s", recorders, says), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { storm(t, recorders, message) })
			})
		}
	}
}

// storm has recorders report what message says, 200 times each.
func storm(t *testing.T, recorders int, message func(int) string) {
	t.Helper()
	const rounds = 200
	p := defaults()
	s := startServer(t, p)
	s.gate.MaxWriteInterval = time.Minute
	began := time.Now()
	var all []record.EventRecorder
	for range recorders {
		b := record.NewBroadcaster(record.WithContext(t.Context()), record.WithCorrelatorOptions(record.CorrelatorOptions{
			QPS: 1000, BurstSize: 1 << 20, MaxEvents: 1 << 20,
		}))
		b.StartRecordingToSink(sink{s, t.Context()})
		defer b.Shutdown()
		all = append(all, b.NewRecorder(scheme(t), corev1.EventSource{Component: "kubelet", Host: "node-1"}))
	}
	pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}
	for i := range rounds {
		for _, r := range all {
			r.Event(pod, corev1.EventTypeWarning, "BackOff", message(i))
			<-time.After(600 * time.Millisecond) // names come from the clock
		}
	}
	<-time.After(2 * s.gate.MaxWriteInterval) // a drain would not wait for it
	s.stop()
	s.checkWrites(p.Merge.WriteInterval, s.gate.MaxWriteInterval, time.Since(began))
	s.checkMessages(p.MaxMessageBytes)
	if got := s.occurrences(); got != int32(recorders*rounds) {
		t.Errorf("Events and notices count %d occurrences, want %d", got, recorders*rounds)
	}
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}
