package storm

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// MaxPodsPerNode is the capacity of a node: as many pods as a kubelet can record about
// before its recorder has sent anything, so that none is lost on the client.
const MaxPodsPerNode = MaxEvents / eventsPerPod

// Wide is a storm about many objects with a handful of Events each: pods that are
// scheduled, started, deleted and killed. kube-scheduler, which must run, writes the
// Scheduled Events, 9 %, and one simulated kubelet a node the others: Killing is 34 %,
// and Pulled, Created and Started 19 % each. These are the proportions of the storm of
// kubernetes/kubernetes#141022.
type Wide struct {
	// Namespace is where the pods and the Events go. It exists.
	Namespace string
	// Pods are how many there are, at most MaxPodsPerNode for each kubelet.
	Pods int
	// Kubelets are the client configurations of one kubelet each.
	Kubelets []*rest.Config
}

// Run makes the storm and returns when no pod is left and every call of the kubelets has
// been answered. The scheduler may still be writing. The nodes are there only meanwhile.
func (w Wide) Run(ctx context.Context, config *rest.Config) (err error) {
	if most := MaxPodsPerNode * len(w.Kubelets); w.Pods > most {
		return fmt.Errorf("storm of %d pods on %d nodes: must have at most %d", w.Pods, len(w.Kubelets), most)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the storm's client: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, settledWithin)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	made := newCallCount()
	// With room for every pod, so that no kubelet waits.
	running, ended := make(chan string, w.Pods), make(chan string, w.Pods)
	for i, config := range w.Kubelets {
		k, err := newKubelet(ctx, config, made, NodeName(i))
		if err != nil {
			return err
		}
		k.running, k.ended, k.fail = running, ended, fail
		go k.run(ctx, w.Namespace)
	}
	if err := w.createNodes(ctx, client); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.deleteNodes(ctx, client)) }()

	var lives errgroup.Group
	lives.Go(func() error { return w.createPods(ctx, client) })
	lives.Go(func() error { return w.deletePods(ctx, client, running) })
	lives.Go(func() error { return w.each(ctx, ended, func(string) error { return nil }) })
	if err := lives.Wait(); err != nil {
		return fmt.Errorf("storm of pods: %w", err)
	}
	return made.wait(ctx)
}

// NodeName is the name of the node of the i-th kubelet, from 0.
func NodeName(i int) string { return fmt.Sprint("node-", i+1) }

// createNodes creates the nodes. Their taint of being not ready stays, as no controller
// runs that would take it away: the other pods of the cluster are not for them.
func (w Wide) createNodes(ctx context.Context, client kubernetes.Interface) error {
	capacity := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(MaxPodsPerNode, resource.DecimalSI)}
	for i := range w.Kubelets {
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: NodeName(i), Labels: map[string]string{corev1.LabelHostname: NodeName(i)}},
			Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create node: %w", err)
		}
	}
	return nil
}

func (w Wide) deleteNodes(ctx context.Context, client kubernetes.Interface) error {
	for i := range w.Kubelets {
		if err := client.CoreV1().Nodes().Delete(ctx, NodeName(i), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete node: %w", err)
		}
	}
	return nil
}

func (w Wide) createPods(ctx context.Context, client kubernetes.Interface) error {
	labels := map[string]string{"app": "web"}
	for i := range w.Pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Labels: labels},
			Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				// Otherwise the scheduler may fill one node after the other.
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
				}},
			},
		}
		for _, name := range containers() {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name})
		}
		if _, err := client.CoreV1().Pods(w.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod: %w", err)
		}
	}
	return nil
}

// deletePods deletes each pod once it runs.
func (w Wide) deletePods(ctx context.Context, client kubernetes.Interface, running <-chan string) error {
	return w.each(ctx, running, func(pod string) error {
		return client.CoreV1().Pods(w.Namespace).Delete(ctx, pod, metav1.DeleteOptions{})
	})
}

// each does something with every pod that comes, until all have.
func (w Wide) each(ctx context.Context, pods <-chan string, do func(pod string) error) error {
	for range w.Pods {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case pod := <-pods:
			if err := do(pod); err != nil {
				return err
			}
		}
	}
	return nil
}
