// Package storm makes Event storms with the recorders of client-go, against
// the API server of a test cluster and no other.
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

// MaxEvents is the most that one recorder of a storm records: as many as fit
// into a recorder's queue, so that none is lost on the client.
const MaxEvents = 900

// quietTimeout bounds the wait for the last call of a storm.
const quietTimeout = 15 * time.Minute

// Storm is a storm about a few objects. Each recorder has a broadcaster of its own, so
// that none knows what the others have sent.
type Storm struct {
	// Namespace is where the Events go. It exists.
	Namespace string
	// Pods are how many objects the Events are about. Storms that share a
	// Namespace are about the same objects.
	Pods int
	// Events are how many each recorder records, at most MaxEvents.
	Events int
	// Repeating recorders of core/v1 record the same Event again and again.
	Repeating int
	// Similar recorders of core/v1 record Events that differ in their message.
	Similar int
	// Series recorders of events.k8s.io record the same Event about an object
	// that changes.
	Series int
	// Reasons recorders of core/v1 record Events each of which has a reason of
	// its own, which nothing can merge.
	Reasons int
}

// Run records all Events and returns how many calls the recorders made of them,
// when the API server has answered every one.
func (s Storm) Run(ctx context.Context, config *rest.Config) (calls int64, err error) {
	if s.Events > MaxEvents {
		return 0, fmt.Errorf("storm of %d Events a recorder: must have at most %d", s.Events, MaxEvents)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("make the storm's client: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	made := newCallTracker()
	// What is recorded waits in queues, so the recorders send side by side. One records
	// after the other: Events are named by object and nanosecond, and two of one name would
	// be taken for one.
	record := func(recorders int, record func(context.Context, kubernetes.Interface, *callTracker)) {
		for range recorders {
			record(ctx, client, made)
		}
	}
	record(s.Repeating, s.recordRepeats)
	record(s.Similar, s.recordSimilar)
	record(s.Series, s.recordSeries)
	record(s.Reasons, s.recordReasons)
	err = made.wait(ctx)
	return made.ended.Load(), err
}

// pod is the i-th object of the storm.
func (s Storm) pod(i int) *corev1.ObjectReference {
	name := fmt.Sprintf("web-%d", i%s.Pods)
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: name,
		UID: types.UID(s.Namespace + "-" + name),
	}
}

// wait waits until no call is under way and none has begun for a second.
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
