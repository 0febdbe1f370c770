package sink

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission"
)

// TestRetriedBatchLeavesSpaceToOthers floods the smallest queue while the collector is unreachable. Other namespaces still get their
// share, although records that are being sent cannot be evicted.
func TestRetriedBatchLeavesSpaceToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCollector{answer: func(context.Context, [][]byte) (SendResult, int) {
			return SendResult{Err: errUnavailable, Retry: true}, 0
		}}
		counted := newCounts()
		s, stop := startSink(t, c, Options{Counts: counted, Bytes: MinBytes, DrainTimeout: time.Second})
		long := func(d *admission.FullDecision) { d.Request.Object.Message = strings.Repeat("x", 8<<10) }
		for range 500 {
			s.CopyDecided(dropDecision("flood", long))
		}
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		for range 40 {
			s.CopyDecided(dropDecision("quiet", long))
		}
		if n := counted.undelivered["quiet"]; n > 0 {
			t.Errorf("the quiet namespace has lost %d of 40 records", n)
		}
		stop()
	})
}
