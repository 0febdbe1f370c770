package clients

import (
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/test/cli"
	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// replicas is the number of replicas that share Redis. One more takes the place of one of them.
	replicas = 3
	// decisionsWithoutStore counts the local decisions of a replica, and reportsWaiting what it has not reported to Redis yet.
	decisionsWithoutStore = "eventquota_decisions_without_store_total"
	reportsWaiting        = "eventquota_backlog_entries"
	storeUnavailable      = "eventquota_store_unavailable"
	answeredReviews       = "eventquota_decisions_total"
)

// TestReplicasWithRedis runs the clients with three replicas that share Redis, in three situations: nothing fails, Redis is unavailable, and a
// replica is replaced.
func TestReplicasWithRedis(t *testing.T) {
	t.Parallel()
	for _, component := range []string{"", validatingOnly} {
		t.Run(installation(component), func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, redistest.Options{Persist: true, Fsync: "always"})
			e := newEnv(t, component, replicas+1, "--redis-addresses="+redis.Addr(),
				"--calls-per-connection=10", // all replicas are called
				"--store-deadline=1s",       // Redis is unavailable only when the test stops it
			)
			e.must(e.set.Stop(t.Context(), replicas))
			e.running = []int{0, 1, 2}
			r := &redisEnv{env: e, redis: redis}
			r.situation("healthy", func(publish func() error) { e.must(publish()) })
			r.situation("outage", r.withoutRedis)
			r.situation("rollout", r.replaceReplica)
			var stops errgroup.Group
			for _, i := range e.running {
				stops.Go(e.set.Replicas[i].Stop)
			}
			e.must(stops.Wait())
			e.checkCalls(1)
			for _, over := range r.over {
				over.storm.checkStored(over.results)
			}
		})
	}
}

// redisEnv is an env whose replicas share a Redis.
type redisEnv struct {
	*env
	redis *redistest.Server
	over  []finishedStorm
}

type finishedStorm struct {
	storm   *storm
	results []result
}

// situation runs a storm. during publishes its second part by the function that it gets.
func (e *redisEnv) situation(name string, during func(publish func() error)) {
	e.Helper()
	s := e.newStorm(name, quickClients)
	e.must(s.publish(0))
	during(func() error { return s.publish(1) })
	e.must(s.publish(2))
	if answered := e.each(answeredReviews); slices.Contains(answered, 0) {
		e.Errorf("%s: replicas %d answered %d reviews, want some of each", name, e.running, answered)
	}
	results := s.check()
	s.waitStored(results)
	e.over = append(e.over, finishedStorm{s, results})
}

// withoutRedis stops Redis, and starts it again with its data.
func (e *redisEnv) withoutRedis(publish func() error) {
	e.Helper()
	before := sum(e.each(decisionsWithoutStore))
	e.must(e.redis.Stop())
	e.must(publish())
	if after := sum(e.each(decisionsWithoutStore)); after == before {
		e.Error("no replica decided without Redis while it was stopped")
	}
	e.must(e.redis.Restart(e.Context()))
	cli.Eventually(e.T, "all replicas call Redis again and have reported their decisions", func() bool {
		return sum(e.each(storeUnavailable))+sum(e.each(reportsWaiting)) == 0
	})
}

// replaceReplica starts a replica, and then stops another one, while the clients publish.
func (e *redisEnv) replaceReplica(publish func() error) {
	e.Helper()
	published := make(chan error, 1)
	go func() { published <- publish() }()
	e.must(e.set.Restart(e.Context(), replicas))
	e.must(e.set.Stop(e.Context(), 0))
	e.running = []int{1, 2, 3}
	e.must(<-published)
}

// sum returns the sum of all values.
func sum(values []int64) (n int64) {
	for _, value := range values {
		n += value
	}
	return n
}
