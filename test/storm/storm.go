// Package storm makes Event storms with client-go's recorders, for the API server of a test cluster.
package storm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// MaxEvents limits the Events of one recorder to the size of its queue, so that none is
// lost in the client.
const MaxEvents = 900

// quietTimeout limits the wait for the last call of a storm.
const quietTimeout = 15 * time.Minute

// Storm is a storm about a few objects. Each recorder has its own broadcaster, so that it does not merge its Events
// with those of other recorders.
type Storm struct {
	// Namespace gets the Events. It must exist.
	Namespace string
	// Pods is the number of involved objects. Storms in the same Namespace share these objects.
	Pods int
	// Events is the number of Events of each recorder, at most MaxEvents.
	Events int
	// Repeating is the number of core/v1 recorders that record the same Event repeatedly.
	Repeating int
	// Similar is the number of core/v1 recorders whose Events differ in their message.
	Similar int
	// Series is the number of events.k8s.io recorders that record the same Event about a changing object.
	Series int
	// Reasons is the number of core/v1 recorders whose Events have distinct reasons, so that they cannot be merged.
	Reasons int
}

// Run records all Events, waits until the API server has answered every call of the
// recorders, and returns the number of calls.
func (s Storm) Run(ctx context.Context, config *rest.Config) (calls int64, err error) {
	if s.Events > MaxEvents {
		return 0, fmt.Errorf("a recorder of the storm has %d Events, allowed are at most %d", s.Events, MaxEvents)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("make the storm's client: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tracker := newCallTracker()
	// Events wait in queues, so the recorders send concurrently. But they record one after the other: the name of an
	// Event consists of its object and the time in nanoseconds. Two Events of the same name would count as one.
	record := func(recorders int, record func(context.Context, kubernetes.Interface, *callTracker)) {
		for range recorders {
			record(ctx, client, tracker)
		}
	}
	record(s.Repeating, s.recordRepeats)
	record(s.Similar, s.recordSimilar)
	record(s.Series, s.recordSeries)
	record(s.Reasons, s.recordReasons)
	err = tracker.wait(ctx)
	return tracker.ended.Load(), err
}

// pod returns the i-th object of the storm.
func (s Storm) pod(i int) *corev1.ObjectReference {
	name := fmt.Sprintf("web-%d", i%s.Pods)
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: name,
		UID: types.UID(s.Namespace + "-" + name),
	}
}

// wait waits until no call is in flight and none has begun for a second.
func (c *callTracker) wait(ctx context.Context) error {
	const step, quiet = 50 * time.Millisecond, 20
	last, same := int64(-1), 0
	err := wait.PollUntilContextTimeout(ctx, step, quietTimeout, true, func(context.Context) (bool, error) {
		begun, ended := c.begun.Load(), c.ended.Load()
		if begun != ended || begun != last {
			last, same = begun, 0
			return false, nil
		}
		same++
		return same >= quiet, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the storm's calls: %w", err)
	}
	return nil
}
