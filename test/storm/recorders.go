package storm

import (
	"context"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// newCoreRecorder starts a recorder of core/v1 without client-side limits. It stops with ctx.
func newCoreRecorder(ctx context.Context, client kubernetes.Interface, calls *callTracker, source corev1.EventSource) record.EventRecorder {
	options := record.CorrelatorOptions{BurstSize: math.MaxInt32, MaxEvents: math.MaxInt32}
	b := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(options))
	b.StartRecordingToSink(&coreSink{client.CoreV1(), calls})
	return b.NewRecorder(scheme.Scheme, source)
}

// recordRepeats records the same Event repeatedly, about each pod in turn, like a kubelet whose pods cannot start.
func (s Storm) recordRepeats(ctx context.Context, client kubernetes.Interface, calls *callTracker) {
	r := newCoreRecorder(ctx, client, calls, corev1.EventSource{Component: "kubelet", Host: "node-1"})
	for i := range s.Events {
		r.Event(s.pod(i), corev1.EventTypeWarning, "FailedSync", "error syncing pod, skipping: network is not ready")
	}
}

// recordSimilar records Events with different messages, like a controller that names its current item in the message.
func (s Storm) recordSimilar(ctx context.Context, client kubernetes.Interface, calls *callTracker) {
	r := newCoreRecorder(ctx, client, calls, corev1.EventSource{Component: "endpoint-controller"})
	for i := range s.Events {
		r.Eventf(s.pod(i), corev1.EventTypeWarning, "FailedToUpdate", "cannot update endpoint %s: conflict", serial(i))
	}
}

// recordReasons records Events that share only their object.
func (s Storm) recordReasons(ctx context.Context, client kubernetes.Interface, calls *callTracker) {
	r := newCoreRecorder(ctx, client, calls, corev1.EventSource{Component: "noisy-operator"})
	for i := range s.Events {
		r.Event(s.pod(i), corev1.EventTypeNormal, "Step"+serial(i), "reconciled one more step")
	}
}

// recordSeries records the same Event about an object that changes each time, like a controller with the newer API.
func (s Storm) recordSeries(ctx context.Context, client kubernetes.Interface, calls *callTracker) {
	b := events.NewBroadcaster(&eventsSink{&events.EventSinkImpl{Interface: client.EventsV1()}, calls})
	// StartRecordingToSinkWithContext fails only if it is called twice.
	_ = b.StartRecordingToSinkWithContext(ctx)
	context.AfterFunc(ctx, b.Shutdown)
	r := b.NewRecorder(scheme.Scheme, "queue-controller")
	for i := range s.Events {
		pod := s.pod(i)
		pod.ResourceVersion = serial(i)
		r.Eventf(pod, nil, corev1.EventTypeNormal, "Requeued", "Requeue", "pod is waiting for quota")
	}
}

// serial formats a number for a message.
func serial(i int) string { return strconv.Itoa(100000 + i) }
