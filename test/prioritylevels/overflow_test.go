package prioritylevels

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
)

// normalWithin bounds the time from the end of a storm until its priority level is free. Waiting requests are executed or rejected within
// queueWait, and the Retry-After of rejected requests is up to 32 s.
const normalWithin = 40 * time.Second

// TestQueueOverflowIsCountedAndEnds starts more writers of one account than its six queues and all seats can hold. It checks that the API
// server counts every rejected try, and that the level is free soon after the storm.
func TestQueueOverflowIsCountedAndEnds(t *testing.T) {
	c := newCluster(t, cluster.Options{NoAudit: true})
	if err := c.InstallPriorityLevels(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := level(t, c, eventLevel)
	noisy := flood.ServiceAccount(stormNamespace, "noisy")
	writers, err := flood.Plan{Namespace: stormNamespace, Users: []flood.User{noisy}, Writers: 600}.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return rejected(level(t, c, eventLevel)) > rejected(before), nil
	})
	if err != nil {
		t.Fatalf("no request was rejected: %v", err)
	}
	storm, err := writers.Stop()
	if err != nil {
		t.Fatal(err)
	}
	after := level(t, c, eventLevel)
	t.Logf("%d Events answered, %d tries rejected: %v", storm.Answered(), storm.Rejected, after.Rejected)
	if got := rejected(after) - rejected(before); got != int64(storm.Rejected) || got == 0 {
		t.Errorf("the API server counts %d rejected requests and the writers %d, want the same number above 0", got, storm.Rejected)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, normalWithin, true, func(context.Context) (bool, error) {
		now := level(t, c, eventLevel)
		return now.Queued == 0 && now.SeatsInUse == 0, nil
	})
	if err != nil {
		t.Errorf("the level is not free %s after the storm: %+v", normalWithin, level(t, c, eventLevel))
	}
	again, err := flood.Plan{Namespace: stormNamespace, Users: []flood.User{noisy}, Writers: 1, Events: 10, HighPriority: true}.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Wait(); err != nil || got.Answers[201] != 10 || got.Rejected > 0 {
		t.Errorf("after the storm: got %+v (error %v), want 10 Events stored at the first try", got, err)
	}
}

// rejected returns the number of rejected requests, over all reasons.
func rejected(l cluster.PriorityLevel) (n int64) {
	for _, count := range l.Rejected {
		n += count
	}
	return n
}
