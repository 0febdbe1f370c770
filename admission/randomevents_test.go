package admission_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// eventGenerator makes random Events: bursts about one thing, at moments that are whole seconds apart, so that the rounding of
// client-go's float32 rate does not show. The bounds of the default policy, 300 and 600 seconds, are met exactly as
// often as they are missed by one second.
type eventGenerator struct {
	rand      *rand.Rand
	now       time.Time
	generated int
	// actor, reason and kind are those of the current burst.
	actor, reason, kind int
}

func newEventGenerator(seed uint64) *eventGenerator {
	return &eventGenerator{rand: rand.New(rand.NewPCG(seed, seed)), now: epoch()}
}

// next returns another Event, with a count of 1 and no name, and its time.
func (t *eventGenerator) next() (*corev1.Event, time.Time) {
	t.generated++
	if t.rand.IntN(12) == 0 {
		t.actor, t.reason, t.kind = t.rand.IntN(actorCount), t.rand.IntN(len(messagesPerReason())), t.rand.IntN(2)
	}
	t.now = t.now.Add(time.Duration(t.gapSeconds()) * time.Second)
	e := &corev1.Event{
		Type:           []string{corev1.EventTypeNormal, corev1.EventTypeWarning}[t.kind],
		Reason:         fmt.Sprintf("Reason%d", t.reason),
		Message:        t.message(),
		Count:          1,
		FirstTimestamp: metav1.NewTime(t.now),
		LastTimestamp:  metav1.NewTime(t.now),
	}
	setActor(e, t.actor)
	return e, t.now
}

// gapSeconds returns the seconds until the next Event.
func (t *eventGenerator) gapSeconds() int {
	switch n := t.rand.IntN(100); {
	case n < 50:
		return 0
	case n < 75:
		return 1 + t.rand.IntN(10)
	case n < 92:
		return 11 + t.rand.IntN(200)
	case n < 95:
		return 299 + t.rand.IntN(3)
	case n < 99:
		return 599 + t.rand.IntN(3)
	}
	return t.rand.IntN(20_000)
}

// messagesPerReason has the number of messages of each reason: below, at and above the threshold of similar Events.
func messagesPerReason() []int { return []int{1, 4, 9, 10, 11, 30} }

func (t *eventGenerator) message() string {
	if t.rand.IntN(10) == 0 {
		return fmt.Sprintf("fresh %d", t.generated)
	}
	return fmt.Sprintf("message %d", t.rand.IntN(messagesPerReason()[t.reason]))
}

const actorCount = 7

// setActor sets the source and object of the Event. Any two actors differ in one field of a key.
func setActor(e *corev1.Event, actor int) {
	e.Namespace = "default"
	e.Source = corev1.EventSource{Component: "kubelet", Host: "node-1"}
	e.InvolvedObject = corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web",
		UID: "uid-1", FieldPath: "spec.containers{web}",
	}
	switch actor {
	case 1:
		e.InvolvedObject.FieldPath = "spec.containers{db}"
	case 2:
		e.Source.Host = "node-2"
	case 3:
		e.InvolvedObject.UID = "uid-2"
	case 4:
		e.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}
	case 5:
		e.Source = corev1.EventSource{Component: "replicaset-controller"}
		e.InvolvedObject.APIVersion, e.InvolvedObject.Kind = "apps/v1", "ReplicaSet"
	case 6:
		// As through events.k8s.io. client-go's keys have no reporter where the
		// source is empty, so only one reports on this object.
		e.Source, e.EventTime = corev1.EventSource{}, metav1.NewMicroTime(e.FirstTimestamp.Time)
		e.InvolvedObject.UID, e.Action = types.UID("uid-3"), "Scheduling"
	}
	e.ReportingController, e.ReportingInstance = e.Source.Component, e.Source.Host
	if actor == 6 {
		e.ReportingController, e.ReportingInstance = "default-scheduler", "default-scheduler-1"
	}
}
