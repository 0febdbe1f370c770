package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/storm"
)

// pacedStorm makes storms of real recorders, which together make as many requests a second
// as rate says, until end is called. That returns when the API server has answered all.
// Each storm is about objects of its own, so that a count that is lost is not told later.
func (e *setEnv) pacedStorm(rate int) (end func() error) {
	return storm.Paced(e.Context(), e.config, rate, 2, func(lane, n int) (storm.Storm, error) {
		namespace := fmt.Sprintf("storm-%d-%d", lane, n)
		_, err := e.client.CoreV1().Namespaces().Create(e.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		return storm.Storm{
			Namespace: namespace, Pods: 3, Events: 100, Repeating: 1, Similar: 3, Series: 2, Reasons: 2,
		}, err
	})
}

// repeats makes one client a pod, until end is called, each with an Event that is stored. It counts that
// one on and creates the same Event under other names, in turn.
func (e *setEnv) repeats(namespace string, pods int) (end func() error) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	events := e.client.CoreV1().Events(namespace)
	var clients errgroup.Group
	for pod := range pods {
		name := fmt.Sprint("web-", pod)
		_, err := events.Create(ctx, coreEvent(namespace, name, name, "back-off"), metav1.CreateOptions{})
		e.must(err)
		clients.Go(func() error {
			return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, false, counting(func(n int) error {
				if n%2 == 0 {
					_, err := events.Patch(e.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"count":%d}`, 2+n/2), metav1.PatchOptions{})
					return err
				}
				_, err := events.Create(e.Context(), coreEvent(namespace, fmt.Sprint(name, "-", n), name, "back-off"), metav1.CreateOptions{})
				return err
			}))
		})
	}
	return func() error {
		cancel()
		if err := clients.Wait(); !wait.Interrupted(err) {
			return err
		}
		return nil
	}
}

// counting calls do with 0, 1 and so on, and expects each write to be stored or merged.
func counting(do func(n int) error) wait.ConditionWithContextFunc {
	n := -1
	return func(context.Context) (bool, error) {
		n++
		if err := do(n); err != nil && !apierrors.IsAlreadyExists(err) {
			return false, err
		}
		return false, nil
	}
}

// allCalledBut tells whether all replicas but one, which has ended, have answered reviews.
func (e *setEnv) allCalledBut(ended int) bool {
	e.Helper()
	for i, r := range e.set.Replicas {
		if i == ended {
			continue
		}
		answered, err := r.Decisions(e.Context())
		e.must(err)
		if answered["mutate"] == 0 {
			return false
		}
	}
	return true
}

// shippedDeployment is the webhook's, as production runs it.
func shippedDeployment(t *testing.T) (d appsv1.Deployment) {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	if err := shipped.Find(objects, "Deployment", "eventquota", &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// shippedFlags are those of a Deployment that do not say where things are.
func shippedFlags(d appsv1.Deployment) (flags []string) {
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--") && !strings.HasPrefix(arg, "--redis-") && !strings.HasPrefix(arg, "--cert-dir=") {
			flags = append(flags, arg)
		}
	}
	return flags
}
