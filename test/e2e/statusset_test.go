package e2e

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestStatusOfReplicas holds that a status counts what all replicas decide, and
// goes on when the one that writes it is killed.
func TestStatusOfReplicas(t *testing.T) {
	if !isolated(t) {
		return
	}
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, 3, sharedFlags("--redis-addresses="+redis.Addr())...)
	e.namespace(statusNamespace)
	e.policiesGovern(statusNamespace)
	e.apply(fmt.Sprintf(statusPolicies, "brake", "Drop", "Enforce", "Noise"))
	// Those that do not know of it yet decide by another.
	var want int64
	e.eventually("every replica knows of it", func() bool {
		n := e.refused(30, 0)
		want += n
		return n == 30
	})
	want += e.refused(300, 3)
	e.allTookPart("mutate")
	t.Logf("%d Events were dropped", want)
	var got v1alpha1.Counts
	t.Cleanup(func() { t.Logf("told in the end: %+v", got) })
	e.eventually("what all have dropped is told", func() bool {
		got = e.total("brake")
		return got.Dropped == want
	})
	since := e.status("brake").Total.Since

	leader, err := e.set.Leader(t.Context())
	e.must(err)
	if leader < 0 {
		t.Fatal("nobody leads")
	}
	killed := time.Now()
	e.must(e.set.Kill(t.Context(), leader))
	want += e.refused(60, 3)
	e.eventually("the next leader goes on", func() bool {
		got = e.total("brake")
		return got.Dropped >= want
	})
	t.Logf("told by the next leader after %v", time.Since(killed).Round(time.Second))
	if last := e.status("brake").Total; last.Dropped != want || !last.Since.Equal(since) {
		t.Errorf("%d dropped since %v, want %d since %v", last.Dropped, last.Since, want, since)
	}
}

// refused writes Events from several goroutines that a policy drops, and
// returns how many it did drop.
func (e *setEnv) refused(n, first int) int64 {
	e.Helper()
	answers := make([]error, n)
	var writers errgroup.Group
	writers.SetLimit(8)
	for i := range n {
		writers.Go(func() error {
			event := coreEvent(statusNamespace, "", fmt.Sprint("web-", first+i%5), fmt.Sprint("noise ", i))
			event.GenerateName, event.Reason, event.Type = "e-", "Noise", corev1.EventTypeNormal
			_, answers[i] = e.client.CoreV1().Events(statusNamespace).Create(e.Context(), event, metav1.CreateOptions{})
			return nil
		})
	}
	e.must(writers.Wait())
	dropped := int64(0)
	for _, err := range answers {
		if dropsIt("EventPolicy watched/brake")(err) {
			dropped++
		}
	}
	return dropped
}
