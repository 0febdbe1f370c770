package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/storm"
)

const (
	// pending pods cannot be scheduled, so that the scheduler writes about them.
	pending = 200

	widePods  = 1000
	wideNodes = 20
)

// scenario is a storm that is measured with and without eventquota.
type scenario struct {
	// name begins the names of its two namespaces, and prefix those of its figures.
	name, prefix string
	// says is what it does, in plain words.
	says string
	// policy governs it, the built-in default when it is empty.
	policy string
	// shows are field selectors of the Events that are printed.
	shows []string
	// writers are who write its Events. None is an administrator, whose requests the API server would not queue.
	writers []writer
	// run makes the storm in a namespace, with the client configurations of an administrator and of the writers, and returns
	// when it has done all that it does.
	run func(ctx context.Context, namespace string, admin *rest.Config, writers []*rest.Config) error
}

// writer is a user who writes Events.
type writer struct {
	user   string
	groups []string
}

// scenarios are the storms, on a cluster with a scheduler.
func scenarios() []scenario {
	kubelets := make([]writer, wideNodes)
	for i := range kubelets {
		kubelets[i] = writer{"system:node:" + storm.NodeName(i), []string{"system:nodes"}}
	}
	return []scenario{
		{
			name: "storm",
			says: fmt.Sprintf(`A storm about few objects: 39 recorders write about the same five pods again and again,
and the scheduler about %d pods that no node can take. No policy is applied.`, pending),
			shows:   []string{"involvedObject.name=web-0", "involvedObject.name=pending-0"},
			writers: []writer{{"system:serviceaccount:operators:noisy", []string{"system:serviceaccounts", "system:serviceaccounts:operators"}}},
			run:     narrow,
		},
		{
			name: "wide", prefix: "wide_",
			says: fmt.Sprintf(`A storm about many objects: %d pods are scheduled to %d nodes, started, deleted and killed.
The scheduler and the kubelets write about eleven Events for each, so limits for each object
do nothing. This policy gives each namespace a quota:`, widePods, wideNodes),
			policy:  quota,
			shows:   []string{"reason=EventsDropped"},
			writers: kubelets,
			run: func(ctx context.Context, namespace string, admin *rest.Config, kubelets []*rest.Config) error {
				return storm.Wide{Namespace: namespace, Pods: widePods, Kubelets: kubelets}.Run(ctx, admin)
			},
		},
	}
}

// narrow is the storm about few objects.
func narrow(ctx context.Context, namespace string, admin *rest.Config, writers []*rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	stormers, both := errgroup.WithContext(ctx)
	stormers.Go(func() error {
		_, err := storm.Storm{
			Namespace: namespace,
			Pods:      5,
			Events:    700,
			Repeating: 12,
			Similar:   12,
			Series:    12,
			Reasons:   3,
		}.Run(both, writers[0])
		return err
	})
	stormers.Go(func() error { return unschedulable(both, client, namespace) })
	if err := stormers.Wait(); err != nil {
		return err
	}
	// So that the scheduler has nothing more to write.
	err = client.CoreV1().Pods(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	return nil
}

// unschedulable creates pods that no node can take.
func unschedulable(ctx context.Context, client kubernetes.Interface, namespace string) error {
	for i := range pending {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pending-%d", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "pause"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create pod: %w", err)
		}
	}
	return nil
}
