package prioritylevels

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
)

// checkOverflow starts more writers of one account than its six queues and all seats can hold. It checks that the API server counts every
// rejected try, and that the level is free again after the storm.
func checkOverflow(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	before := level(t, c, eventLevel)
	noisy := flood.ServiceAccount(stormNamespace, "noisy")
	writers, err := flood.Plan{Namespace: stormNamespace, Users: []flood.User{noisy}, Writers: 600}.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	poll(t, 500*time.Millisecond, "a request is rejected", func() bool { return rejected(level(t, c, eventLevel)) > rejected(before) })
	storm, err := writers.Stop()
	if err != nil {
		t.Fatal(err)
	}
	after := level(t, c, eventLevel)
	t.Logf("%d Events answered, %d tries rejected: %v", storm.Answered(), storm.Rejected, after.Rejected)
	if got := rejected(after) - rejected(before); got != int64(storm.Rejected) || got == 0 {
		t.Errorf("the API server counts %d rejected requests and the writers %d, want the same number above 0", got, storm.Rejected)
	}
	poll(t, 100*time.Millisecond, "the level is free again", func() bool {
		now := level(t, c, eventLevel)
		return now.Queued == 0 && now.SeatsInUse == 0
	})
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
