package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
