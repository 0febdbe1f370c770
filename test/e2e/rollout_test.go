package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/manifests/shipped"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storm"
)

const (
	// requestRate is the number of requests a second by recorders during a rollout.
	requestRate = 50
	// endpointLag is how long a replica may remain an endpoint after its stop signal. The shipped shutdown delay is
	// more than twice that, to leave time for a busy machine.
	endpointLag = 2 * time.Second
)

// TestRolloutFailsNoCallAndLosesNoCount replaces all replicas of the shipped Deployment, with its flags and its
// surge, while recorders write Events. In Kubernetes, the stop signal and the removal of the endpoint race each other,
// so each replica stops in a different order. In package store/redis, TestReplicasOfTwoVersionsShareRegisters has
// replicas of two versions.
func TestRolloutFailsNoCallAndLosesNoCount(t *testing.T) {
	t.Parallel()
	d := shippedDeployment(t)
	endings := []func(*setEnv, int){(*setEnv).removeEndpointThenStop, (*setEnv).stopThenRemoveEndpoint, (*setEnv).stopAndRemoveEndpoint}
	replicas, surge := int(*d.Spec.Replicas), d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue()
	if replicas != len(endings) || surge != 1 {
		t.Fatalf("the Deployment has %d replicas and a surge of %d, want %d and 1, as this test assumes", replicas, surge, len(endings))
	}
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, replicas+surge, append(shippedFlags(d),
		"--redis-addresses="+redis.Addr(),
		"--store-deadline=1s",       // a busy machine must not make Redis unavailable
		"--calls-per-connection=10", // new connections start at every moment and reach each endpoint
	)...)
	free := replicas // the index of the stopped replica, for the surge
	e.must(e.set.Stop(t.Context(), free))

	begun := time.Now()
	end := e.pacedStorm(requestRate)
	e.eventually("all replicas are called", func() bool { return e.othersAnswered(free) })
	oldest := 0
	since := time.Now()
	for _, ending := range endings {
		e.must(e.set.Restart(t.Context(), free))
		ending(e, oldest)
		free, oldest = oldest, (oldest+1)%len(e.set.Replicas)
	}
	t.Logf("the rollout took %s", time.Since(since).Round(time.Second))
	e.eventually("all new replicas are called", func() bool { return e.othersAnswered(free) })
	e.must(end())
	lasted := time.Since(begun)
	e.checkNoneFailedInRollout(int64(len(endings)))

	sent := e.audit().PerObject()
	t.Logf("%d occurrences about %d objects reached the API server in %s: %.0f a second",
		e.audit().Occurrences(), len(sent), lasted.Round(time.Second), float64(e.audit().Occurrences())/lasted.Seconds())
	e.eventually("all occurrences are reported", func() bool { return cmp.Equal(sent, e.reportedByObject()) })
	var stops errgroup.Group
	for i, r := range e.set.Replicas {
		if i != free {
			stops.Go(r.Stop)
		}
	}
	e.must(stops.Wait())
	if diff := cmp.Diff(sent, e.reportedByObject()); diff != "" {
		t.Errorf("occurrences after all replicas stopped (-sent +reported):\n%s", diff)
	}
}

// TestSingleReplicaRolloutLosesNoCount restarts the only replica, which holds all state in memory, as the shipped
// Deployment does. The old and the new replica decide side by side for some time, and each merges into Events that
// the other also knows. Each Event is created under its own name or repeats a stored one, because a replica's record
// of refused names ends with it.
func TestSingleReplicaRolloutLosesNoCount(t *testing.T) {
	t.Parallel()
	e := newSetEnv(t, 2, append(shippedFlags(shippedDeployment(t)), "--calls-per-connection=20")...)
	e.must(e.set.Stop(t.Context(), 1))
	end := e.repeatEvents(e.namespace("rollout"), 4)
	e.eventually("the old replica is called", func() bool { return e.othersAnswered(1) })
	e.must(e.set.Restart(t.Context(), 1))
	for range 20 { // while both replicas decide
		before := e.decisions("validate")
		e.eventually("both replicas are called", func() bool {
			now := e.decisions("validate")
			return now[0] > before[0] && now[1] > before[1]
		})
	}
	e.stopThenRemoveEndpoint(0)
	e.must(end())
	e.checkNoneFailedInRollout(1)
	e.must(e.set.Replicas[1].Stop())
	sent, reported := e.audit().PerObject(), e.reportedByObject()
	t.Logf("%d occurrences about %d objects reached the API server", e.audit().Occurrences(), len(sent))
	if diff := cmp.Diff(sent, reported); diff != "" {
		t.Errorf("occurrences after both replicas stopped (-sent +reported):\n%s", diff)
	}
}

// removeEndpointThenStop stops a replica once the API server has noticed the removal of its endpoint.
func (e *setEnv) removeEndpointThenStop(i int) {
	e.Helper()
	e.must(e.set.Stop(e.Context(), i))
}

// stopThenRemoveEndpoint stops a replica that is still called for endpointLag.
func (e *setEnv) stopThenRemoveEndpoint(i int) {
	e.Helper()
	e.endpointAfterSignal(i, endpointLag)
}

// stopAndRemoveEndpoint stops a replica and removes its endpoint at the same time.
func (e *setEnv) stopAndRemoveEndpoint(i int) {
	e.Helper()
	e.endpointAfterSignal(i, 0)
}

func (e *setEnv) endpointAfterSignal(i int, lag time.Duration) {
	e.Helper()
	ended := make(chan error, 1)
	go func() { ended <- e.set.Replicas[i].Stop() }()
	<-time.After(lag)
	e.must(e.set.SetReady(e.Context(), i, false))
	e.must(<-ended)
}

// pacedStorm runs storms of client-go's recorders until end is called. Together they make rate requests a second. end
// returns once the API server has answered all of them. Each storm has its own objects, so that a later storm cannot
// report a lost count.
func (e *setEnv) pacedStorm(rate int) (end func() error) {
	return storm.RunPaced(e.Context(), e.config, rate, 2, func(worker, n int) (storm.Storm, error) {
		namespace := fmt.Sprintf("storm-%d-%d", worker, n)
		_, err := e.client.CoreV1().Namespaces().Create(e.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		return storm.Storm{
			Namespace: namespace, Pods: 3, Events: 40, Repeating: 1, Similar: 3, Series: 2, Reasons: 2,
		}, err
	})
}

// repeatEvents runs one client per pod until end is called. Each creates an Event, and then alternately increments
// its count and creates the same Event under another name.
func (e *setEnv) repeatEvents(namespace string, pods int) (end func() error) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	events := e.client.CoreV1().Events(namespace)
	var clients errgroup.Group
	for pod := range pods {
		name := fmt.Sprint("web-", pod)
		_, err := events.Create(ctx, coreEvent(namespace, name, name, "back-off"), metav1.CreateOptions{})
		e.must(err)
		clients.Go(func() error {
			return wait.PollUntilContextCancel(ctx, 40*time.Millisecond, false, requireStoredOrMerged(func(n int) error {
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

// requireStoredOrMerged calls do with 0, 1, 2 and so on. It returns an error for a write that is neither stored nor
// merged.
func requireStoredOrMerged(do func(n int) error) wait.ConditionWithContextFunc {
	n := -1
	return func(context.Context) (bool, error) {
		n++
		if err := do(n); err != nil && !apierrors.IsAlreadyExists(err) {
			return false, err
		}
		return false, nil
	}
}

// othersAnswered reports whether all replicas except the stopped one have answered reviews.
func (e *setEnv) othersAnswered(stopped int) bool {
	e.Helper()
	for i, r := range e.set.Replicas {
		if i == stopped {
			continue
		}
		answered, err := r.Decisions(e.Context(), "phase")
		e.must(err)
		if answered["mutate"] == 0 {
			return false
		}
	}
	return true
}

// shippedDeployment returns the webhook's Deployment of the base manifests.
func shippedDeployment(t *testing.T) (d appsv1.Deployment) {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	if err := shipped.FindInto(objects, "Deployment", "eventquota", &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// shippedFlags returns the flags of a Deployment, except addresses of Redis and the path of the certificate.
func shippedFlags(d appsv1.Deployment) (flags []string) {
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--") && !strings.HasPrefix(arg, "--redis-") && !strings.HasPrefix(arg, "--cert-dir=") {
			flags = append(flags, arg)
		}
	}
	return flags
}
