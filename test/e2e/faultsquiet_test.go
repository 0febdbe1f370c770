package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/connect"
)

const (
	// claimedFor is how long what a settler had claimed stays claimed when it is
	// killed.
	claimedFor = 30 * time.Second
	// quietFor is longer than it takes until what replicas hold goes to Redis.
	quietFor = 4 * time.Second
	// quietWithin bounds the wait for that: a claim, a flush interval before and
	// after it, and as much again on a busy machine.
	quietWithin = 2 * (claimedFor + 2*flushInterval)
)

// quiet waits until nothing is owed any more in Redis, and no replica has
// anything to hand over to it. All replicas run.
func (e *faultEnv) quiet() {
	e.Helper()
	state, since := "", time.Now()
	err := wait.PollUntilContextTimeout(e.Context(), 200*time.Millisecond, quietWithin, true, func(context.Context) (bool, error) {
		owed, away := e.due(-time.Hour, claimedFor+flushInterval), e.each(storeAway)
		now := fmt.Sprint(e.told(), owed, e.each(handOvers), away)
		if now != state || owed > 0 || slices.Max(away) > 0 {
			state, since = now, time.Now()
		}
		return time.Since(since) > quietFor, nil
	})
	if err != nil {
		e.Errorf("not all is settled %s after the storm; told, owed, hand-overs and stores away: %s", quietWithin, state)
	}
}

// late is how many occurrences will be told when a window has passed in which no
// Event comes in the place of one that is gone: that is ten minutes. The replicas
// have stopped, and nobody settles any more.
func (e *faultEnv) late() (n int64) {
	e.Helper()
	o := connect.DefaultOptions()
	o.Addresses, o.SentinelMaster, o.Cluster = e.redis.options.Addresses, e.redis.options.SentinelMaster, e.redis.options.Cluster
	client, err := connect.New(*o)
	e.must(err)
	defer client.Close()
	debts, err := store.NewRedis(client, store.RedisOptions{Prefix: store.DefaultRedisPrefix}).
		Due(e.Context(), time.Now(), time.Hour, math.MaxInt32)
	e.must(err)
	for _, debt := range debts {
		n += debt.Total
		if stored := e.event(debt.Namespace, debt.Name); stored != nil {
			n -= occurrences(stored)
		}
	}
	return n
}
