package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

const (
	// quietFor is longer than it takes until what replicas hold goes to Redis.
	quietFor = 2 * time.Second
	// quietWithin bounds the wait for that: the longest wait between two writes of an Event.
	quietWithin = 7 * time.Minute
)

// quiet waits until nothing is pending any more in Redis, and no replica has anything to report to it.
// Of an Event that was not found, what it was to report waits for the next one. All replicas run.
func (e *faultEnv) quiet() {
	e.Helper()
	state, since := "", time.Now()
	err := wait.PollUntilContextTimeout(e.Context(), 200*time.Millisecond, quietWithin, true, func(context.Context) (bool, error) {
		pending, waiting := int64(0), append(e.each(storeUnavailable), e.each(reportsWaiting)...)
		for _, p := range e.pending() {
			if p.Name != "" {
				pending++
			}
		}
		now := fmt.Sprint(pending, waiting)
		if now != state || pending > 0 || slices.Max(waiting) > 0 {
			state, since = now, time.Now()
		}
		return time.Since(since) > quietFor, nil
	})
	if err != nil {
		e.Errorf("not all is settled %s after the storm; pending, and replicas without Redis or with reports: %s", quietWithin, state)
	}
}

// pending is what Redis has still to be written, due or not.
func (e *faultEnv) pending() []store.PendingWrite {
	e.Helper()
	o := redisclient.DefaultOptions()
	o.Addresses, o.SentinelMaster, o.Cluster = e.redis.options.Addresses, e.redis.options.SentinelMaster, e.redis.options.Cluster
	o.DialTimeout, o.Timeout = time.Minute, time.Minute // on a machine that is busy
	client, err := redisclient.New(*o)
	e.must(err)
	defer client.Close()
	writes, err := redis.New(client, redis.Options{Prefix: redis.DefaultPrefix}).Claim(
		e.Context(), time.Now(), math.MaxInt64, math.MaxInt32, func(string, store.Key) bool { return false })
	e.must(err)
	return writes
}

// late is how many occurrences will be reported when a window has passed in which no Event comes in the
// place of one that was not found: that is ten minutes. The replicas have stopped, and nobody settles
// any more.
func (e *faultEnv) late() (n int64) {
	e.Helper()
	for _, p := range e.pending() {
		n += p.Unreported()
	}
	return n
}
