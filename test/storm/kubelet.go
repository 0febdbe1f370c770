package storm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// eventsPerPod is the most that a kubelet records about one pod.
const eventsPerPod = 10

// containers are those of each pod.
func containers() []string { return []string{"web", "proxy"} }

// kubelet does what a kubelet does to the API server, and runs nothing: it watches the
// pods of its node and records their lives, with the recorder and the limits of a kubelet.
type kubelet struct {
	node     string
	client   kubernetes.Interface
	recorder record.EventRecorder
	lives    map[types.UID]*life // of all pods so far

	running, ended chan<- string // names of pods
	fail           func(error)   // ends the storm
}

// life is what has been recorded about a pod.
type life struct {
	number          int // of the pod on its node, from 0
	started, killed bool
}

// newKubelet is a kubelet whose recorder stops with ctx.
func newKubelet(ctx context.Context, config *rest.Config, calls *callCount, node string) (*kubelet, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a kubelet's client: %w", err)
	}
	source := corev1.EventSource{Component: "kubelet", Host: node}
	return &kubelet{
		node: node, client: client, lives: map[types.UID]*life{},
		recorder: newRecorder(ctx, client, calls, source, record.CorrelatorOptions{}),
	}, nil
}

// run watches the pods of a namespace until ctx ends.
func (k *kubelet) run(ctx context.Context, namespace string) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(k.client.CoreV1().RESTClient(), "pods", namespace,
			fields.OneTermEqualSelector("spec.nodeName", k.node)),
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(pod any) { k.sync(ctx, pod.(*corev1.Pod)) },
			UpdateFunc: func(_, pod any) { k.sync(ctx, pod.(*corev1.Pod)) },
		},
	})
	controller.RunWithContext(ctx)
}

// sync starts a pod that is new, and kills one that is being deleted.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) {
	of := k.lives[pod.UID]
	if of == nil {
		of = &life{number: len(k.lives)}
		k.lives[pod.UID] = of
	}
	if !of.started {
		of.started = true
		k.start(pod)
		k.running <- pod.Name
	}
	if pod.DeletionTimestamp != nil && !of.killed {
		of.killed = true
		k.kill(pod, of.number)
		err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			k.fail(fmt.Errorf("kubelet %s: delete pod %s: %w", k.node, pod.Name, err))
		}
		k.ended <- pod.Name
	}
}

func (k *kubelet) start(pod *corev1.Pod) {
	for _, name := range containers() {
		k.record(pod, name, "Pulled", "Container image %q already present on machine")
		k.record(pod, name, "Created", "Created container: %s")
		k.record(pod, name, "Started", "Started container %s")
	}
}

// kill records that each container is killed, and once more at the next sync, before which
// one container of every third pod has ended.
func (k *kubelet) kill(pod *corev1.Pod, number int) {
	killings := append(containers(), containers()...)
	if number%3 == 0 {
		killings = killings[:3]
	}
	for _, name := range killings {
		k.record(pod, name, "Killing", "Stopping container %s")
	}
}

func (k *kubelet) record(pod *corev1.Pod, container, reason, message string) {
	k.recorder.Eventf(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: fmt.Sprintf("spec.containers{%s}", container),
	}, corev1.EventTypeNormal, reason, message, container)
}
