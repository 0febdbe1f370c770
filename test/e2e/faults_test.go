package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/cluster"
)

// TestFaults checks I1 for three replicas that share a Redis, while their parts fail one after the other during
// storms. In the end, stored Events must report the occurrences that reached the API server, except for the
// differences that each fault explains. The first storm has no fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	newFaultEnv(t, newStandaloneRedis(t)).runFaults(
		fault{statusNamespace, checkCountsAgree},
		fault{"redis-restarts", restartRedis},
		fault{"replica-killed", killReplica},
		fault{"leader-killed", killLeader},
	)
}

// TestFaultLeaderHangs mostly waits, so it runs in parallel on its own control plane.
func TestFaultLeaderHangs(t *testing.T) {
	t.Parallel()
	newFaultEnv(t, newStandaloneRedis(t)).runFaults(fault{"leader-hangs", hangLeader})
}

func TestFaultSentinelMasterKilled(t *testing.T) {
	t.Parallel()
	newFaultEnv(t, newSentinelRedis(t)).runFaults(fault{"master-killed", killMaster})
}

func TestFaultClusterMasterKilled(t *testing.T) {
	t.Parallel()
	newFaultEnv(t, newClusterRedis(t)).runFaults(fault{"master-killed", killMaster})
}

// killReplica kills a replica that is not the leader. Its local refusals of up to one flush interval are lost if it
// had not reported them to Redis. The API server admits the calls that it did not answer. They are reported twice if
// the replica had carried them out.
func killReplica(e *faultEnv) *faultyStorm {
	before := e.outcomes()
	s := e.begin(1, spamming) // about one Pod, so that the replica refuses some
	victim := (e.leader() + 1) % len(e.set.Replicas)
	e.eventually("the replica has refused Events", func() bool { return e.outcomes()[victim]["drop"]-before[victim]["drop"] > 5 })
	e.must(e.set.Kill(e.Context(), victim))
	s.faultTime = time.Now()
	e.must(e.set.Restart(e.Context(), victim))
	calls := s.end()
	refused := func(c auditCall) bool { return c.dropped }
	e.Logf("%d occurrences were refused in the last 200 ms before the fault", newOccurrences(calls, s.faultTime.Add(-200*time.Millisecond), s.faultTime, refused))
	return s.allow(newOccurrences(calls, s.faultTime.Add(-localReportWithin), s.faultTime, refused), failedOpenCount(calls))
}

// killLeader kills a leader that answers no reviews. It loses nothing, because its successor writes the claimed
// counts. The API server admits a call on an old connection at that moment, and it may be reported twice.
func killLeader(e *faultEnv) *faultyStorm {
	s := e.begin(30, longer)
	leader := e.leader()
	e.must(e.set.SetReady(e.Context(), leader, false))
	e.waitDrained(leader)
	e.eventually("more writes are due than the leader can make at once", func() bool { return len(e.pending()) > 20 })
	e.must(e.set.Kill(e.Context(), leader))
	s.faultTime = time.Now()
	e.Logf("the leader left %d pending writes", len(e.pending()))
	e.eventually("another replica leads", func() bool {
		now, err := e.set.Leader(e.Context())
		return err == nil && now >= 0 && now != leader
	})
	e.must(e.set.Restart(e.Context(), leader))
	return s.allow(0, failedOpenCount(s.end()))
}

// hangLeader suspends the leader's process and later resumes it. Meanwhile another replica writes pending counts. The
// API server admits the leader's calls of that time, and they are reported twice if the leader had carried them out.
// No count decreases.
func hangLeader(e *faultEnv) *faultyStorm {
	s := e.begin(30, longer)
	leader := e.leader()
	holder := e.leaseHolder()
	e.eventually("the leader writes Events that it has written before, without reading them", func() bool {
		written := map[string]bool{}
		for _, c := range e.settlerCalls(s.namespace) {
			if written[c.name] {
				return true
			}
			written[c.name] = true
		}
		return false
	})
	e.must(e.set.Pause(e.Context(), leader))
	s.faultTime = time.Now()
	e.eventually("another replica leads", func() bool { return e.leaseHolder() != holder })
	led := time.Now()
	e.eventually("the leader settles again", func() bool {
		return slices.ContainsFunc(e.settlerCalls(s.namespace), func(c auditCall) bool { return c.begun.After(led) })
	})
	e.must(e.set.Resume(e.Context(), leader))
	s.allow(0, failedOpenCount(s.end()))
	written := map[string]int64{}
	for _, c := range e.settlerCalls(s.namespace) {
		if c.count < written[c.name] {
			e.Errorf("the count of %s went from %d to %d", c.name, written[c.name], c.count)
		}
		written[c.name] = c.count
	}
	if len(written) == 0 {
		e.Error("the new leader settled nothing")
	}
	return s
}

// restartRedis restarts Redis, which loses no acknowledged write. The replica finds out whether a call without an
// answer was carried out.
func restartRedis(e *faultEnv) *faultyStorm {
	s := e.begin(30, briefly)
	s.faultTime = time.Now()
	failed := e.metricOfEach(storeErrors)
	server := e.masters()[0]
	e.must(server.Stop())
	e.eventually("calls to Redis have failed", func() bool { return !slices.Equal(e.metricOfEach(storeErrors), failed) })
	e.must(server.Launch())
	e.must(server.WaitReady(e.Context()))
	s.end()
	e.checkNoneFailed()
	return s
}

// killMaster kills a Redis master. Its last acknowledged writes that were not replicated may be lost, or reported
// twice if another Event was stored instead.
func killMaster(e *faultEnv) *faultyStorm {
	s := e.begin(30, briefly)
	e.Logf("replication to all replicas took %s", e.waitReplicated())
	decided, reported := e.localDecisions()
	s.faultTime = time.Now()
	e.must(e.redis.kill(e.Context()))
	calls := s.end()
	e.checkLocalDecisions(decided, reported)
	e.checkNoneFailed()
	last := newOccurrences(calls, s.faultTime.Add(-replicatedWithin), time.Now(), func(c auditCall) bool { return c.begun.Before(s.faultTime) })
	return s.allow(last, last)
}

const (
	// idleFor is longer than a replica holds decisions before it reports them to Redis.
	idleFor = 2 * time.Second
	// idleTimeout bounds the wait for idle replicas: the longest wait between two writes of an Event.
	idleTimeout = 7 * time.Minute
)

// waitIdle waits until Redis has no pending writes and no replica has a backlog. The count of an Event that was not
// found is excluded, because it waits for the next Event of its kind. All replicas must be running.
func (e *faultEnv) waitIdle() {
	e.Helper()
	state, since := "", time.Now()
	err := wait.PollUntilContextTimeout(e.Context(), time.Second, idleTimeout, true, func(context.Context) (bool, error) {
		pending, waiting := int64(0), append(e.metricOfEach(storeUnavailable), e.metricOfEach(reportsWaiting)...)
		for _, p := range e.pending() {
			if p.Name != "" {
				pending++
			}
		}
		now := fmt.Sprint(pending, waiting)
		if now != state || pending > 0 || slices.Max(waiting) > 0 {
			state, since = now, time.Now()
		}
		return time.Since(since) > idleFor, nil
	})
	if err != nil {
		e.Errorf("not idle %s after the storm: pending writes, replicas without Redis, and their backlogs: %s", idleTimeout, state)
	}
}

// pending returns the pending writes in Redis, due or not.
func (e *faultEnv) pending() []store.PendingWrite {
	e.Helper()
	o := redisclient.DefaultOptions()
	o.Addresses, o.SentinelMaster, o.Cluster = e.redis.options.Addresses, e.redis.options.SentinelMaster, e.redis.options.Cluster
	o.Timeout = time.Minute // for a busy machine
	client, err := redisclient.New(*o)
	e.must(err)
	defer client.Close()
	writes, err := redis.New(client, redis.Options{Prefix: redis.DefaultPrefix}).Claim(
		e.Context(), time.Now(), math.MaxInt64, math.MaxInt32, func(string, store.Key) bool { return false })
	e.must(err)
	return writes
}

// lateOccurrences counts the occurrences in a namespace whose Event was not found and that wait for a new one. They
// are reported after ten minutes without one. The replicas must have stopped, so that none of them is written any
// more.
func (e *faultEnv) lateOccurrences(namespace string) (n int64) {
	e.Helper()
	for _, p := range e.pending() {
		if p.Namespace == namespace {
			n += p.Unreported()
		}
	}
	return n
}

// leaseHolder returns the holder of the settler's Lease.
func (e *faultEnv) leaseHolder() string {
	e.Helper()
	lease, err := e.client.CoordinationV1().Leases(cluster.ServiceNamespace).Get(e.Context(), "eventquota-settler", metav1.GetOptions{})
	e.must(err)
	return *lease.Spec.HolderIdentity
}

// waitDrained waits until a replica that was removed from the Service gets no more calls and has reported all its
// decisions to Redis.
func (e *faultEnv) waitDrained(i int) {
	e.Helper()
	calls, since := int64(-1), time.Now()
	e.eventually("a replica that was removed from the Service gets no calls", func() bool {
		if now := e.metric(e.set.Replicas[i], "eventquota_decisions_total"); now != calls {
			calls, since = now, time.Now()
		}
		return time.Since(since) > localReportWithin && e.metric(e.set.Replicas[i], reportsWaiting) == 0
	})
}

// localDecisions returns the number of local decisions of each replica, and how many of them it has reported.
func (e *faultEnv) localDecisions() (decided, reported []int64) {
	return e.metricOfEach(decisionsWithoutStore), e.metricOfEach(reports)
}

// checkLocalDecisions checks that the replicas have made more local decisions than decided, and reported more than
// reported to Redis.
func (e *faultEnv) checkLocalDecisions(decided, reported []int64) {
	e.Helper()
	d, r := e.localDecisions()
	d, r = difference(d, decided), difference(r, reported)
	e.Logf("the replicas made %v decisions without Redis, and reported %v of them", d, r)
	if slices.Max(d) == 0 {
		e.Error("no replica decided without Redis")
	}
	for i := range d {
		if d[i] > 0 && r[i] == 0 {
			e.Errorf("replica %d reported none of its %d local decisions", i, d[i])
		}
	}
}

// outcomes returns how many reviews each replica has answered, by outcome.
func (e *faultEnv) outcomes() (each []map[string]int64) {
	e.Helper()
	for _, r := range e.set.Replicas {
		answered, err := r.Decisions(e.Context(), "outcome")
		e.must(err)
		each = append(each, answered)
	}
	return each
}
