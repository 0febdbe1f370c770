package prioritylevels

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
)

// normalWithin bounds the time after a storm until nothing of it is left: what waits is carried out or rejected after queueWait, and
// rejected writers may be asked to wait for 32 s.
const normalWithin = 40 * time.Second

// TestQueueOverflowIsCountedAndEnds has more writers of one account than its six queues and all seats hold. Each try
// that the API server rejects is in its metrics, and soon after the end of the storm its level is free.
func TestQueueOverflowIsCountedAndEnds(t *testing.T) {
	c := newCluster(t, cluster.Options{NoAudit: true})
	if err := c.InstallPriorityLevels(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := othersLevel(t, c)
	noisy := flood.ServiceAccount(stormNamespace, "noisy")
	writers, err := flood.Plan{Namespace: stormNamespace, Users: []flood.User{noisy}, Writers: 600}.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return rejected(othersLevel(t, c)) > rejected(before), nil
	})
	if err != nil {
		t.Fatalf("nothing was rejected: %v", err)
	}
	stormed, err := writers.Stop()
	if err != nil {
		t.Fatal(err)
	}
	after := othersLevel(t, c)
	t.Logf("%d Events answered, %d tries rejected: %v", stormed.Answered(), stormed.Rejected, after.Rejected)
	if got := rejected(after) - rejected(before); got != int64(stormed.Rejected) || got == 0 {
		t.Errorf("the API server counts %d rejected requests, the writers %d, want as many, and some", got, stormed.Rejected)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, normalWithin, true, func(context.Context) (bool, error) {
		now := othersLevel(t, c)
		return now.Queued == 0 && now.SeatsInUse == 0, nil
	})
	if err != nil {
		t.Errorf("after %s the level is not free: %+v", normalWithin, othersLevel(t, c))
	}
	again, err := flood.Plan{Namespace: stormNamespace, Users: []flood.User{noisy}, Writers: 1, Events: 10, HighPriority: true}.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Wait(); err != nil || got.Answers[201] != 10 || got.Rejected > 0 {
		t.Errorf("afterwards %+v (%v), want 10 Events stored at the first try", got, err)
	}
}

// othersLevel is what the API server has counted of the level of everyone else.
func othersLevel(t *testing.T, c *cluster.Cluster) cluster.PriorityLevel {
	t.Helper()
	levels, err := c.PriorityLevels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return levels["events"]
}

// rejected sums over reasons.
func rejected(l cluster.PriorityLevel) (n int64) {
	for _, of := range l.Rejected {
		n += of
	}
	return n
}
