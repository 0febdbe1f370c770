package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/replica"
)

// Three replicas share a Redis, and one part is lost in a storm: what is told in the
// end is what reached the API server, or differs by no more than the fault explains.

func TestFaultReplicaKilled(t *testing.T) {
	if isolated(t) {
		aReplicaIsKilled(newFaultEnv(t, standalone(t)))
	}
}

func TestFaultLeaderKilled(t *testing.T) {
	if isolated(t) {
		theLeaderIsKilled(newFaultEnv(t, standalone(t)))
	}
}

func TestFaultLeaderHangs(t *testing.T) {
	if isolated(t) {
		theLeaderHangs(newFaultEnv(t, standalone(t)))
	}
}

func TestFaultRedisRestarts(t *testing.T) {
	if isolated(t) {
		redisRestarts(newFaultEnv(t, standalone(t)))
	}
}

func TestFaultSentinelsMasterKilled(t *testing.T) {
	if isolated(t) {
		aMasterIsKilled(newFaultEnv(t, withSentinels(t)))
	}
}

func TestFaultClusterMasterKilled(t *testing.T) {
	if isolated(t) {
		aMasterIsKilled(newFaultEnv(t, inACluster(t)))
	}
}

// aReplicaIsKilled: missing is what it refused by itself from memory and had not
// told Redis, a flush interval of refusals at most. Calls that it did not answer
// are admitted by the API server, and told twice where it had carried them out.
func aReplicaIsKilled(e *faultEnv) {
	s := e.begin()
	victim := (e.leader() + 1) % len(e.set.Replicas)
	e.refuses(victim)
	e.must(e.set.Kill(e.Context(), victim))
	s.broken = time.Now()
	e.must(e.set.Restart(e.Context(), victim))
	calls := s.end()
	refused := func(c auditCall) bool { return c.dropped }
	e.Logf("%d occurrences were refused in the last 200 ms before", first(calls, s.broken.Add(-200*time.Millisecond), s.broken, refused))
	s.holds(first(calls, s.broken.Add(-refusalsHeld), s.broken, refused), passed(calls))
}

// theLeaderIsKilled: of a leader that answers no reviews nothing is missing, as
// what it had claimed to write is written by its successor. A call that comes by
// an old connection just then is admitted by the API server, and may be told twice.
func theLeaderIsKilled(e *faultEnv) {
	s := e.begin()
	leader := e.leader()
	e.must(e.set.SetReady(e.Context(), leader, false))
	e.rests(leader)
	e.eventually("there is more due than the leader can write at once", func() bool { return len(e.pending()) > 20 })
	e.must(e.set.Kill(e.Context(), leader))
	s.broken = time.Now()
	e.Logf("it has left %d pending writes", len(e.pending()))
	e.eventually("another replica leads", func() bool {
		now, err := e.set.Leader(e.Context())
		return err == nil && now >= 0 && now != leader
	})
	e.must(e.set.Restart(e.Context(), leader))
	s.holds(0, passed(s.end()))
}

// theLeaderHangs: another settles meanwhile, and it goes on where it was. Its calls of that time are
// admitted by the API server, and told twice where they had been carried out. No count goes down.
func theLeaderHangs(e *faultEnv) {
	s := e.begin()
	leader := e.leader()
	holder := e.holder()
	e.eventually("it writes what it has written before, and does not read it again", func() bool {
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
	s.broken = time.Now()
	e.eventually("another replica leads", func() bool { return e.holder() != holder })
	<-time.After(time.Until(s.broken.Add(time.Minute)))
	e.must(e.set.Resume(e.Context(), leader))
	s.holds(0, passed(s.end()))
	written := map[string]int64{}
	for _, c := range e.settlerCalls(s.namespace) {
		if c.count < written[c.name] {
			e.Errorf("the count of %s went from %d to %d", c.name, written[c.name], c.count)
		}
		written[c.name] = c.count
	}
	if len(written) == 0 {
		e.Error("nothing was settled")
	}
}

// settlerCalls are the settler's writes of Events of a namespace that the API server took.
func (e *faultEnv) settlerCalls(namespace string) []auditCall {
	e.Helper()
	calls := e.callsOf(namespace, func(user string) bool { return user == replica.User })
	return slices.DeleteFunc(calls, func(c auditCall) bool { return c.code/100 != 2 })
}

// redisRestarts: nothing that it had answered is lost. Of a call that it has not
// answered, the replica finds out whether it was carried out.
func redisRestarts(e *faultEnv) {
	s := e.begin()
	s.broken = time.Now()
	failed := e.each(storeErrors)
	e.must(e.masters()[0].Restart(e.Context()))
	s.end()
	if after := e.each(storeErrors); slices.Equal(after, failed) {
		e.Errorf("%v calls of Redis have failed at each replica, as many as before it restarted", after)
	}
	e.noneFailed()
	s.holds(0, 0)
}

// aMasterIsKilled: what it had answered in its last moment and not yet told its
// replicas may be missing, or told twice where another Event was stored instead.
func aMasterIsKilled(e *faultEnv) {
	s := e.begin()
	e.Logf("to all replicas of masters it took %s", e.replicated())
	s.broken = time.Now()
	e.must(e.redis.kill(e.Context()))
	calls := s.end()
	e.decidedAlone()
	e.noneFailed()
	last := first(calls, s.broken.Add(-replicatedWithin), time.Now(), func(c auditCall) bool { return c.begun.Before(s.broken) })
	s.holds(last, last)
}
