package e2e

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// testStormLeavesOthersTheirQuota lets many controllers write to one namespace as fast as they can, under the shipped quotas. Meanwhile
// each of fifty quiet namespaces starts a pod, and none of their Events may be refused.
func (e *env) testStormLeavesOthersTheirQuota() {
	const writers, quiet = 8, 50
	const podLives = "../../manifests/components/recommended-100-nodes/pod-lives.yaml"
	e.kubectl("", "apply", "-f", podLives) // the ceiling is installed
	defer e.kubectl("", "delete", "-f", podLives)
	namespaces := []string{e.namespace("storm")}
	for i := range quiet {
		namespaces = append(namespaces, e.namespace(fmt.Sprint("quiet-", i)))
	}
	e.kubectl("", "wait", "--for=condition=Ready", "--timeout=5m", "cevq/ceiling", "cevq/pod-lives")

	config := rest.CopyConfig(e.config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	e.must(err)
	stored := func(ctx context.Context, namespace, controller, reason string, n int64) (bool, error) {
		pod := fmt.Sprint("web-", n)
		event := coreEvent(namespace, fmt.Sprint(pod, ".", controller, ".", reason), pod, reason)
		event.Reason, event.Type, event.Source = reason, corev1.EventTypeNormal, corev1.EventSource{Component: controller}
		_, err := client.CoreV1().Events(namespace).Create(ctx, event, metav1.CreateOptions{})
		if isRefusedUnmerged(err) {
			return false, nil
		}
		return true, err
	}
	var refused, serial atomic.Int64
	ctx, stop := context.WithCancel(e.Context())
	defer stop()
	var storm errgroup.Group
	for range writers {
		storm.Go(func() error {
			for ctx.Err() == nil {
				n := serial.Add(1)
				ok, err := stored(ctx, namespaces[0], fmt.Sprint("controller-", n%40), "Killing", n)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					return err
				case !ok:
					refused.Add(1)
				}
			}
			return nil
		})
	}
	e.eventually("the namespace of the storm has no tokens left", func() bool { return refused.Load() > 1000 })
	for i, namespace := range namespaces[1:] {
		for _, reason := range []string{"SuccessfulCreate", "Scheduled", "Pulled", "Created", "Started"} {
			ok, err := stored(e.Context(), namespace, "kubelet", reason, int64(i))
			if e.must(err); !ok {
				e.Errorf("%s in namespace %s was refused, want it stored", reason, namespace)
			}
		}
	}
	stop()
	e.must(storm.Wait())
}
