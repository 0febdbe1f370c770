package main

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/eventquota/eventquota/test/flood"
)

const (
	wideNodes   = 200
	podsPerNode = 5
)

// kubelet records the Events of its node's pods as kubelets do, with client-go's recorder and its default limits.
type kubelet struct {
	record.EventRecorder

	node, namespace string
	sent            <-chan struct{} // closed once every Event has been answered
}

// lastReason marks the last Event, which is not sent. A recorder sends its Events one after the other, so the API
// server has answered all earlier ones by then.
const lastReason = "Last"

// endingSink sends Events, and closes sent at the last one.
type endingSink struct {
	record.EventSink

	sent chan<- struct{}
}

// Create implements record.EventSink.
func (s endingSink) Create(e *corev1.Event) (*corev1.Event, error) {
	if e.Reason == lastReason {
		close(s.sent)
		return e, nil
	}
	return s.EventSink.Create(e)
}

// newKubelet creates the kubelet of the i-th node, with its own connection. Its recorder stops with ctx.
func newKubelet(ctx context.Context, admin *rest.Config, namespace string, i int) (*kubelet, error) {
	config := impersonate(admin, flood.Node(i))
	// Clients with equal configurations share a connection, so each needs its own dialer.
	config.Dial = new(net.Dialer).DialContext
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a kubelet's client: %w", err)
	}
	sent := make(chan struct{})
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(endingSink{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(namespace)}, sent})
	node := fmt.Sprint("node-", i)
	return &kubelet{
		EventRecorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node}),
		node:          node, namespace: namespace, sent: sent,
	}, nil
}

// run starts all pods of the node, kills them, and waits until all these Events have been answered.
func (k *kubelet) run(ctx context.Context) error {
	containers := []string{"web", "proxy"}
	for pod := range podsPerNode {
		for _, c := range containers {
			k.record(pod, c, "Pulled", "Container image %q already present on machine")
			k.record(pod, c, "Created", "Created container: %s")
			k.record(pod, c, "Started", "Started container %s")
		}
	}
	for pod := range podsPerNode {
		for _, c := range containers {
			k.record(pod, c, "Killing", "Stopping container %s")
		}
	}
	k.record(0, "", lastReason, "%s")
	select {
	case <-k.sent:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *kubelet) record(pod int, container, reason, message string) {
	name := fmt.Sprintf("%s-web-%d", k.node, pod)
	k.Eventf(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: k.namespace, Name: name, UID: types.UID(k.namespace + "-" + name),
		FieldPath: fmt.Sprintf("spec.containers{%s}", container),
	}, corev1.EventTypeNormal, reason, message, container)
}

// runWide runs the storm about many objects.
func runWide(ctx context.Context, admin *rest.Config, namespace string) error {
	kubelets := make([]*kubelet, wideNodes)
	for i := range kubelets {
		var err error
		if kubelets[i], err = newKubelet(ctx, admin, namespace, i); err != nil {
			return err
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, k := range kubelets {
		all.Go(func() error { return k.run(ctx) })
	}
	return all.Wait()
}
