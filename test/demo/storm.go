package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	stormpkg "github.com/eventquota/eventquota/test/storm"
)

const (
	// processes storm side by side: recorders of one process share nothing
	// with those of another.
	processes = 3
	// pods cannot be scheduled, so that the scheduler tells of them too.
	pods = 200
)

// storm is one process of the storm.
func storm(ctx context.Context, kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	config.QPS = -1
	_, err = stormpkg.Storm{
		Namespace: namespace,
		Pods:      5,
		Events:    700,
		Repeating: 4,
		Similar:   4,
		Series:    4,
		Reasons:   1,
	}.Run(ctx, config)
	return err
}

// unleash runs the whole storm in a namespace of its own and returns when its
// last call has been answered.
func unleash(ctx context.Context, client kubernetes.Interface, kubeconfig, namespace string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	stormers, ctx := errgroup.WithContext(ctx)
	for range processes {
		stormers.Go(func() error {
			process := exec.CommandContext(ctx, self, "-storm="+namespace, "-kubeconfig="+kubeconfig)
			process.Stderr = os.Stderr
			if err := process.Run(); err != nil {
				return fmt.Errorf("storm: %w", err)
			}
			return nil
		})
	}
	stormers.Go(func() error { return unschedulable(ctx, client, namespace) })
	return stormers.Wait()
}

// unschedulable creates pods that no node can take.
func unschedulable(ctx context.Context, client kubernetes.Interface, namespace string) error {
	for i := range pods {
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
