package e2e

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/storm"
)

// TestStorm checks I1, I2 and I4 in one storm of client-go's recorders for both APIs and kube-scheduler.
func TestStorm(t *testing.T) {
	t.Parallel()
	e := newEnvOn(t, cluster.ForTest(t, cluster.Options{Scheduler: true}))
	namespace := e.namespace("storm")
	begun := time.Now()

	calls := e.storm(namespace)
	e.eventually("the scheduler has reported every pod", func() bool {
		reported := map[string]bool{}
		events, err := e.client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		e.must(err)
		for i := range events.Items {
			reported[events.Items[i].InvolvedObject.Name] = true
		}
		return len(reported) == pendingPods
	})
	// The settler must also write counts during the storm, so a flush interval must pass.
	e.eventually("the settler has written counts", func() bool { return e.audit().MostWrites() > 1 })
	e.checkExplain(namespace, "web-0")
	e.must(e.client.CoreV1().Pods(namespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	e.stopReplica()
	audit := e.audit()
	sent, reported := audit.Occurrences(), e.reportedOccurrences("")
	t.Logf("%d occurrences reached the API server, and %d are reported; the most writes of one Event: %d", sent, reported, audit.MostWrites())
	if reported != sent {
		t.Errorf("stored Events and notices report %d occurrences, want the %d that reached the API server", reported, sent)
	}
	if sent < 3*eventsEach {
		t.Errorf("only %d occurrences reached the API server, want at least %d", sent, 3*eventsEach)
	}
	e.checkWriteInterval(begun)
	if requests := e.stormRequests(); requests != calls {
		t.Errorf("the recorders made %d requests for %d calls, want one each", requests, calls)
	}
	e.checkNoneFailed()
}

// checkWriteInterval checks I2 for the time since begun. The replicas must have stopped.
func (e *env) checkWriteInterval(begun time.Time) {
	e.Helper()
	lasted := time.Since(begun)
	// One more write is allowed, because a stopping replica writes its pending counts early.
	if most, bound := e.audit().MostWrites(), 2+int64(lasted/flushInterval); most > bound {
		e.Errorf("an Event was written %d times in %s, want at most %d", most, lasted, bound)
	}
}

const (
	pendingPods = 20
	eventsEach  = 80
	stormUser   = "stormer"
)

// storm runs two storms at once, whose recorders share nothing, and creates pods that no node can take. It returns
// the number of calls to the recorders.
func (e *env) storm(namespace string) (calls int64) {
	e.Helper()
	config, _, err := e.cluster.User(stormUser, "system:masters")
	e.must(err)
	var storms errgroup.Group
	made := make([]int64, 2)
	for i := range made {
		storms.Go(func() (err error) {
			made[i], err = storm.Storm{
				Namespace: namespace, Pods: 3, Events: eventsEach,
				Repeating: 2, Similar: 2, Series: 2, Reasons: 1,
			}.Run(e.Context(), config)
			return err
		})
	}
	for i := range pendingPods {
		_, err := e.client.CoreV1().Pods(namespace).Create(e.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pending-%d", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "pause"}}},
		}, metav1.CreateOptions{})
		e.must(err)
	}
	e.must(storms.Wait())
	return made[0] + made[1]
}

// stormRequests returns the number of requests about Events by the storm.
func (e *env) stormRequests() (n int64) {
	e.Helper()
	for kind, made := range e.audit().Requests {
		if kind.User == stormUser {
			n += made
		}
	}
	return n
}
